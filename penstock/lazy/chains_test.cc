// Histories and views that are long chains: nothing walks them by recursion, so no stack overflows.
#include <algorithm>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/testing/small_stack.h"
#include "penstock/lazy/autograd.h"
#include "penstock/lazy/ops.h"
#include "penstock/lazy/tensor_impl.h"
#include "penstock/lazy/testing/tensors.h"
#include "penstock/lazy/trace.h"

namespace penstock::lazy::chains_test {

using base::OnSmallStack;
using test::Make;
using test::TestDevice;
using test::ValuesOf;
using ::testing::ElementsAre;

// With recursion, a call is 80 bytes or more of the stack.
constexpr int kLinks = 20000;

// A sum of w to which each step adds w once more; each keeps its history for the next one.
Tensor SumOverSteps(const Tensor& w, int steps) {
  Tensor sum = w * 1.0;
  for (int step = 0; step < steps; ++step) {
    sum = sum + w;
    EXPECT_TRUE(xm::mark_step().ok());
  }
  return sum;
}

TEST(ChainsTest, DestroysAHistoryOfManySteps) {
  const Tensor w = Make({1}, {1}, true);
  Tensor all = SumOverSteps(w, kLinks);
  OnSmallStack([&] { all = Tensor(); });
}

TEST(ChainsTest, DifferentiatesThroughManySteps) {
  constexpr int kSteps = 300;
  const Tensor w = Make({1}, {1}, true), first = w * 1.0;
  Tensor all = first;
  for (int step = 0; step < kSteps; ++step) {
    all = all + w;
    ASSERT_TRUE(xm::mark_step().ok());
  }
  const Tensors gradients = autograd::grad({all}, {first}, {.retain_graph = true});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_THAT(ValuesOf(gradients[0]), ElementsAre(1));
  all.backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(kSteps + 1));
}

// The gradients are only recorded: XLA would need more of the stack to compile them.
TEST(ChainsTest, RecordsGradientsOfManySteps) {
  const Tensor w = Make({1}, {1}, true), first = w * 1.0;
  Tensor all = first;
  for (int step = 0; step < kLinks / 4; ++step) {
    all = all + w;
    ASSERT_TRUE(xm::mark_step().ok());
  }
  OnSmallStack([&] {
    const Tensors gradients = autograd::grad({all}, {first}, {.retain_graph = true});
    EXPECT_EQ(gradients.size(), 1u);
    all.backward();
    EXPECT_TRUE(w.grad().defined());
    all = Tensor();
  });
}

// A view of a view of ... x, of two kinds in turn: those of one kind would be merged.
Tensor ManyViews(const Tensor& x, int views) {
  Tensor view = x;
  for (int i = 0; i + 1 < views; ++i) {
    view = i % 2 == 0 ? view.view({1, 2}) : view.transpose(0, 1);
  }
  return view.view({2});
}

// ---- Costs, as numbers of nodes ----

const Segment& OpenSegment() { return *Recorder::OfThread().TraceOf(TestDevice()).segment(); }

// Number of nodes that backward() visits for this number of steps.
int64_t VisitedByBackward(int steps) {
  const Tensor w = Make({1}, {1}, true);
  const Tensor all = SumOverSteps(w, steps);
  const int64_t before = OpenSegment().num_visited;
  all.backward();
  const int64_t visited = OpenSegment().num_visited - before;
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(steps + 1));
  return visited;
}

TEST(ChainsTest, CostOfGradientsGrowsWithTheNumberOfSteps) {
  const int64_t some = VisitedByBackward(50);
  EXPECT_GT(some, 0);
  EXPECT_LE(VisitedByBackward(100), 2 * some + 10);
}

// Number of nodes that this number of in-place operations record, each on a view of the previous view.
int RecordedByInPlace(int steps, bool history,
                      const std::function<Tensor(const Tensor& view, int step)>& next) {
  const Tensor w = Make({2, 2}, {1, 2, 3, 4}, true);
  const Tensor x = history ? w * 1.0 : w.detach().clone();
  EXPECT_TRUE(xm::mark_step().ok());
  const int before = OpenSegment().graph.num_nodes();
  Tensor view = x;
  for (int step = 0; step < steps; ++step) {
    view = next(view, step);
    view.add_(1);
  }
  const int recorded = OpenSegment().graph.num_nodes() - before;
  const float n = static_cast<float>(steps);
  EXPECT_THAT(ValuesOf(x), ElementsAre(1 + n, 2 + n, 3 + n, 4 + n));
  if (history) {
    x.backward(Make({2, 2}, {1, 1, 1, 1}));
    EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(1, 1, 1, 1));
  }
  return recorded;
}

TEST(ChainsTest, CostOfInPlaceOperationsOnViewsOfViewsGrowsWithTheirNumber) {
  const std::function<Tensor(const Tensor&, int)> views[] = {
      [](const Tensor& view, int step) {
        return view.view({step % 2 == 0 ? 4 : 2, -1});
      },
      [](const Tensor& view, int) { return view.t(); },
      [](const Tensor& view, int) { return view.narrow(1, 0, 2); },
      [](const Tensor& view, int) { return view.index({Slice{}}); }};
  for (const auto& next : views) {
    for (const bool history : {false, true}) {
      const int some = RecordedByInPlace(20, history, next);
      EXPECT_GE(some, 20);
      EXPECT_LE(RecordedByInPlace(40, history, next), 2 * some + 10);
    }
  }
}

// ---- Views that are merged ----

// Values of the view that the loop x = next(x) ends with, and of x after it was overwritten.
void ExpectMerged(const Tensor& x, int steps, const std::function<Tensor(const Tensor&)>& next,
                  const std::vector<float>& values) {
  Tensor view = x;
  for (int i = 0; i < steps; ++i) view = next(view);
  EXPECT_THAT(ValuesOf(view), testing::ElementsAreArray(values));
  int links = 0;
  for (const TensorImpl* at = view.impl().get(); at->is_view(); at = at->parent.get()) ++links;
  EXPECT_LE(links, 2);
  view.fill_(0);
  const std::vector<float> all = ValuesOf(x);
  EXPECT_EQ(std::count(all.begin(), all.end(), 0), static_cast<int64_t>(values.size()));
}

TEST(ChainsTest, ViewsOfViewsThatAreGoneAreMerged) {
  const auto numbers = [] { return Make({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}); };
  ExpectMerged(numbers(), 5,
               [](const Tensor& x) {
                 return x.view({x.size(1), x.size(0)});
               },
               {1, 2, 3, 4, 5, 6, 7, 8});
  ExpectMerged(numbers(), 5, [](const Tensor& x) { return x.t(); }, {1, 5, 2, 6, 3, 7, 4, 8});
  ExpectMerged(Make({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), 4,
               [](const Tensor& x) {
                 return x.permute({1, 2, 0});
               },
               {1, 5, 2, 6, 3, 7, 4, 8});
  ExpectMerged(numbers(), 3, [](const Tensor& x) { return x.slice(1, 1); }, {4, 8});
  ExpectMerged(Make({9}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), 2,
               [](const Tensor& x) { return x.slice(0, 1, {}, 2); }, {4, 8});
  ExpectMerged(Make({9}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), 3,
               [](const Tensor& x) { return x.slice(0, 0, {}, 3); }, {1});
  ExpectMerged(Make({3}, {1, 2, 3}), 5, [](const Tensor& x) { return x.slice(0, 1); }, {});
  ExpectMerged(Make({3}, {1, 2, 3}), 3,
               [](const Tensor& x) { return x.slice(0, 1, {}, INT64_MAX); }, {});
}

// A view that the program has, or that is a leaf, has its own gradients.
TEST(ChainsTest, ViewsThatAreNeededAreNotMerged) {
  const Tensor w = Make({4}, {1, 2, 3, 4}, true), x = w * 1.0;
  const Tensor middle = x.view({2, 2}), last = middle.view({4}), view = last.view({4, 1});
  const Tensors gradients = autograd::grad({sum(view * view)}, {middle});
  ASSERT_EQ(gradients.size(), 1u);
  EXPECT_THAT(ValuesOf(gradients[0]), ElementsAre(2, 4, 6, 8));
  Tensor leaf = Make({4}, {1, 2, 3, 4}).view({2, 2}).requires_grad_();
  Tensor of_leaf = leaf.view({4});
  leaf = Tensor();
  const Tensor of_view = of_leaf.view({2, 2});
  EXPECT_TRUE(of_view.requires_grad());
  Tensor detached = w.detach().view({2, 2}), of_detached = detached.view({4});
  detached = Tensor();
  EXPECT_FALSE(of_detached.view({4}).requires_grad());
}

TEST(ChainsTest, RecordsAndDestroysManyViews) {
  constexpr int kViews = kLinks / 4;
  const Tensor x = Make({2}, {1, 2}), w = Make({2}, {1, 2}, true);
  Tensor view = ManyViews(x, kViews), differentiable = ManyViews(w * 2.0, kViews);
  ASSERT_TRUE(xm::mark_step().ok());
  OnSmallStack([&] {  // another thread: none of the views has a value there
    const Tensor plain = view + 1, with_history = differentiable * 2;
    EXPECT_TRUE(plain.defined());
    EXPECT_TRUE(with_history.requires_grad());
    view.add_(1);
    {
      const no_grad scope;
      view.add_(1);
    }
    view = Tensor();
    differentiable = Tensor();
  });
  // What was only recorded there ended with the thread.
  EXPECT_THAT(test::ErrorOf(x), ::testing::HasSubstr("recorded by another thread"));
}

TEST(ChainsTest, WritesThroughManyViews) {
  Tensor x = Make({2}, {1, 2});
  const Tensor w = Make({2}, {1, 2}, true);
  Tensor view = ManyViews(x, 100), sum = w * 2.0, of_sum = ManyViews(sum, 100);
  view.add_(1);
  of_sum.mul_(w);
  {
    const no_grad scope;
    view.mul_(3);
  }
  EXPECT_THAT(ValuesOf(x), ElementsAre(6, 9));
  sum.backward(Make({2}, {1, 1}));
  EXPECT_THAT(ValuesOf(sum), ElementsAre(2, 8));
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(4, 8));
}

TEST(ChainsTest, DetachingInEachStepMakesNoChain) {
  Tensor x = Make({2}, {1, 2}), state = x;
  for (int step = 0; step < 100; ++step) state = state.detach();
  EXPECT_EQ(state.impl()->parent, x.impl());
  state.requires_grad_();
  Tensor again = state.detach();
  EXPECT_EQ(again.impl()->parent, x.impl());
  EXPECT_FALSE(again.requires_grad());
  again.add_(1);  // they share their memory
  EXPECT_THAT(ValuesOf(x), ElementsAre(2, 3));
  EXPECT_THAT(ValuesOf(state), ElementsAre(2, 3));
  // A part is not the tensor.
  const Tensor part = x.detach().narrow(0, 1, 1).detach();
  EXPECT_NE(part.impl()->parent, x.impl());
  EXPECT_THAT(ValuesOf(part), ElementsAre(3));
}

TEST(ChainsTest, DestroysGradientsOfGradients) {
  const Tensor one = Make({1}, {1});
  Tensor last = one.clone();
  for (int i = 0; i < kLinks; ++i) {
    Tensor next = one.detach();
    next.set_grad(last);
    last = next;
  }
  OnSmallStack([&] { last = Tensor(); });
}

}  // namespace penstock::lazy::chains_test
