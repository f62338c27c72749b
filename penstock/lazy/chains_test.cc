// Histories and views that are long chains: nothing walks them by recursion, so no stack overflows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/testing/small_stack.h"
#include "penstock/lazy/autograd.h"
#include "penstock/lazy/ops.h"
#include "penstock/lazy/tensor_impl.h"
#include "penstock/lazy/testing/tensors.h"

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

// A view of a view of ... x.
Tensor ManyViews(const Tensor& x, int views) {
  Tensor view = x;
  for (int i = 0; i < views; ++i) view = i % 2 == 0 ? view.view({1, 2}) : view.view({2});
  return view;
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
