// Sessions at a worker's process, opened, broken, taken over and killed, for PENSTOCK_SOAK_SECONDS (default: 4): results
// stay the same, and at the end neither process holds more than at the begin. `tools/soak 300 remote` runs it for five
// minutes, of which one on a line that loses half of its connections. PENSTOCK_SOAK_ONLY=train repeats one of its actions,
// to find out which one leaves something.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/remote/client.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/testing/fault_proxy.h"
#include "penstock/runtime/testing/test_device.h"

#include "tests/remote/http2_attacker.h"
#include "tests/remote/processes.h"
#include "tests/remote/small_training.h"

namespace penstock::tests {
namespace {

double SoakSeconds() {
  const char* const text = std::getenv("PENSTOCK_SOAK_SECONDS");
  return text == nullptr ? 4 : std::atof(text);
}

class SoakTest : public testing::Test {
 protected:
  using Clock = std::chrono::steady_clock;

  SoakTest() : worker_({.folder = folder_.path(), .lease = 2}), proxy_(worker_.port()) {}

  std::shared_ptr<runtime::Client> Open() {
    auto client = remote::OpenRemoteClient({.address = proxy_.address(),
                                            .take_over = true,
                                            .connect_seconds = 60,
                                            .note = [](absl::string_view) {}});
    EXPECT_TRUE(client.ok()) << client.status();
    return client.value_or(nullptr);
  }

  void Train() { ExpectSameState(undisturbed_, TrainSmall(Open(), fit_)); }

  // All connections are reset, less and less often: else a slow machine would never open a session between.
  void TrainWithCuts() {
    std::atomic<bool> trained = false;
    std::thread cuts([&] {
      for (double wait = 20; !trained.load(); wait *= 1.2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(static_cast<int>(wait)));
        proxy_.CutAll();
      }
    });
    Train();
    trained.store(true);
    cuts.join();
  }

  // Half of the connections are refused or end soon.
  void TrainOnABadLine() {
    proxy_.set_faults([random = base::Random(random_())](int) mutable {
      if (random.Uniform() < 0.5) return remote::Fault{};
      if (random.Uniform() < 0.3) return remote::Fault{.refuse = true};
      return remote::Fault{.end_after_seconds = 0.1 * random.Uniform()};
    });
    Train();
    proxy_.set_faults({});
  }

  void TakeOver() {
    const auto first = Open();
    const auto second = Open();
    ASSERT_TRUE(first && second);
    const base::Array one = base::Array::Scalar(1.f);
    const auto kept = second->Put(one, second->devices()[0]);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(kept->Get()->item<float>(), 1.f);
    const auto lost = first->Put(one, first->devices()[0]);
    EXPECT_FALSE(lost.ok() && lost->Get().ok());
  }

  void KillAClient() {
    Process client({"/proc/self/exe", "--gtest_also_run_disabled_tests",
                    "--gtest_filter=SoakTest.DISABLED_TrainsWithoutEnd"},
                   {absl::StrCat(kWorkerVariable, "=", proxy_.address())});
    (void)client.AwaitLine("training");
    std::this_thread::sleep_for(std::chrono::milliseconds(static_cast<int>(random_() % 500)));
    client.Kill();
  }

  void Strangers() {
    for (int i = 0; i < 20; ++i) {
      Attacker attacker(worker_.port());
      if (i % 3 > 0) (void)attacker.Send(i % 3 == 1 ? "GET / HTTP/1.1\r\n\r\n" : Http2Begin());
    }
  }

  // Until the worker has no session, and neither process more descriptors and threads than before (gRPC closes channels
  // after their end), for at most 20 s.
  void Settle(const Held& worker, const Held& here) {
    const auto few = [](const Held& now, const Held& before) {
      return now.descriptors <= before.descriptors && now.threads <= before.threads + 4;
    };
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < deadline) {
      const auto described = remote::DescribeWorker({.address = worker_.address()});
      ASSERT_TRUE(described.ok()) << described.status();
      sessions_ = described->sessions_size();
      if (sessions_ == 0 && few(HeldBy(worker_.process().id()), worker) &&
          few(HeldBy(::getpid()), here)) {
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  void Print(const char* when) {
    const Held worker = HeldBy(worker_.process().id()), here = HeldBy(::getpid());
    std::printf(
        "%-8s %5d rounds; worker %4lld MB, %3lld threads, %3lld descriptors; client %4lld "
        "MB, %3lld threads, %3lld descriptors\n",
        when, rounds_, static_cast<long long>(worker.megabytes),
        static_cast<long long>(worker.threads), static_cast<long long>(worker.descriptors),
        static_cast<long long>(here.megabytes), static_cast<long long>(here.threads),
        static_cast<long long>(here.descriptors));
    std::fflush(stdout);
  }

  static void ExpectNoMore(const Held& before, const Held& after, int64_t megabytes) {
    EXPECT_LE(after.descriptors, before.descriptors);
    EXPECT_LE(after.threads, before.threads + 4);  // threads that wait for work come and go
    EXPECT_LE(after.megabytes, before.megabytes + megabytes);
  }

  const TemporaryFolder folder_;
  WorkerProcess worker_;
  remote::FaultProxy proxy_;
  std::mt19937 random_{static_cast<unsigned>(base::EntropySeed())};
  const train::FitOptions fit_{.epochs = 1, .verbose = 0};
  const base::NamedArrays undisturbed_ = TrainSmall(runtime::TestClient(1), fit_);
  int rounds_ = 0, sessions_ = -1;
};

// What a client's process does: it trains until it is killed.
TEST_F(SoakTest, DISABLED_TrainsWithoutEnd) {
  const char* const address = std::getenv(kWorkerVariable);
  ASSERT_NE(address, nullptr);
  auto client = remote::OpenRemoteClient({.address = address, .take_over = true});
  ASSERT_TRUE(client.ok()) << client.status();
  std::printf("training\n");
  std::fflush(stdout);
  TrainSmall(*std::move(client), {.epochs = 1000000, .verbose = 0});
}

TEST_F(SoakTest, HoldsNoMoreAtTheEnd) {
  std::map<std::string, std::function<void()>> actions = {
      {"train", [this] { Train(); }},
      {"cuts", [this] { TrainWithCuts(); }},
      {"bad_line", [this] { TrainOnABadLine(); }},
      {"take_over", [this] { TakeOver(); }},
      {"kill", [this] { KillAClient(); }},
      {"strangers", [this] { Strangers(); }}};
  const char* const only = std::getenv("PENSTOCK_SOAK_ONLY");
  if (only != nullptr) {
    ASSERT_EQ(actions.count(only), 1u) << only;
    actions = {{only, actions[only]}};
  }
  Print("begin");
  for (int i = 0; i < 2; ++i) {
    for (const auto& [name, action] : actions) action();
  }
  Settle(HeldBy(worker_.process().id()), HeldBy(::getpid()));
  Print("warm");
  const Held worker = HeldBy(worker_.process().id()), here = HeldBy(::getpid());
  const double seconds = SoakSeconds();
  const auto begin = Clock::now();
  const auto part = [&] {
    return std::chrono::duration<double>(Clock::now() - begin).count() / seconds;
  };
  for (double printed = 0.1; part() < 1 && !HasFailure(); ++rounds_) {
    // A fifth of the time, nothing but a bad line.
    if (only == nullptr && part() > 0.4 && part() < 0.6) {
      TrainOnABadLine();
    } else {
      std::next(actions.begin(), static_cast<std::ptrdiff_t>(random_() % actions.size()))->second();
    }
    if (part() < printed) continue;
    printed += 0.1;
    Print("");
  }
  Settle(worker, here);
  Print("end");
  EXPECT_EQ(sessions_, 0);
  EXPECT_EQ(worker_.TemporaryFiles(), std::vector<std::string>());
  ExpectNoMore(worker, HeldBy(worker_.process().id()), 32);
  ExpectNoMore(here, HeldBy(::getpid()), 32);
}

}  // namespace
}  // namespace penstock::tests
