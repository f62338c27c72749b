#include "penstock/lazy/autograd.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/lazy/ops.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/testing/tensors.h"
#include "penstock/lazy/trace.h"
#include "penstock/lazy/xm.h"

namespace penstock::lazy::autograd_test {

using test::ErrorOf;
using test::Make;
using test::ValuesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(AutogradTest, AccumulatesInLeaves) {
  Tensor w = Make({2}, {2, 3}, true), x = Make({2}, {5, 7});
  EXPECT_TRUE(w.is_leaf());
  EXPECT_FALSE((w * x).is_leaf());
  EXPECT_FALSE(w.grad().defined());
  sum(w * x * w).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(20, 42));
  const Tensor grad = w.grad();
  sum(w * x).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(25, 49));
  EXPECT_THAT(ValuesOf(grad), ElementsAre(25, 49)) << "accumulation is in place";
  EXPECT_FALSE(x.grad().defined());
}

// The same value twice in the graph, as two tensors.
TEST(AutogradTest, TensorsOfOneValueAreDifferentiatedApart) {
  Tensor w = Make({1}, {2}, true);
  Tensor copy = w.detach();
  Tensor other = Make({1}, {0});
  other.copy_(w.detach());
  other.requires_grad_();
  sum(w * copy * other).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(4));
  EXPECT_THAT(ValuesOf(other.grad()), ElementsAre(4));
}

TEST(AutogradTest, RequiresGradAfterUse) {
  Tensor x = Make({1}, {3});
  const Tensor before = x * x;
  x.requires_grad_();
  sum(before * x).backward();
  EXPECT_THAT(ValuesOf(x.grad()), ElementsAre(9));
}

TEST(AutogradTest, NoGradAndDetachStopGradients) {
  Tensor w = Make({1}, {3}, true);
  Tensor constant;
  {
    const no_grad scope;
    constant = w * w;
    EXPECT_FALSE(constant.requires_grad());
    {
      const no_grad enabled(false);
      EXPECT_FALSE((w * w).requires_grad());
    }
  }
  const Tensor y = w * w;
  sum(y.detach() * w + constant * w).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(18));
}

// no_grad replaces the contents and keeps the history: nothing that a gradient needs is freed.
TEST(AutogradTest, BackwardAgainThroughNoGradInPlaceModification) {
  for (const bool step : {false, true}) {
    Tensor w = Make({2}, {2, 3}, true);
    Tensor y = flip(w, {0});
    Tensor view = unsqueeze(y, 0);
    {
      const no_grad guard;
      view.mul_(7);
    }
    if (step) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    y.backward(Make({2}, {1, 10}));
    view.backward(Make({1, 2}, {100, 200}));
    EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(210, 101));
    EXPECT_THAT(ValuesOf(y), ElementsAre(21, 14));
    // A product needs its operands, whatever its contents were replaced by.
    Tensor z = y * w;
    {
      const no_grad guard;
      z.zero_();
    }
    sum(z).backward();
    EXPECT_THAT(ErrorOf(w), ::testing::IsEmpty());
    sum(z).backward();
    EXPECT_THAT(ErrorOf(w), HasSubstr("a second time"));
  }
}

TEST(AutogradTest, IncomingGradientAndErrors) {
  Tensor w = Make({2}, {2, 3}, true);
  const Tensor y = w * w;
  y.backward(Make({2}, {1, 10}));
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(4, 60));
  (w * 2).backward();
  EXPECT_THAT(ErrorOf(w), HasSubstr("only for scalar outputs"));
  (w * 2).backward(Make({3}, {1, 1, 1}));
  EXPECT_THAT(ErrorOf(w), HasSubstr("the incoming gradient f32[3] on xla:0 is not f32[2]"));
  Make({1}, {1}).backward();
  EXPECT_THAT(ErrorOf(w), HasSubstr("does not require grad"));
  Tensor().backward();
  EXPECT_THAT(ErrorOf(w), HasSubstr("undefined"));
  tensor(Array::Of<int32_t>({1}, {1}), test::TestDevice()).requires_grad_();
  EXPECT_THAT(ErrorOf(w), HasSubstr("floating point"));
  Tensor z = w * w;
  z.requires_grad_(false);
  EXPECT_THAT(ErrorOf(w), HasSubstr("only leaf tensors"));
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(4, 60)) << "errors change nothing";
}

TEST(AutogradTest, SecondBackwardNeedsRetainGraph) {
  Tensor w = Make({1}, {3}, true);
  const Tensor y = sum(w * w);
  y.backward(Tensor(), /*retain_graph=*/true);
  y.backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(12));
  y.backward();
  EXPECT_THAT(ErrorOf(w), HasSubstr("a second time"));
  ASSERT_TRUE(xm::mark_step().ok());
  y.backward();
  EXPECT_THAT(ErrorOf(w), HasSubstr("a second time"));
  // Additions keep nothing, as in PyTorch.
  const Tensor z = sum(w + 1);
  z.backward();
  z.backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(14));
}

// Gradients of graphs that were executed before backward().
TEST(AutogradTest, BackwardAfterMarkStep) {
  for (const int steps : {1, 2, 3}) {
    Tensor w = Make({2}, {0.5, -1}, true), v = Make({2}, {2, 3}, true);
    Tensor h = tanh(w * v);
    if (steps >= 1) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    Tensor g = h * w;
    if (steps >= 2) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    Tensor loss = sum(g * g);
    if (steps >= 3) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    loss.backward();
    const auto of_w = ValuesOf(w.grad()), of_v = ValuesOf(v.grad());
    for (int i = 0; i < 2; ++i) {
      const double a = i == 0 ? 0.5 : -1, b = i == 0 ? 2 : 3, t = std::tanh(a * b);
      const double dt = 1 - t * t;
      EXPECT_NEAR(of_w[i], 2 * t * a * (dt * b * a + t), 1e-5) << steps;
      EXPECT_NEAR(of_v[i], 2 * t * a * dt * a * a, 1e-5) << steps;
    }
    // Everything is freed, in all segments.
    sum(h).backward();
    EXPECT_THAT(ErrorOf(w), HasSubstr("a second time"));
  }
}

// A parameter that is updated while older graphs refer to it.
TEST(AutogradTest, SegmentKeepsTheValuesThatItSaw) {
  Tensor w = Make({1}, {3}, true);
  const Tensor y = w * w * w;
  ASSERT_TRUE(xm::mark_step().ok());
  {
    const no_grad scope;
    w.fill_(100);
  }
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_THAT(ValuesOf(w), ElementsAre(100));
  sum(y).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(27));
}

TEST(AutogradTest, LeafUpdatedBetweenForwardAndBackward) {
  Tensor w = Make({1}, {3}, true);
  const Tensor y = sum(w * w);
  {
    const no_grad scope;
    w.mul_(2);
  }
  const Tensor z = sum(w * w);
  (y + z).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(6 + 12));
  EXPECT_TRUE(w.is_leaf());
  EXPECT_TRUE(w.requires_grad());
}

TEST(AutogradTest, InPlaceOnLeafIsAnError) {
  Tensor w = Make({2}, {3, 4}, true);
  w.add_(1);
  EXPECT_THAT(ErrorOf(w), HasSubstr("a leaf Variable that requires grad"));
  narrow(w, 0, 0, 1).mul_(2);
  EXPECT_THAT(ErrorOf(w), HasSubstr("a view of a leaf Variable that requires grad"));
  w.detach().mul_(2);  // as .data
  EXPECT_THAT(ValuesOf(w), ElementsAre(6, 8));
}

TEST(AutogradTest, InPlaceOnNonLeaves) {
  Tensor w = Make({2}, {3, 4}, true);
  Tensor h = w * 2;
  const Tensor used = h * h;  // sees 6 and 8
  h.mul_(w);
  h.add_(1);
  EXPECT_THAT(ValuesOf(h), ElementsAre(19, 33));
  sum(h + used).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(4 * 3 + 8 * 3, 4 * 4 + 8 * 4));
}

TEST(AutogradTest, InPlaceUnderNoGradKeepsHistory) {
  Tensor w = Make({1}, {3}, true);
  Tensor h = w * w;
  {
    const no_grad scope;
    h.fill_(5);
  }
  EXPECT_THAT(ValuesOf(h), ElementsAre(5));
  sum(h * 2).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(12));
}

TEST(AutogradTest, OverwrittenTensorsKeepRequiringGrad) {
  Tensor w = Make({1}, {3}, true);
  Tensor h = w * w;
  h.fill_(5);
  EXPECT_TRUE(h.requires_grad());
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_TRUE(h.requires_grad());
  sum(h * w).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(5));
}

TEST(AutogradTest, DetachInPlace) {
  Tensor w = Make({1}, {3}, true);
  Tensor h = w * w;
  h.detach_();
  EXPECT_FALSE(h.requires_grad());
  sum(h * w).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(9));
  // A recurrent state that is detached in each step.
  Tensor state = Make({1}, {1});
  for (int step = 0; step < 3; ++step) {
    state = state * w;
    sum(state).backward();
    ASSERT_TRUE(xm::mark_step().ok());
    state.detach_();
  }
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(9 + 1 + 3 + 9));
}

TEST(AutogradTest, GradOfInputsAndIntermediates) {
  Tensor x = Make({2}, {1, 2}, true);
  const Tensor h = x * x, y = sum(h * h);
  const Tensors of = autograd::grad({y}, {x, h}, {.retain_graph = true});
  ASSERT_EQ(of.size(), 2u);
  EXPECT_THAT(ValuesOf(of[0]), ElementsAre(4, 32));
  EXPECT_THAT(ValuesOf(of[1]), ElementsAre(2, 8));
  EXPECT_FALSE(x.grad().defined());
  const Tensor other = Make({1}, {1}, true);
  EXPECT_TRUE(autograd::grad({y}, {other}, {.retain_graph = true}).empty());
  EXPECT_THAT(ErrorOf(x), HasSubstr("do not depend on input 0"));
  const Tensors unused = autograd::grad({y}, {other}, {.retain_graph = true, .allow_unused = true});
  ASSERT_EQ(unused.size(), 1u);
  EXPECT_FALSE(unused[0].defined());
}

TEST(AutogradTest, GradOfATensorThatIsAnInputTwice) {
  const Tensor x = Make({2}, {2, 3}, true), h = x * x;
  for (const Tensor& input : {x, h}) {
    const Tensors twice = autograd::grad({sum(h * 5)}, {input, input}, {.retain_graph = true});
    ASSERT_EQ(twice.size(), 2u);
    for (const Tensor& gradient : twice) {
      EXPECT_EQ(ValuesOf(gradient),
                (input.is_leaf() ? std::vector<float>{20, 30} : std::vector<float>{5, 5}));
    }
  }
}

TEST(AutogradTest, DoubleBackward) {
  for (const bool step_between : {false, true}) {
    Tensor x = Make({2}, {1, 2}, true);
    const Tensor h = x * x * x;
    if (step_between) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    const Tensors of = autograd::grad({sum(h)}, {x}, {.create_graph = true});
    ASSERT_EQ(of.size(), 1u);
    EXPECT_TRUE(of[0].requires_grad());
    sum(of[0] * of[0]).backward();  // (3 x^2)^2
    EXPECT_THAT(ValuesOf(x.grad()), ElementsAre(36, 36 * 8));
  }
}

// Tensors of one value are distinguished: PyTorch's gradient with respect to a copy is not that with
// respect to what was copied.
TEST(AutogradTest, GradOfCopiesAndViewsIsTheirOwn) {
  for (const bool step : {false, true}) {
    Tensor x = Make({2}, {2, 3}, true);
    const Tensor h = x * 2, copy = clone(h), view = reshape(h, {2});
    Tensor written = Make({2}, {0, 0});
    written.copy_(h);
    const Tensor y = sum(h * h * copy * view * written);
    if (step) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    for (const Tensor& of : {copy, view, written}) {
      const Tensors gradient = autograd::grad({y}, {of}, {.retain_graph = true});
      ASSERT_EQ(gradient.size(), 1u);
      EXPECT_THAT(ValuesOf(gradient[0]), ElementsAre(256, 1296)) << "h^4";
    }
    EXPECT_THAT(ValuesOf(autograd::grad({y}, {h}, {.retain_graph = true})[0]),
                ElementsAre(1280, 6480));
    y.backward();
    EXPECT_THAT(ValuesOf(x.grad()), ElementsAre(2560, 12960));
  }
}

// As in PyTorch: what lies beside the way to the inputs can be differentiated later.
TEST(AutogradTest, GradFreesOnlyTheWayToItsInputs) {
  for (const bool step : {false, true}) {
    Tensor x = Make({1}, {3}, true), w = Make({1}, {2}, true);
    const Tensor of_x = x * x, of_w = w * w, y = sum(of_x * 1) + sum(of_w * 1);
    if (step) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    EXPECT_THAT(ValuesOf(autograd::grad({y}, {x})[0]), ElementsAre(6));
    sum(of_w).backward();
    EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(4));
    sum(of_x).backward();
    EXPECT_THAT(ErrorOf(x), HasSubstr("a second time"));
  }
}

// The gradient with respect to a tensor of an earlier step depends on all leaves of that step.
TEST(AutogradTest, DoubleBackwardThroughAnEarlierStepReachesAllItsLeaves) {
  for (const bool of_view : {false, true}) {
    Tensor x = Make({1, 2}, {2, 3}, true), w = Make({1, 2}, {5, 7}, true);
    const Tensor h = of_view ? reshape(x, {2}) : reshape(x, {2}) * 1;
    const Tensor y = sum(h * h * h * reshape(w, {2}));
    ASSERT_TRUE(xm::mark_step().ok());
    const Tensors of = autograd::grad({y}, {h}, {.create_graph = true});  // 3 h^2 w
    ASSERT_EQ(of.size(), 1u);
    EXPECT_TRUE(of[0].requires_grad());
    sum(of[0]).backward();
    EXPECT_THAT(ValuesOf(x.grad()), ElementsAre(60, 126));
    EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(12, 27));
  }
}

TEST(AutogradTest, GradOfATensorWhoseOwnGraphIsFreed) {
  Tensor x = Make({1}, {3}, true);
  const Tensor h = x * x, y = sum(h);
  y.backward();
  EXPECT_THAT(ValuesOf(autograd::grad({y}, {h})[0]), ElementsAre(1));
  EXPECT_TRUE(autograd::grad({y}, {x}).empty());
  EXPECT_THAT(ErrorOf(x), HasSubstr("a second time"));
}

TEST(AutogradTest, AFailedBackwardChangesNoGradient) {
  Tensor x = Make({1}, {3}, true);
  const Tensor h = x * x;
  sum(h).backward();
  ASSERT_TRUE(xm::mark_step().ok());
  sum(h * x).backward();  // through this step's product, and again through the last one's
  EXPECT_THAT(ErrorOf(x), HasSubstr("a second time"));
  EXPECT_THAT(ValuesOf(x.grad()), ElementsAre(6));
}

TEST(AutogradTest, GradOfAViewThatAnEarlierStepUsed) {
  Tensor x = Make({1, 2}, {2, 3}, true);
  const Tensor view = t(x);
  const Tensor y = view * view;
  ASSERT_TRUE(xm::mark_step().ok());
  const Tensor z = sum(y * view);
  EXPECT_THAT(ValuesOf(autograd::grad({z}, {view}, {.create_graph = true})[0]),
              ElementsAre(12, 27));
  {
    const no_grad guard;
    x.mul_(2);
  }
  EXPECT_TRUE(autograd::grad({y.sum()}, {view}).empty()) << "the view has other contents";
  EXPECT_THAT(ErrorOf(x), HasSubstr("do not depend on input 0"));
}

// It requires a gradient, as everything that was overwritten, and has one.
TEST(AutogradTest, GradOfATensorThatDependsOnNoLeaf) {
  for (const bool step : {false, true}) {
    Tensor x = Make({2}, {2, 3}, true);
    Tensor h = x * 2;
    h.fill_(5);
    EXPECT_TRUE(h.requires_grad());
    Tensor signs = sign(x);
    const Tensor y = sum(h * h * signs);
    if (step) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    const Tensors of = autograd::grad({y}, {h, signs});
    ASSERT_EQ(of.size(), 2u);
    EXPECT_THAT(ValuesOf(of[0]), ElementsAre(10, 10));
    EXPECT_THAT(ValuesOf(of[1]), ElementsAre(25, 25));
  }
}

// h = state.detach(); h += f(w): the gradient would be lost without a word.
TEST(AutogradTest, WritingAGradientThroughDetachIsAnError) {
  Tensor w = Make({2}, {2, 3}, true), state = Make({2}, {1, 1});
  for (Tensor target : {state.detach(), narrow(state.detach(), 0, 0, 2)}) {
    target.add_(w * w);
    EXPECT_THAT(ErrorOf(w), HasSubstr("its gradient would be lost; use clone() first"));
    {
      const no_grad guard;
      target.add_(w);
    }
    target.add_(w.detach());
    EXPECT_THAT(ErrorOf(w), ::testing::IsEmpty());
  }
  EXPECT_THAT(ValuesOf(state), ElementsAre(9, 13));
}

TEST(AutogradTest, DetachOfADetachedViewChangesNothing) {
  Tensor x = Make({2}, {2, 3}, true);
  Tensor view = x.detach();
  view.requires_grad_();
  view.detach_();
  EXPECT_THAT(ErrorOf(x), ::testing::IsEmpty());
  EXPECT_FALSE(view.requires_grad());
  reshape(x, {1, 2}).detach_();
  EXPECT_THAT(ErrorOf(x), HasSubstr("views cannot be detached"));
}

TEST(AutogradTest, RequiresGradOfDetachedView) {
  Tensor w = Make({2, 2}, {1, 2, 3, 4}, true);
  Tensor leaf = reshape(w * 2, {4}).detach().requires_grad_();
  EXPECT_TRUE(leaf.is_leaf());
  sum(leaf * leaf).backward();
  EXPECT_THAT(ValuesOf(leaf.grad()), ElementsAre(4, 8, 12, 16));
  EXPECT_FALSE(w.grad().defined());
}

TEST(AutogradTest, GradientsOfManySteps) {
  Tensor w = Make({1}, {1}, true);
  Tensor total;
  for (int step = 0; step < 4; ++step) {
    const Tensor loss = sum(w * float(step));
    loss.backward();
    total = total.defined() ? total + loss : loss;
    ASSERT_TRUE(xm::mark_step().ok());
  }
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(6));
  EXPECT_THAT(ValuesOf(total), ElementsAre(6));
}

TEST(AutogradTest, LossMayBeALeafOrAView) {
  Tensor w = Make({}, {3}, true);
  w.backward();
  w.backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(2));
  const Tensor x = Make({2}, {1, 2}, true);
  select(x * x, 0, 1).backward();
  EXPECT_THAT(ValuesOf(x.grad()), ElementsAre(0, 4));
}

// Gradients in one flat buffer, as some programs reduce them.
TEST(AutogradTest, GradMayBeAView) {
  const Tensor flat = Make({4}, {0, 0, 0, 0});
  Tensor a = Make({2}, {1, 2}, true), b = Make({2}, {3, 4}, true);
  a.set_grad(narrow(flat, 0, 0, 2));
  b.set_grad(narrow(flat, 0, 2, 2));
  for (int step = 0; step < 2; ++step) {
    sum(a * b).backward();
    ASSERT_TRUE(xm::mark_step().ok());
  }
  EXPECT_THAT(ValuesOf(flat), ElementsAre(6, 8, 2, 4));
}

TEST(AutogradTest, LeafMayDieBeforeBackward) {
  const Tensor v = Make({1}, {2}, true);
  Tensor y;
  {
    const Tensor w = Make({1}, {3}, true);
    y = sum(w * v);
  }
  y.backward();
  EXPECT_THAT(ValuesOf(v.grad()), ElementsAre(3));
}

// Gradients of a small network, in one step and over two, beside central differences.
TEST(AutogradTest, AgreesWithFiniteDifferences) {
  const std::vector<float> values{0.5f, -0.25f, 0.75f, 0.1f, -0.6f, 0.3f};
  const auto loss_of = [](const Tensor& w, bool step) {
    const Tensor x = Make({2, 3}, {1, 2, -1, 0.5, -2, 1});
    Tensor h = tanh(matmul(x, t(w)));  // [2, 2]
    if (step) {
      EXPECT_TRUE(xm::mark_step().ok());
    }
    select(h, 0, 0).mul_(sum(w));
    return sum(log_softmax(h, 1) * h) + sum(h * h);
  };
  for (const bool step : {false, true}) {
    const Tensor w = Make({2, 3}, values, true);
    loss_of(w, step).backward();
    const std::vector<float> gradient = ValuesOf(w.grad());
    ASSERT_EQ(gradient.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto shifted = [&](float by) {
        std::vector<float> moved = values;
        moved[i] += by;
        return *loss_of(Make({2, 3}, moved), false).item<double>();
      };
      EXPECT_NEAR(gradient[i], (shifted(0.01f) - shifted(-0.01f)) / 0.02, 3e-3) << i;
    }
  }
}

TEST(AutogradTest, SetGradChecksItsType) {
  Tensor w = Make({2}, {1, 2}, true);
  w.set_grad(Make({2}, {5, 6}));
  sum(w).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(6, 7));
  w.set_grad(Tensor());
  EXPECT_FALSE(w.grad().defined());
  w.set_grad(Make({3}, {1, 2, 3}));
  EXPECT_THAT(ErrorOf(w), HasSubstr("another type, shape or device"));
}

TEST(AutogradTest, GradientOfATensorOfAClosedStepIsCountedOnce) {
  const Tensor x = Make({2}, {1, 2}, true);
  const Tensor y = x * 2;
  ASSERT_TRUE(xm::mark_step().ok());
  const Tensor z = y * 3;
  const Tensors grads = autograd::grad({sum(z)}, {y, x});
  ASSERT_EQ(grads.size(), 2u);
  EXPECT_EQ(ValuesOf(grads[0]), std::vector<float>({3, 3}));
  EXPECT_EQ(ValuesOf(grads[1]), std::vector<float>({6, 6}));
}

// The history of a tensor that is overwritten goes on, with a gradient of zero.
TEST(AutogradTest, OverwrittenTensorsKeepTheirHistory) {
  const auto overwritten = [](const std::function<void(Tensor&)>& overwrite, bool frees) {
    Tensor w = Make({2}, {2, 3}, true);
    Tensor y = w * w;
    if (frees) sum(y).backward();
    w.set_grad(Tensor());
    overwrite(y);
    sum(y).backward();
    const std::string error(xm::mark_step().message());
    EXPECT_EQ(w.grad().defined(), error.empty());
    if (w.grad().defined()) {
      EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(0, 0));
    }
    return error;
  };
  const std::vector<std::function<void(Tensor&)>> ways = {
      [](Tensor& y) { y.zero_(); }, [](Tensor& y) { y.fill_(3); },
      [](Tensor& y) {
        y.copy_(Make({2}, {1, 1}));
      },
      [](Tensor& y) {
        view(y, {2, 1}).fill_(1);
      },
      [](Tensor& y) { y.index_put_({Slice{}}, 5); }};
  for (size_t i = 0; i < ways.size(); ++i) {
    EXPECT_EQ(overwritten(ways[i], false), "") << i;
    EXPECT_THAT(overwritten(ways[i], true), HasSubstr("backward through the graph a second time"))
        << i;
  }
}

// A tensor whose own graph was freed, used in steps before the one that differentiates.
TEST(AutogradTest, GradOfAFreedTensorThatAnEarlierStepUsed) {
  Tensor w = Make({1}, {2}, true);
  Tensor y = w * w;
  sum(y * 1).backward();
  ASSERT_TRUE(xm::mark_step().ok());
  Tensor z = y * y * y;
  ASSERT_TRUE(xm::mark_step().ok());
  const Tensor first = autograd::grad({z}, {y}, {.retain_graph = true, .create_graph = true}).at(0);
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_THAT(ValuesOf(first), ElementsAre(3 * 16));
  const Tensors second = autograd::grad({first}, {y}, {.retain_graph = true});
  ASSERT_EQ(second.size(), 1u) << ErrorOf(w);
  EXPECT_THAT(ValuesOf(second[0]), ElementsAre(6 * 4));
  // Beyond y it is an error.
  z.backward();
  EXPECT_THAT(ErrorOf(w), HasSubstr("a second time"));
}

// The step that frees a tensor's own graph also uses the tensor.
TEST(AutogradTest, GradOfAFreedTensorOfTheSameStep) {
  Tensor w = Make({1}, {2}, true);
  const Tensor three = Make({1}, {3});
  Tensor y = w * w;
  sum(y * 1).backward();
  Tensor z = y * y * three;
  const Tensor unrelated = w * w * z;
  ASSERT_TRUE(xm::mark_step().ok());
  const Tensor first = autograd::grad({z}, {y}, {.retain_graph = true, .create_graph = true}).at(0);
  EXPECT_THAT(ValuesOf(first), ElementsAre(2 * 4 * 3));
  EXPECT_THAT(ValuesOf(autograd::grad({first}, {y})[0]), ElementsAre(2 * 3));
  EXPECT_THAT(ValuesOf(autograd::grad({unrelated}, {z}, {.retain_graph = true})[0]),
              ElementsAre(4));
  z.backward();
  EXPECT_THAT(ErrorOf(w), HasSubstr("a second time"));
  // With respect to a tensor that depends on a freed one, in a step after both.
  const Tensor square = z * z;
  ASSERT_TRUE(xm::mark_step().ok());
  EXPECT_THAT(ValuesOf(autograd::grad({square}, {z})[0]), ElementsAre(2 * 48));
}

TEST(AutogradTest, GradOfAViewOfAFreedTensor) {
  Tensor w = Make({2}, {2, 3}, true);
  Tensor a = w * w;
  sum(a * 1).backward();
  const Tensor part = view(a, {2, 1});
  const Tensor y = part * part;
  ASSERT_TRUE(xm::mark_step().ok());
  const Tensors gradient = autograd::grad({sum(y)}, {part});
  ASSERT_EQ(gradient.size(), 1u) << ErrorOf(w);
  EXPECT_THAT(ValuesOf(gradient[0]), ElementsAre(8, 18));
}

// Freed histories of steps before do not lead to a tensor of a later one.
TEST(AutogradTest, GradOfATensorMadeAfterWhatWasFreed) {
  Tensor w = Make({1}, {2}, true);
  Tensor a = w * w;
  sum(a * 1).backward();
  ASSERT_TRUE(xm::mark_step().ok());
  Tensor b = a * a;  // a's history is freed
  ASSERT_TRUE(xm::mark_step().ok());
  autograd::grad({b}, {a});  // frees b's
  Tensor c = b * 3;
  ASSERT_TRUE(xm::mark_step().ok());
  Tensor d = c * c;
  ASSERT_TRUE(xm::mark_step().ok());
  const Tensors gradient = autograd::grad({d}, {c});
  ASSERT_EQ(gradient.size(), 1u) << ErrorOf(w);
  EXPECT_THAT(ValuesOf(gradient[0]), ElementsAre(2 * 48));
}

// A sum of losses over steps keeps no step.
TEST(AutogradTest, ASumOfDifferentiatedLossesKeepsNoHistory) {
  Tensor w = Make({1}, {2}, true), total = Make({1}, {0});
  std::weak_ptr<Segment> first;
  for (int step = 0; step < 4; ++step) {
    const Tensor loss = sum(w * w).view({1}) * 1;
    loss.backward();
    total = total + loss;
    ASSERT_TRUE(xm::mark_step().ok());
    if (step == 0) first = total.impl()->origin;
  }
  EXPECT_TRUE(first.expired());
  EXPECT_THAT(ValuesOf(total), ElementsAre(16));
}

}  // namespace penstock::lazy::autograd_test
