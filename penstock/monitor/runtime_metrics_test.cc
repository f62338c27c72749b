#include "penstock/monitor/runtime_metrics.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/monitor/runtime_metrics.pb.h"

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace penstock::monitor {
namespace runtime_metrics_test {

using ::testing::IsNull;
using tpu::monitoring::runtime::MetricRequest;
using tpu::monitoring::runtime::MetricResponse;

// libtpu's service: answers with `answers[metric name]`, as bytes.
class FakeLibtpu : public grpc::CallbackGenericService {
 public:
  FakeLibtpu() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeLibtpu() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  void Answer(const std::string& metric, const MetricResponse& response) {
    answers_[metric] = response.SerializeAsString();
  }
  void AnswerBytes(const std::string& metric, const std::string& bytes) {
    answers_[metric] = bytes;
  }

 private:
  struct Call : grpc::ServerGenericBidiReactor {
    explicit Call(FakeLibtpu& fake) : fake(fake) { StartRead(&request); }
    void OnReadDone(bool) override {
      MetricRequest parsed;
      grpc::ProtoBufferReader reader(&request);
      parsed.ParseFromZeroCopyStream(&reader);
      const auto it = fake.answers_.find(parsed.metric_name());
      if (it == fake.answers_.end()) {
        Finish(grpc::Status(grpc::StatusCode::NOT_FOUND, "no such metric"));
        return;
      }
      const grpc::Slice slice(it->second);
      response = grpc::ByteBuffer(&slice, 1);
      StartWriteAndFinish(&response, grpc::WriteOptions(), grpc::Status::OK);
    }
    void OnDone() override { delete this; }

    FakeLibtpu& fake;
    grpc::ByteBuffer request, response;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Call(*this);
  }

  std::map<std::string, std::string> answers_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

constexpr char kDutyCycle[] = "tpu.runtime.tensorcore.dutycycle.percent";
constexpr char kMemory[] = "tpu.runtime.hbm.memory.usage.bytes";

MetricResponse TwoDevices() {
  MetricResponse response;
  for (int i = 0; i < 2; ++i) {
    auto* metric = response.mutable_metric()->add_metrics();
    metric->mutable_attribute()->set_key("device-id");
    metric->mutable_attribute()->mutable_value()->set_int_attr(4 + i);
    metric->mutable_gauge()->set_as_double(50 + i);
  }
  return response;
}

TEST(RuntimeMetricsTest, ReadsDutyCycleAndMemoryOfEachDevice) {
  FakeLibtpu libtpu;
  libtpu.Answer(kDutyCycle, TwoDevices());
  MetricResponse memory;
  memory.mutable_metric()->add_metrics()->mutable_gauge()->set_as_int(int64_t{3} << 30);
  libtpu.Answer(kMemory, memory);
  Registry registry;
  RuntimeMetrics tpu(registry, libtpu.address());
  EXPECT_TRUE(tpu.Read());
  const Snapshot snapshot = registry.Take();
  EXPECT_EQ(*snapshot.Find("penstock_tpu_duty_cycle_ratio", "4"), 0.5);
  EXPECT_EQ(*snapshot.Find("penstock_tpu_duty_cycle_ratio", "5"), 0.51);
  EXPECT_EQ(*snapshot.Find("penstock_tpu_memory_used_bytes", "0"), 3.0 * (1 << 30));
  EXPECT_THAT(snapshot.Find("penstock_tpu_memory_total_bytes", "0"), IsNull());
}

TEST(RuntimeMetricsTest, ShowsNothingOfAServiceThatHasEnded) {
  Registry registry;
  auto libtpu = std::make_unique<FakeLibtpu>();
  libtpu->Answer(kDutyCycle, TwoDevices());
  RuntimeMetrics tpu(registry, libtpu->address());
  EXPECT_TRUE(tpu.Read());
  libtpu.reset();
  EXPECT_FALSE(tpu.Read());
  EXPECT_THAT(registry.Take().Find("penstock_tpu_duty_cycle_ratio", "4"), IsNull());
}

TEST(RuntimeMetricsTest, IgnoresAnswersThatMakeNoSense) {
  FakeLibtpu libtpu;
  MetricResponse response;
  for (int i = 0; i < 1000; ++i) {
    auto* metric = response.mutable_metric()->add_metrics();
    metric->mutable_attribute()->mutable_value()->set_int_attr(i);
    metric->mutable_gauge()->set_as_double(i);
  }
  response.mutable_metric()->mutable_metrics(0)->mutable_gauge()->set_as_string("many");
  response.mutable_metric()->mutable_metrics(1)->mutable_gauge()->set_as_double(0.0 / 0.0);
  libtpu.Answer(kDutyCycle, response);
  libtpu.AnswerBytes(kMemory, "\xff\xff not a message");
  Registry registry;
  RuntimeMetrics tpu(registry, libtpu.address());
  EXPECT_TRUE(tpu.Read());
  EXPECT_EQ(registry.Take().metrics.size(), 62);  // 64 devices without the first two
}

TEST(RuntimeMetricsTest, EndsWhilePolling) {
  Registry registry;
  FakeLibtpu libtpu;
  RuntimeMetrics tpu(registry, libtpu.address());
  tpu.Poll();
}

}  // namespace runtime_metrics_test
}  // namespace penstock::monitor
