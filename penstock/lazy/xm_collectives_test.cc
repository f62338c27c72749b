#include "penstock/lazy/xm_collectives.h"

#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/ir/ops.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/xm.h"
#include "penstock/lazy/xmp.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::lazy {
namespace xm_collectives_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::Status Spawn(int nprocs, const std::function<absl::Status(int)>& fn) {
  return xmp::spawn(fn,
                    {.nprocs = nprocs, .client = runtime::TestClient(8), .timeout_seconds = 3600});
}

Tensor Make(const Shape& shape, const std::vector<float>& values) {
  return tensor(Array::Of<float>(shape, absl::MakeConstSpan(values)), *xm::xla_device());
}

std::vector<float> ValuesOf(const Tensor& x) {
  const auto array = x.cpu();
  EXPECT_TRUE(array.ok()) << array.status();
  if (!array.ok()) return {};
  const auto values = array->values<float>();
  return {values.begin(), values.end()};
}

// Each replica has a part of the batch; outputs, running statistics and gradients are those of
// BatchNorm of the whole batch.
TEST(Collectives, SyncBatchNormIsBatchNormOfAllReplicas) {
  const std::vector<float> values{1, -2, 0.5, 3, 4, -1, 2.5, 0};  // [4, 2]
  const std::vector<float> cotangents{0.3, 1, -2, 0.5, 0.1, 0.7, 1.5, -1};
  const absl::Status status = Spawn(2, [&](int index) -> absl::Status {
    const auto part = [&](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + index * 4, all.begin() + index * 4 + 4);
    };
    const auto run = [](nn::BatchNormImpl& module, Tensor& x, const Tensor& y,
                        const std::vector<float>& cotangent) {
      sum(y * Make({y.size(0), 2}, cotangent)).backward();
      Tensors all{y, x.grad(), module.running_mean, module.running_var};
      if (module.weight.defined()) all.push_back(module.weight.grad());
      return all;
    };
    Tensor x = Make({2, 2}, part(values)), whole = Make({4, 2}, values);
    x.requires_grad_();
    whole.requires_grad_();
    const nn::SyncBatchNorm sync(2, {.momentum = 0.3});
    const nn::BatchNorm1d plain(2, {.momentum = 0.3});
    for (const nn::Module* module : {static_cast<nn::Module*>(sync.ptr().get()),
                                     static_cast<nn::Module*>(plain.ptr().get())}) {
      const no_grad guard;
      for (Tensor parameter : module->parameters()) parameter.add_(0.5);
    }
    const Tensors mine = run(*sync, x, sync(x), part(cotangents));
    const Tensors all = run(*plain, whole, plain(whole), cotangents);
    Tensor of_weight = xm::all_reduce(xm::REDUCE_SUM, mine[4]);
    PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
    const auto near = [](const std::vector<float>& want) {
      return testing::Pointwise(testing::FloatNear(1e-5), want);
    };
    for (int i = 0; i < 2; ++i) EXPECT_THAT(ValuesOf(mine[i]), near(part(ValuesOf(all[i])))) << i;
    for (int i = 2; i < 4; ++i) EXPECT_THAT(ValuesOf(mine[i]), near(ValuesOf(all[i]))) << i;
    EXPECT_THAT(ValuesOf(of_weight), near(ValuesOf(all[4])));
    sync->eval();
    EXPECT_TRUE(sync(x).defined());
    return xm::mark_step();
  });
  EXPECT_TRUE(status.ok()) << status;
}

// All collectives in one step, so that one program is compiled. Values against formulas over the
// ordinals 0 .. 3.
TEST(Collectives, ValuesOfEveryReduction) {
  const absl::Status status = Spawn(4, [](int index) -> absl::Status {
    const float i = static_cast<float>(index);
    const Tensor x = Make({2}, {i + 1, -i});
    const Tensor sum = xm::all_reduce(xm::REDUCE_SUM, x), half = xm::all_reduce("sum", x, 0.5);
    const Tensor min = xm::all_reduce(xm::REDUCE_MIN, x), max = xm::all_reduce(xm::REDUCE_MAX, x);
    const Tensor product = xm::all_reduce(xm::REDUCE_MUL, x);
    const Tensor gathered = xm::all_gather(x), columns = xm::all_gather(Make({1, 1}, {i}), -1);
    const Tensor part =
        xm::reduce_scatter(xm::REDUCE_SUM, Make({4}, {i, i * 2, i * 3, i * 4}), 0.5, 0, 4);
    const Tensor exchanged = xm::all_to_all(Make({4}, {i, i + 10, i + 20, i + 30}), 0, 0, 4);
    const Tensor moved = xm::collective_permute(x, {{0, 1}, {1, 0}, {2, 3}});
    const Tensor root = Make({2}, {i, i * i}),
                 flag = tensor(Array::Of<bool>({2}, {index == 2, true}), *xm::xla_device());
    xm::collective_broadcast({root}, 3);
    const Tensor any = xm::all_reduce(xm::REDUCE_OR, flag);
    const Tensor all = xm::all_reduce(xm::REDUCE_AND, flag);
    PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
    EXPECT_THAT(ValuesOf(sum), ElementsAre(10, -6));
    EXPECT_THAT(ValuesOf(half), ElementsAre(5, -3));
    EXPECT_THAT(ValuesOf(min), ElementsAre(1, -3));
    EXPECT_THAT(ValuesOf(max), ElementsAre(4, 0));
    EXPECT_THAT(ValuesOf(product), ElementsAre(24, 0));
    EXPECT_THAT(ValuesOf(gathered), ElementsAre(1, 0, 2, -1, 3, -2, 4, -3));
    EXPECT_EQ(columns.sizes(), (Shape{1, 4}));
    EXPECT_THAT(ValuesOf(columns), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(ValuesOf(part), ElementsAre(3 * (i + 1)));
    EXPECT_THAT(ValuesOf(exchanged), ElementsAre(10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3));
    const std::vector<std::vector<float>> received = {{2, -1}, {1, 0}, {0, 0}, {3, -2}};
    EXPECT_EQ(ValuesOf(moved), received[index]);
    EXPECT_THAT(ValuesOf(root), ElementsAre(3, 9));
    EXPECT_THAT(any.cpu()->values<bool>(), ElementsAre(true, true));
    EXPECT_THAT(all.cpu()->values<bool>(), ElementsAre(false, true));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Collectives, ListIsReducedInPlace) {
  const absl::Status status = Spawn(2, [](int index) -> absl::Status {
    const float i = static_cast<float>(index);
    const Tensor a = Make({2}, {i, 1}), b = Make({1, 1}, {i + 5});
    const Tensor same = a;
    xm::all_reduce(xm::REDUCE_SUM, Tensors{a, b}, 0.5);
    EXPECT_THAT(ValuesOf(same), ElementsAre(0.5, 1));
    EXPECT_THAT(ValuesOf(b), ElementsAre(5.5));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Collectives, SumIsDifferentiated) {
  const absl::Status status = Spawn(2, [](int index) -> absl::Status {
    Tensor x = Make({2}, {1, 2});
    x.requires_grad_();
    const Tensor sum = xm::all_reduce(xm::REDUCE_SUM, x);
    // On ordinal i the loss is (i + 1) * sum: each x gets the sum over ordinals, 1 + 2.
    const Tensor weight = Make({}, {static_cast<float>(index + 1)});
    Record("loss", {sum, weight}, SourceLocation::Current(), [](const ir::Values& in) {
      return ir::ReduceSum(in[0]) * in[1];
    }).backward();
    EXPECT_THAT(ValuesOf(x.grad()), ElementsAre(3, 3));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Collectives, AWorldOfOneReducesToTheValueItself) {
  const auto check = [](int) -> absl::Status {
    const Tensor x = Make({2}, {3, 4});
    EXPECT_THAT(ValuesOf(xm::all_reduce(xm::REDUCE_SUM, x, 0.5)), ElementsAre(1.5, 2));
    EXPECT_THAT(ValuesOf(xm::all_reduce(xm::REDUCE_MUL, x)), ElementsAre(3, 4));
    EXPECT_THAT(ValuesOf(xm::all_gather(x)), ElementsAre(3, 4));
    EXPECT_THAT(ValuesOf(xm::reduce_scatter(xm::REDUCE_SUM, x, 2, 0, 1)), ElementsAre(6, 8));
    xm::collective_broadcast({x});
    PENSTOCK_ASSIGN_OR_RETURN(const auto payloads, xm::rendezvous("a", "b"));
    EXPECT_THAT(payloads, ElementsAre("b"));
    return absl::OkStatus();
  };
  EXPECT_TRUE(Spawn(1, check).ok());
}

TEST(Collectives, MistakesNameTheOperationAndTheLine) {
  const absl::Status status = Spawn(1, [](int) -> absl::Status {
    const auto error = [](const Tensor& result) {
      EXPECT_FALSE(result.defined());
      return std::string(xm::mark_step().message());
    };
    const Tensor x = Make({2}, {3, 4});
    const Tensor flag = tensor(Array::Of<bool>({1}, {true}), *xm::xla_device());
    EXPECT_THAT(error(xm::all_reduce("mean", x)), HasSubstr("unknown reduce_type 'mean'"));
    EXPECT_THAT(error(xm::all_reduce("sum", flag)), HasSubstr("'sum' is for numbers"));
    EXPECT_THAT(error(xm::all_reduce("and", x)), HasSubstr("'and' is for bool"));
    EXPECT_THAT(error(xm::all_gather(x, 5)), HasSubstr("xm_collectives_test.cc:"));
    EXPECT_THAT(error(xm::reduce_scatter("max", x, 1, 0, 1)), HasSubstr("must be 'sum'"));
    EXPECT_THAT(error(xm::reduce_scatter("sum", x, 1, 0, 3)), HasSubstr("count is 3"));
    xm::all_reduce("sum", Tensors{x, Tensor()});
    EXPECT_THAT(error(Tensor()), HasSubstr("input 2 is undefined"));
    xm::all_reduce("sum", Tensors{});
    xm::collective_broadcast({x}, 4);
    EXPECT_THAT(error(Tensor()), HasSubstr("root_ordinal is 4 of 1"));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(MeshReduce, ReducesNumbersTextsArraysAndTensors) {
  const absl::Status status = Spawn(4, [](int index) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const double average,
                              xm::mesh_reduce("a", static_cast<double>(index), xm::mean));
    EXPECT_EQ(average, 1.5);
    PENSTOCK_ASSIGN_OR_RETURN(const int total, xm::mesh_reduce("s", index, xm::sum));
    EXPECT_EQ(total, 6);
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::string text,
        xm::mesh_reduce("t", absl::StrCat(index), [](const std::vector<std::string>& all) {
          return absl::StrJoin(all, ",");
        }));
    EXPECT_EQ(text, "0,1,2,3");
    const auto last = [](const std::vector<Array>& all) { return all.back().item<float>(); };
    const float value = static_cast<float>(index);
    PENSTOCK_ASSIGN_OR_RETURN(const float array, xm::mesh_reduce("x", Array::Scalar(value), last));
    EXPECT_EQ(array, 3);
    PENSTOCK_ASSIGN_OR_RETURN(const float of_tensor,
                              xm::mesh_reduce("y", Make({}, {value * 2}), last));
    EXPECT_EQ(of_tensor, 6);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(MeshReduce, DataOfDifferentTypesIsAnError) {
  const absl::Status status = Spawn(2, [](int index) -> absl::Status {
    if (index == 0) return xm::mesh_reduce("a", 1.0, xm::mean).status();
    return xm::mesh_reduce("a", 1, [](const std::vector<int>&) { return 0; }).status();
  });
  EXPECT_THAT(status.message(), HasSubstr("mesh_reduce 'a'"));
}

TEST(MeshReduce, AFunctionMayFail) {
  const absl::Status status = Spawn(2, [](int index) -> absl::Status {
    const auto only_equal = [](const std::vector<int>& all) -> absl::StatusOr<int> {
      if (all[0] == all[1]) return all[0];
      return absl::DataLossError(absl::StrCat(all[0], " is not ", all[1]));
    };
    const absl::StatusOr<int> equal = xm::mesh_reduce("a", 7, only_equal);
    EXPECT_EQ(*equal, 7);
    EXPECT_EQ(xm::mesh_reduce("b", index, only_equal).status(), absl::DataLossError("0 is not 1"));
    // What throws is an error of spawn, with the ordinal.
    return xm::mesh_reduce("c", index, [](const std::vector<int>& all) { return all.at(2); })
        .status();
  });
  EXPECT_THAT(status.message(), HasSubstr("ordinal "));
  EXPECT_THAT(status.message(), HasSubstr("out_of_range"));
}

TEST(Rendezvous, GivesThePayloadsOfAllOrdinals) {
  const absl::Status status = Spawn(3, [](int index) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const auto payloads, xm::rendezvous("a", absl::StrCat("p", index)));
    EXPECT_THAT(payloads, ElementsAre("p0", "p1", "p2"));
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StepClosure, RunsAtTheEndOfTheStepOnce) {
  const absl::Status status = Spawn(2, [](int index) -> absl::Status {
    const Tensor x = Make({1}, {static_cast<float>(index)});
    const Tensor y = xm::all_reduce(xm::REDUCE_SUM, x);
    std::vector<float> seen;
    xm::add_step_closure([&] {
      seen = ValuesOf(y);
      return absl::OkStatus();
    });
    EXPECT_TRUE(seen.empty());
    PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
    EXPECT_THAT(seen, ElementsAre(1));
    seen.clear();
    PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
    EXPECT_TRUE(seen.empty());
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StepClosure, ErrorsAreReturnedByMarkStep) {
  const absl::Status status = Spawn(1, [](int) -> absl::Status {
    xm::add_step_closure([]() -> absl::Status { throw std::runtime_error("printer on fire"); });
    EXPECT_THAT(xm::mark_step().message(), HasSubstr("step closure: "));
    return xm::mark_step();
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(StepClosure, AsynchronousOnesRunInOrderBeforeTheThreadEnds) {
  std::vector<int> order;  // written by one thread after the other
  const absl::Status status = Spawn(1, [&](int) -> absl::Status {
    for (int i = 0; i < 3; ++i) {
      xm::add_step_closure(
          [&, i] {
            order.push_back(i);
            return absl::OkStatus();
          },
          /*run_async=*/true);
      PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
    }
    return xm::wait_device_ops();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(MasterPrint, PrintsOnOneOrdinal) {
  testing::internal::CaptureStdout();
  const absl::Status status = Spawn(4, [](int) {
    xm::master_print("epoch", 3, "loss", 0.5);
    return absl::OkStatus();
  });
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "epoch 3 loss 0.5\n");
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace xm_collectives_test
}  // namespace penstock::lazy
