#include "penstock/monitor/worker_monitor.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/monitor/prometheus.h"
#include "penstock/remote/worker/worker.h"

namespace penstock::monitor {
namespace worker_monitor_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::Not;

constexpr char kAda[] = "4f3a91c2 ada@laptop", kBob[] = "11111111 bob@desk";

remote::SessionInfo* AddSession(remote::DescribeReply& reply, const std::string& label, int devices,
                                int64_t executions, double busy) {
  remote::SessionInfo* session = reply.add_sessions();
  session->set_session(label.substr(0, 8));
  session->set_user(label.substr(9, 3));
  session->set_host(label.substr(13));
  for (int i = 0; i < devices; ++i) session->add_devices(i);
  session->set_executions(executions);
  session->set_bytes_received(executions * 1000);
  session->set_bytes_sent(executions * 10);
  session->set_busy_seconds(busy);
  session->set_connected(true);
  return session;
}

remote::DescribeReply Reply(int devices) {
  remote::DescribeReply reply;
  for (int i = 0; i < devices; ++i) reply.mutable_worker()->add_devices()->set_kind("TPU v3");
  return reply;
}

TEST(WorkerMonitorTest, ComputesRatesBetweenUpdates) {
  base::FakeClock clock;
  Registry registry(&clock);
  WorkerMonitor monitor(registry);
  remote::DescribeReply reply = Reply(8);
  AddSession(reply, kAda, 4, 100, 10);
  AddSession(reply, kBob, 2, 7, 1);
  monitor.Update(reply);
  Snapshot s = registry.Take();
  EXPECT_EQ(s.state, "serving 2 sessions");
  EXPECT_EQ(s.device, "8 x TPU v3");
  EXPECT_EQ(*s.Find("penstock_session_executions_total", kAda), 100);
  EXPECT_THAT(s.Find("penstock_session_executions_per_second", kAda), IsNull());
  EXPECT_THAT(s.Find("penstock_worker_idle_ratio"), IsNull());

  clock.Advance(2);
  reply = Reply(8);
  AddSession(reply, kAda, 4, 120, 11.5)->set_activity("training step 12");  // 1.5 of 2 s
  AddSession(reply, kBob, 2, 7, 1);
  monitor.Update(reply);
  s = registry.Take();
  EXPECT_DOUBLE_EQ(*s.Find("penstock_session_executions_per_second", kAda), 10);
  EXPECT_DOUBLE_EQ(*s.Find("penstock_session_bytes_per_second", kAda), 10100);
  EXPECT_DOUBLE_EQ(*s.Find("penstock_session_busy_ratio", kAda), 0.75);
  EXPECT_DOUBLE_EQ(*s.Find("penstock_session_busy_ratio", kBob), 0);
  EXPECT_DOUBLE_EQ(*s.Find("penstock_worker_idle_ratio"), 1 - 0.75 * 4 / 8);
  EXPECT_EQ(s.words, "the devices are idle 62 % of the time: no session uses 2 of 8");
  EXPECT_THAT(s.activities, ElementsAre(std::pair(kAda, "training step 12")));
  EXPECT_THAT(PrometheusText(s),
              HasSubstr("penstock_session_busy_ratio{session=\"4f3a91c2 ada@laptop\"} 0.75\n"));
}

TEST(WorkerMonitorTest, ForgetsSessionsThatEnded) {
  base::FakeClock clock;
  Registry registry(&clock);
  WorkerMonitor monitor(registry);
  // Far more sessions than a registry has numbers.
  for (int i = 0; i < 2000; ++i) {
    remote::DescribeReply reply = Reply(1);
    AddSession(reply, absl::StrCat(10000000 + i, " ada@laptop"), 1, i, 0);
    clock.Advance(1);
    monitor.Update(reply);
  }
  const Snapshot s = registry.Take();
  EXPECT_THAT(s.Find("penstock_session_executions_total", "10001998 ada@laptop"), IsNull());
  EXPECT_EQ(*s.Find("penstock_session_executions_total", "10001999 ada@laptop"), 1999);
  EXPECT_THAT(PrometheusText(s), Not(HasSubstr("10000000 ada")));
}

TEST(WorkerMonitorTest, SaysDrainingAndNoClients) {
  base::FakeClock clock;
  Registry registry(&clock);
  WorkerMonitor monitor(registry);
  remote::DescribeReply reply = Reply(1);
  monitor.Update(reply);
  clock.Advance(1);
  reply.set_draining(true);
  reply.set_drain_reason("SIGTERM");
  monitor.Update(reply);
  EXPECT_EQ(registry.Take().state, "draining (SIGTERM), 0 sessions");
  EXPECT_EQ(registry.Take().words, "idle, no client is connected");
  EXPECT_EQ(*registry.Take().Find("penstock_worker_idle_ratio"), 1);
}

// A restarted session counter, an update without time in between, a worker that says nothing.
TEST(WorkerMonitorTest, TakesAnyReply) {
  base::FakeClock clock;
  Registry registry(&clock);
  WorkerMonitor monitor(registry);
  monitor.Update({});
  remote::DescribeReply reply = Reply(1);
  AddSession(reply, kAda, 3, 5, 100);
  monitor.Update(reply);
  monitor.Update(reply);
  clock.Advance(1);
  reply.mutable_sessions(0)->set_executions(1);
  reply.mutable_sessions(0)->set_busy_seconds(-7);
  monitor.Update(reply);
  const Snapshot s = registry.Take();
  EXPECT_EQ(*s.Find("penstock_session_executions_per_second", kAda), 0);
  EXPECT_EQ(*s.Find("penstock_worker_idle_ratio"), 1);
}

TEST(WorkerMonitorTest, ReadsAWorkerOfThisProcess) {
  const auto worker = remote::Worker::Start(
      {.listen = "127.0.0.1:0", .cpu_devices = 2, .log_to_stderr = false, .metadata_host = "off"});
  ASSERT_TRUE(worker.ok()) << worker.status();
  Registry registry;
  WorkerMonitor(registry).Update((*worker)->Describe());
  EXPECT_EQ(registry.Take().state, "serving 0 sessions");
  EXPECT_THAT(registry.Take().device, HasSubstr("2 x "));
}

}  // namespace worker_monitor_test
}  // namespace penstock::monitor
