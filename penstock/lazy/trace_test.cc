// Programs: when they are compiled, what they donate, what is lost with them.
#include "penstock/lazy/trace.h"

#include <cmath>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/lazy/metrics.h"
#include "penstock/lazy/ops.h"
#include "penstock/lazy/optim/optimizers.h"
#include "penstock/lazy/random.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/testing/tensors.h"
#include "penstock/lazy/xm_collectives.h"
#include "penstock/lazy/xmp.h"
#include "penstock/runtime/testing/counting_client.h"

namespace penstock::lazy::trace_test {

using test::ErrorOf;
using test::Make;
using test::TestDevice;
using test::ValuesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A device whose compilations are counted.
class TraceTest : public ::testing::Test {
 protected:
  TraceTest()
      : client_(std::make_shared<runtime::CountingClient>(runtime::TestClient(2))),
        device_(client_, 0),
        before_(client_->compiles()) {}

  // Without that of the kernels' self-test.
  int compiles() const { return client_->compiles() - before_; }

  Tensor On(const Shape& shape, const std::vector<float>& values, bool requires_grad = false) {
    return tensor(Array::Of<float>(shape, absl::MakeConstSpan(values)), device_, requires_grad);
  }

  const std::shared_ptr<runtime::CountingClient> client_;
  const Device device_;
  const int before_;
};

// One step of SGD with momentum, with another learning rate in each.
void Step(Tensor& w, Tensor& momentum, const Tensor& x, int step) {
  w.set_grad(Tensor());
  sum(w * x * w).backward();
  const no_grad scope;
  const Tensor rate = scalar_tensor(0.1 / (step + 1), DType::kF32, w.device());
  momentum.mul_(0.5);
  momentum.add_(w.grad());
  w.sub_(momentum * rate);
}

TEST_F(TraceTest, EqualStepsShareAProgram) {
  Tensor w = On({2}, {1, 2}, true), momentum = On({2}, {0, 0});
  const Tensor x = On({2}, {3, 4});
  double expected = 1, moving = 0;
  for (int step = 0; step < 5; ++step) {
    Step(w, momentum, x, step);
    ASSERT_TRUE(xm::mark_step().ok());
    EXPECT_EQ(compiles(), 1);
    moving = 0.5 * moving + 2 * 3 * expected;
    expected -= 0.1 / (step + 1) * moving;
  }
  ASSERT_TRUE(xm::mark_step().ok());  // nothing to do
  EXPECT_EQ(compiles(), 1);
  EXPECT_NEAR(ValuesOf(w)[0], expected, 1e-4);
}

// Steps whose graphs are the template of the next one: of the same program, of one that differs in
// the middle, of one that reads, and of one that is longer. Gradients are those of a new graph.
TEST_F(TraceTest, StepsAfterAnyOtherStepAreWhatTheyAreAlone) {
  Tensor w = On({2}, {1, 2}, true);
  const Tensor x = On({2}, {3, -4});
  const auto step = [&](int kind) {
    w.set_grad(Tensor());
    Tensor y = w * x;
    if (kind == 1) y = y * 2;
    if (kind == 2) {
      EXPECT_THAT(ValuesOf(y), ElementsAre(3, -8));
    }
    Tensor loss = sum(y * y);
    if (kind == 3) loss = loss + sum(w);
    loss.backward();
    Tensor extra;
    if (kind == 4) {
      extra = w.grad() * 2;
    } else if (kind == 5) {
      (sum(w * 3) * 1).backward();
    }
    EXPECT_TRUE(xm::mark_step().ok());
    const std::vector<float> gradient = ValuesOf(w.grad());
    if (kind == 4) {
      EXPECT_THAT(ValuesOf(extra), ElementsAre(2 * gradient[0], 2 * gradient[1]));
    }
    return gradient;
  };
  const std::vector<std::vector<float>> want = {{18, 64}, {72, 256}, {18, 64},
                                                {19, 65}, {18, 64},  {21, 67}};
  for (int first = 0; first < 6; ++first) {
    for (int second = 0; second < 6; ++second) {
      EXPECT_EQ(step(first), want[first]) << second;
      EXPECT_EQ(step(second), want[second]) << "after " << first;
    }
  }
}

TEST_F(TraceTest, RecompilesForAnotherShapeAndSaysWhy) {
  const auto step = [&](int64_t n) {
    Tensor y = sum(exp(On({n}, std::vector<float>(n, 0))));
    EXPECT_TRUE(xm::mark_step().ok());
  };
  met::clear_all();
  step(3);
  step(3);
  EXPECT_EQ(compiles(), 1);
  step(4);
  EXPECT_EQ(compiles(), 2);
  EXPECT_THAT(met::recompilation_report(), HasSubstr("input 0: [3] -> [4]"));
  step(3);
  EXPECT_EQ(compiles(), 2);
}

TEST_F(TraceTest, DeadValuesArePruned) {
  const Tensor x = On({2}, {1, 2});
  Tensor y;
  for (const bool more : {false, true}) {
    y = x * 3;
    if (more) exp(sin(x));
    ASSERT_TRUE(xm::mark_step().ok());
  }
  EXPECT_EQ(compiles(), 1);
}

TEST_F(TraceTest, ReadingAValueKeepsTheTrace) {
  Tensor w = On({2}, {1, 2}, true);
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = sum(w * w);
    EXPECT_NEAR(*loss.item<float>(), step == 0 ? 5 : 5 * std::pow(0.8, 2 * step), 1e-5);
    EXPECT_TRUE(loss.item<float>().ok());
    w.set_grad(Tensor());
    loss.backward();
    const no_grad scope;
    w.sub_(w.grad(), 0.1);
    ASSERT_TRUE(xm::mark_step().ok());
  }
  EXPECT_EQ(compiles(), 2);
}

// A loop that only reads does not record into one graph forever.
TEST_F(TraceTest, ReadsCloseAFinishedTrace) {
  const Tensor x = On({2}, {1, 2});
  Trace& trace = Recorder::OfThread().TraceOf(device_);
  for (int i = 0; i < 10; ++i) {
    ValuesOf(exp(x * 2));  // x * 2 lives until here
    EXPECT_LE(trace.graph().num_nodes(), 8);
  }
  EXPECT_EQ(compiles(), 1);
}

TEST_F(TraceTest, ReadsOfTensorsWithHistoryCloseItToo) {
  const Tensor w = On({2}, {1, 2}, true);
  Trace& trace = Recorder::OfThread().TraceOf(device_);
  Tensor y;
  for (int i = 0; i < 50; ++i) {
    y = exp(w);
    ValuesOf(y);
    EXPECT_LE(trace.graph().num_nodes(), 50);
  }
  sum(y).backward();
  EXPECT_NEAR(ValuesOf(w.grad())[0], std::exp(1.f), 1e-4);
}

TEST_F(TraceTest, CopiesNeedNoProgram) {
  const Tensor x = On({2}, {1, 2});
  Tensor y = On({2}, {0, 0}), z = clone(x);
  y.copy_(x);
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_EQ(compiles(), 0);
  y.add_(1);
  EXPECT_THAT(ValuesOf(x), ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf(z), ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf(y), ElementsAre(2, 3));
}

// ---- Donation ----

runtime::Buffer BufferOf(const Tensor& x) { return x.impl()->data->buffer; }

TEST_F(TraceTest, ReplacedContentsAreDonated) {
  Tensor w = On({2}, {1, 2});
  const runtime::Buffer before = BufferOf(w);
  w.add_(1);
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_TRUE(before.donated());
  EXPECT_THAT(ValuesOf(w), ElementsAre(2, 3));
}

TEST_F(TraceTest, ContentsInUseAreNotDonated) {
  // Another tensor of the same contents.
  Tensor w = On({2}, {1, 2}), copy = clone(w);
  ASSERT_TRUE(xm::mark_step().ok());
  const runtime::Buffer shared = BufferOf(w);
  w.add_(1);
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_FALSE(shared.donated());
  EXPECT_THAT(ValuesOf(copy), ElementsAre(1, 2));
  // A copy that the same step makes.
  Tensor kept = clone(w);
  w.add_(1);
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_THAT(ValuesOf(kept), ElementsAre(2, 3));
  // A graph that can still be differentiated.
  Tensor leaf = On({2}, {1, 2}, true);
  const Tensor y = leaf * leaf;
  ASSERT_TRUE(xm::mark_step().ok());
  const runtime::Buffer saved = BufferOf(leaf);
  {
    const no_grad scope;
    leaf.mul_(5);
  }
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_FALSE(saved.donated());
  sum(y).backward();
  EXPECT_THAT(ValuesOf(leaf.grad()), ElementsAre(2, 4));
}

// What is read in the middle of a step is not donated then, and the step donates as it always does.
TEST_F(TraceTest, ReadsDoNotDonate) {
  Tensor w = On({2}, {1, 2});
  for (int step = 0; step < 4; ++step) {
    const runtime::Buffer before = BufferOf(w);
    w.mul_(2);
    if (step % 2 == 1) {
      EXPECT_THAT(ValuesOf(w), ElementsAre(1 << (step + 1), 2 << (step + 1)));
    }
    EXPECT_FALSE(before.donated());
    ASSERT_TRUE(xm::mark_step().ok());
  }
  EXPECT_THAT(ValuesOf(w), ElementsAre(16, 32));
}

TEST_F(TraceTest, SwappedTensors) {
  Tensor a = On({2}, {1, 2}), b = On({2}, {3, 4});
  for (int step = 0; step < 3; ++step) {
    const Tensor before = clone(a);
    a.copy_(b * 2);
    b.copy_(before + 1);
    ASSERT_TRUE(xm::mark_step().ok());
  }
  EXPECT_THAT(ValuesOf(a), ElementsAre(14, 18));
  EXPECT_THAT(ValuesOf(b), ElementsAre(5, 7)) << "a: 1, 6, 4, 14; b: 3, 2, 7, 5";
}

// ---- Errors ----

TEST_F(TraceTest, FirstErrorIsKeptAndTheProgramContinues) {
  const Tensor x = On({2, 3}, {1, 2, 3, 4, 5, 6});
  Tensor w = On({2}, {1, 2});
  w.add_(1);
  const Tensor wrong = matmul(x, x);
  EXPECT_FALSE(wrong.defined());
  const Tensor consequence = exp(wrong);
  EXPECT_FALSE(consequence.defined());
  const absl::Status status = xm::mark_step();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::ContainsRegex("matmul \\(.*trace_test.cc:[0-9]+\\): "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("f32[2,3]"));
  EXPECT_TRUE(xm::mark_step().ok());
  EXPECT_THAT(ValuesOf(w), ElementsAre(2, 3));
}

TEST_F(TraceTest, UndefinedAndForeignTensors) {
  EXPECT_THAT(ErrorOf(Tensor()), HasSubstr("undefined"));
  const Tensor x = On({1}, {1}), other = tensor(Array::Of<float>({1}, {2}), Device(client_, 1));
  Record("add", {x, other}, {}, [](const ir::Values& in) { return in[0] + in[1]; });
  EXPECT_THAT(ErrorOf(x), HasSubstr("found xla:0 and xla:1"));
  EXPECT_THAT(ValuesOf(x + other.to(device_)), ElementsAre(3));
  EXPECT_EQ(x.to(device_).impl(), x.impl());
  EXPECT_EQ(Device(), Tensor().device());
  EXPECT_FALSE(tensor(Array::Of<float>({1}, {2}), Device()).defined());
  EXPECT_THAT(ErrorOf(x), HasSubstr("device is not valid"));
  EXPECT_FALSE(tensor(Array::Strings({1}, {"a"}), device_).defined());
  EXPECT_THAT(ErrorOf(x), HasSubstr("string"));
  EXPECT_FALSE(Record("nothing", {}, {}, [](const ir::Values&) { return ir::Value(); }).defined());
  EXPECT_THAT(ErrorOf(x), HasSubstr("no inputs"));
  EXPECT_FALSE(Record("op", {x}, {}, [](const ir::Values&) { return ir::Value(); }).defined());
  EXPECT_THAT(ErrorOf(x), HasSubstr("not a value"));
  EXPECT_FALSE(Record("op", {x}, {}, [](const ir::Values&) -> ir::Value {
                 throw std::runtime_error("thrown");
               }).defined());
  EXPECT_THAT(ErrorOf(x), HasSubstr("thrown"));
}

TEST_F(TraceTest, ValuesOfAnotherThread) {
  Tensor pending;
  std::thread([&] { pending = exp(On({1}, {0})); }).join();
  EXPECT_THAT(ErrorOf(pending), HasSubstr("recorded by another thread"));
  const Tensor sum = pending + 1;
  EXPECT_THAT(ErrorOf(sum), HasSubstr("recorded by another thread"));
  std::thread([&] {
    pending = exp(On({1}, {0}));
    EXPECT_TRUE(xm::mark_step().ok());
  }).join();
  EXPECT_THAT(ValuesOf(pending + 1), ElementsAre(2));
}

// Recorded and executed in one thread, changed in place in another.
TEST_F(TraceTest, ATensorThatAnotherThreadChangesInPlace) {
  Tensor w = exp(On({2}, {0, 0}));
  EXPECT_THAT(ValuesOf(w), ElementsAre(1, 1));  // without mark_step
  std::thread([&] {
    w.add_(1);
    EXPECT_TRUE(xm::mark_step().ok());
    EXPECT_THAT(ValuesOf(w), ElementsAre(2, 2));
  }).join();
  w.mul_(3);
  EXPECT_TRUE(xm::mark_step().ok());
  EXPECT_THAT(ValuesOf(w), ElementsAre(6, 6));
}

// A client whose compilations or executions fail on demand.
class FailingClient : public runtime::CountingClient {
 public:
  using CountingClient::CountingClient;
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      const ir::Program& program, const runtime::CompileOptions& options) override {
    if (fail_compile) return absl::ResourceExhaustedError("no memory to compile");
    auto compiled = CountingClient::Compile(program, options);
    if (!compiled.ok()) return compiled;
    struct Failing : runtime::Executable {
      const ir::Program& program() const override { return inner->program(); }
      absl::StatusOr<std::vector<runtime::Buffers>> Execute(
          absl::Span<const runtime::Buffers> arguments) override {
        auto results = inner->Execute(arguments);  // donates
        if (*fail) return absl::InternalError("the device failed");
        return results;
      }
      absl::StatusOr<runtime::MemoryStats> Memory() const override { return inner->Memory(); }
      absl::StatusOr<runtime::CostEstimate> Cost() const override { return inner->Cost(); }
      std::shared_ptr<runtime::Executable> inner;
      const bool* fail = nullptr;
    };
    auto failing = std::make_shared<Failing>();
    failing->inner = *compiled;
    failing->fail = &fail_execute;
    return std::shared_ptr<runtime::Executable>(failing);
  }
  bool fail_compile = false, fail_execute = false;
};

TEST(FailedStepTest, CompileErrorLosesOnlyNewValues) {
  const auto client = std::make_shared<FailingClient>(runtime::TestClient(2));
  const Device device(client, 0);
  Tensor w = tensor(Array::Of<float>({2}, {1, 2}), device);
  client->fail_compile = true;
  w.add_(1);
  const Tensor y = exp(w);
  EXPECT_FALSE(y.cpu().ok());
  const absl::Status status = xm::mark_step();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lost with it: exp f32[2]"));
  client->fail_compile = false;
  EXPECT_THAT(ValuesOf(w), ElementsAre(1, 2)) << "as before the step";
  EXPECT_THAT(ErrorOf(y), HasSubstr("the value of exp f32[2] was lost"));
  EXPECT_FALSE((y + 1).defined());
  EXPECT_THAT(ErrorOf(w), HasSubstr("was lost, because the step that computed it failed"));
}

TEST(FailedStepTest, FailedExecutionLosesWhatWasDonated) {
  const auto client = std::make_shared<FailingClient>(runtime::TestClient(2));
  const Device device(client, 0);
  Tensor w = tensor(Array::Of<float>({2}, {1, 2}), device);
  client->fail_execute = true;
  w.add_(1);
  const absl::Status status = xm::mark_step();
  EXPECT_THAT(std::string(status.message()), HasSubstr("lost with it"));
  client->fail_execute = false;
  EXPECT_THAT(ErrorOf(w), HasSubstr("was lost"));
  w.copy_(tensor(Array::Of<float>({2}, {5, 6}), device));
  EXPECT_THAT(ValuesOf(w), ElementsAre(5, 6)) << "contents can be loaded again";
}

// A generator's key and an optimizer's count of steps are new tensors in each step.
TEST(FailedStepTest, RandomNumbersAndOptimizersGoOn) {
  const auto client = std::make_shared<FailingClient>(runtime::TestClient(2));
  const Device device(client, 0);
  Tensor w = tensor(Array::Of<float>({2}, {1, 2}), device, true);
  optim::Adam adam(Tensors{w}, {.lr = 0.1});
  const auto step = [&] {
    w.set_grad(Tensor());
    sum(w * w * rand(2, {.device = device})).backward();
    adam.step();
    return xm::mark_step();
  };
  client->fail_compile = true;
  EXPECT_FALSE(step().ok());
  client->fail_compile = false;
  EXPECT_THAT(ValuesOf(w), ElementsAre(1, 2));
  ASSERT_TRUE(step().ok());
  EXPECT_LT(ValuesOf(w)[0], 1);
  const absl::StatusOr<base::NamedArrays> state = adam.state_dict();
  ASSERT_TRUE(state.ok()) << state.status();
  const Array* const count = state->Find("state/0/step");
  ASSERT_NE(count, nullptr);
  EXPECT_EQ(count->item<float>(), 1) << "the step that failed does not count";
  // Nothing takes the memory of the key: it outlives what fails on the device, too.
  client->fail_execute = true;
  EXPECT_FALSE(step().ok());
  client->fail_execute = false;
  EXPECT_EQ(ValuesOf(rand(2, {.device = device})).size(), 2u);
}

// Two draws in the step that fails: the next one draws what the first of them would have drawn.
TEST(FailedStepTest, GivesTheKeyOfBeforeTheStepBack) {
  const auto client = std::make_shared<FailingClient>(runtime::TestClient(2));
  const Device device(client, 0);
  const TensorOptions on{.device = device};
  manual_seed(7);
  const std::vector<float> want = ValuesOf(rand(2, on));
  manual_seed(7);
  client->fail_compile = true;
  const Tensor lost = rand(3, on) + randn(3, on);
  EXPECT_FALSE(xm::mark_step().ok());
  client->fail_compile = false;
  EXPECT_EQ(ValuesOf(rand(2, on)), want);
}

// Many steps in flight keep their order.
TEST_F(TraceTest, ManyStepsInFlight) {
  Tensor w = On({64, 64}, std::vector<float>(64 * 64, 0));
  for (int step = 0; step < 50; ++step) {
    w.add_(1);
    ASSERT_TRUE(xm::mark_step(/*wait=*/step == 20).ok());
  }
  EXPECT_EQ(ValuesOf(w)[77], 50);
}

// Threads with traces of their own, on one device and on two.
TEST_F(TraceTest, ThreadsRecordIndependently) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const Device device(client_, i % 2);
      Tensor w = tensor(Array::Of<float>({2}, {1.f * i, 1}), device);
      for (int step = 0; step < 5; ++step) {
        w.mul_(2);
        EXPECT_TRUE(xm::mark_step().ok());
      }
      EXPECT_THAT(ValuesOf(w), ElementsAre(32 * i, 32));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiles(), 2) << "one for each device";
}

// One replica keeps contents that all of them replace: the step is the same program.
TEST(ReplicaDonationTest, WhatOneReplicaKeepsDoesNotMatter) {
  const absl::Status status = xmp::spawn(
      [](int index) -> absl::Status {
        PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
        Tensor w = tensor(Array::Of<float>({2}, {1, 2}), device), before;
        for (int step = 0; step < 3; ++step) {
          if (index == 0) before = clone(w);  // shares the contents, as only the master does
          PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
          w.add_(xm::all_reduce(xm::REDUCE_SUM, w));
          PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
        }
        EXPECT_THAT(ValuesOf(w), ElementsAre(27, 54));
        if (index == 0) {
          EXPECT_THAT(ValuesOf(before), ElementsAre(9, 18));
        }
        return absl::OkStatus();
      },
      {.nprocs = 2, .client = runtime::TestClient(2)});
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace penstock::lazy::trace_test
