// Hooks of tensors and modules, gradient modes, and checkpoints (rematerialization). What PyTorch
// does in the same program is in the comments.
#include "penstock/lazy/hooks.h"

#include <cmath>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/lazy/amp.h"
#include "penstock/lazy/autograd.h"
#include "penstock/lazy/checkpoint.h"
#include "penstock/lazy/grad_mode.h"
#include "penstock/lazy/metrics.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/nn/recurrent.h"
#include "penstock/lazy/nn/transformer.h"
#include "penstock/lazy/random.h"
#include "penstock/lazy/testing/tensors.h"
#include "penstock/lazy/xmp.h"

namespace penstock::lazy::hooks_test {

using test::ErrorOf;
using test::Make;
using test::TestDevice;
using test::ValuesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using utils::checkpoint::checkpoint;

TEST(TensorHooks, ReplaceTheGradientOfLeavesAndOthers) {
  Tensor w = Make({2}, {2, 3}, true);
  const Tensor h = w * w, y = h * h;
  std::vector<float> seen;
  // Called in order; the second gets what the first returned.
  h.register_hook([](const Tensor& grad) { return grad * 2; });
  h.register_hook([&](const Tensor& grad) { seen = ValuesOf(grad); });
  w.register_hook([](const Tensor& grad) { return grad.clamp(0, 100); });
  sum(y).backward();
  EXPECT_THAT(seen, ElementsAre(16, 36));                 // 2 * 2 h
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(64, 100));  // 2 * 4 w^3 = 64, 216
}

// The cotangent is replaced, not corrected by a difference: NaN does not survive.
TEST(TensorHooks, RemoveNans) {
  Tensor w = Make({2}, {0, 4}, true);
  const Tensor h = w * 1.0;
  h.register_hook([](const Tensor& grad) { return nan_to_num(grad, 0, 0, 0); });
  sum(sqrt(h)).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(0, 0.25));
}

TEST(TensorHooks, SeeTheSumOfAllContributions) {
  Tensor w = Make({1}, {3}, true);
  const Tensor h = w * 2;
  int calls = 0;
  std::vector<float> seen;
  h.register_hook([&](const Tensor& grad) {
    ++calls;
    seen = ValuesOf(grad);
  });
  const Tensor later = h * 5;
  later.register_hook([](const Tensor& grad) { return grad * 10; });
  sum(h * 3 + later).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(seen, ElementsAre(53));
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(106));
}

TEST(TensorHooks, AreRemoved) {
  Tensor w = Make({1}, {3}, true);
  int calls = 0;
  RemovableHandle handle = w.register_hook([&](const Tensor&) { ++calls; });
  sum(w * w).backward();
  handle.remove();
  handle.remove();
  sum(w * w).backward();
  EXPECT_EQ(calls, 1);
  RemovableHandle().remove();
}

// A hook stays when its tensor is destroyed, is overwritten, or belongs to an executed step.
TEST(TensorHooks, BelongToTheValue) {
  Tensor w = Make({1}, {3}, true);
  Tensor y;
  std::vector<float> seen, of_step;
  {
    Tensor h = w * 2;
    h.register_hook([&](const Tensor& grad) { seen = ValuesOf(grad); });
    h.mul_(5);
    y = h * h;  // 100 w^2
  }
  ASSERT_TRUE(xm::mark_step().ok());
  // After its step was executed.
  y.register_hook([&](const Tensor& grad) { of_step = ValuesOf(grad); });
  sum(y * 2).backward();
  EXPECT_THAT(of_step, ElementsAre(2));
  EXPECT_THAT(seen, ElementsAre(2 * 2 * 30 * 5));
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(1200));
}

TEST(TensorHooks, OfViewsInLaterSteps) {
  Tensor w = Make({4}, {1, 2, 3, 4}, true);
  const Tensor h = w * 2, view = h.reshape({2, 2});
  std::vector<float> seen;
  view.register_hook([&](const Tensor& grad) { seen = ValuesOf(grad); });
  ASSERT_TRUE(xm::mark_step().ok());
  sum(view * view).backward();
  EXPECT_THAT(seen, ElementsAre(4, 8, 12, 16));
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(8, 16, 24, 32));
}

TEST(TensorHooks, OfAViewThatOnlyAnotherViewRefersTo) {
  Tensor w = Make({4}, {1, 2, 3, 4}, true);
  const Tensor h = w * 2;
  int calls = 0;
  Tensor inner;
  {
    const Tensor view = h.view({2, 2});
    view.register_hook([&](const Tensor&) { ++calls; });
    inner = view.view({1, 4});
  }
  ASSERT_TRUE(xm::mark_step().ok());
  const Tensor outer = inner.view({4});
  sum(outer * outer).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(8, 16, 24, 32));
}

TEST(TensorHooks, MayRecordReadAndDifferentiate) {
  Tensor w = Make({1}, {3}, true);
  const Tensor h = w * w;
  bool gradients = true;
  h.register_hook([&](const Tensor& grad) {
    gradients = is_grad_enabled();
    for (int i = 0; i < 20; ++i) EXPECT_THAT(ValuesOf(grad + i), ElementsAre(6.0f * 3 + i));
    return grad;
  });
  sum(h * h).backward();
  EXPECT_FALSE(gradients);
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(108));
  // Double backward, as PyTorch: the hook is called for the second gradient, too. 8 g v, g = v^2;
  // then 8 g + 8 v * 2 * 2 v.
  Tensor v = Make({1}, {3}, true);
  const Tensor g = v * v;
  g.register_hook([](const Tensor& grad) { return grad * 2; });
  const Tensors first = autograd::grad({sum(g * g)}, {v}, {.create_graph = true});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_THAT(ValuesOf(first[0]), ElementsAre(216));
  sum(first[0]).backward();
  EXPECT_THAT(ValuesOf(v.grad()), ElementsAre(360));
}

// The hook is the first in the step to use its tensor, while gradients are on their way.
TEST(TensorHooks, MayUseAnotherLeafInALaterStep) {
  Tensor w = Make({1}, {3}, true), u = Make({1}, {5}, true);
  const Tensor y = w * 2;
  ASSERT_TRUE(xm::mark_step().ok());
  const Tensor z = y * y;
  z.register_hook([&](const Tensor& grad) { return grad * u; });
  const Tensors grads = autograd::grad({sum(z)}, {w}, {.create_graph = true});
  ASSERT_EQ(grads.size(), 1u) << ErrorOf(w);
  EXPECT_THAT(ValuesOf(grads[0]), ElementsAre(5 * 2 * 6 * 2));
}

TEST(TensorHooks, AreCalledByGradForItsInputs) {
  Tensor w = Make({1}, {3}, true);
  const Tensor h = w * 2;
  h.register_hook([](const Tensor& grad) { return grad * 10; });
  w.register_hook([](const Tensor& grad) { return grad + 1; });
  const Tensors grads = autograd::grad({sum(h * h)}, {h, w});
  ASSERT_EQ(grads.size(), 2u);
  EXPECT_THAT(ValuesOf(grads[0]), ElementsAre(120));
  EXPECT_THAT(ValuesOf(grads[1]), ElementsAre(241));
}

// An error changes no leaf, and the thread can continue.
TEST(TensorHooks, ErrorsChangeNoLeaf) {
  Tensor w = Make({2}, {1, 2}, true);
  const auto fails = [&](auto hook, const std::string& message) {
    const Tensor h = w * 2;
    h.register_hook(hook);
    sum(h).backward();
    EXPECT_FALSE(w.grad().defined());
    EXPECT_THAT(ErrorOf(w), HasSubstr(message));
    EXPECT_THAT(ValuesOf(w), ElementsAre(1, 2));
  };
  fails([](const Tensor&) -> Tensor { throw std::runtime_error("the hook threw"); },
        "the hook threw");
  fails([](const Tensor& grad) { return sum(grad); }, "a hook returned");
  fails([](const Tensor& grad) { return matmul(grad, Make({3}, {1, 2, 3})); }, "matmul");
  fails(
      [](const Tensor&) {
        EXPECT_FALSE(xm::mark_step().ok());
        throw std::runtime_error("x");
      },
      "x");
  const Tensor plain = Make({1}, {1});
  plain.register_hook([](const Tensor&) {});
  EXPECT_THAT(ErrorOf(plain), HasSubstr("does not require a gradient"));
  Tensor().register_hook([](const Tensor&) {});
  EXPECT_THAT(ErrorOf(plain), HasSubstr("register_hook"));
  // An undefined result leaves the gradient.
  w.register_hook([](const Tensor&) { return Tensor(); });
  sum(w * 3).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(3, 3));
}

TEST(TensorHooks, RetainGrad) {
  Tensor w = Make({1}, {3}, true);
  const Tensor h = w * 2;
  h.retain_grad();
  h.register_hook([](const Tensor& grad) { return grad * 10; });
  w.retain_grad();
  sum(h * h).backward({}, /*retain_graph=*/true);
  EXPECT_THAT(ValuesOf(h.grad()), ElementsAre(120)) << "after the hooks";
  ASSERT_TRUE(xm::mark_step().ok());
  sum(h * h).backward();
  EXPECT_THAT(ValuesOf(h.grad()), ElementsAre(240));
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(480));
}

// The same hooks in each step are the same program.
TEST(TensorHooks, CompileOnce) {
  Tensor w = Make({1}, {3}, true);
  const auto step = [&] {
    const Tensor h = w * w;
    h.register_hook([](const Tensor& grad) { return grad * 0.5; });
    w.set_grad(Tensor());
    sum(h).backward();
    const no_grad guard;
    w.sub_(w.grad());
    return xm::mark_step(true);
  };
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(step().ok());
  const int64_t before = met::counter_value("UncachedCompile").value_or(0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step().ok());
  EXPECT_EQ(met::counter_value("UncachedCompile").value_or(0), before);
  EXPECT_THAT(ValuesOf(w), ElementsAre(0));
}

// Gradients reduced over replicas as they arrive (DistributedDataParallel's way).
TEST(TensorHooks, MayRecordCollectives) {
  const auto replica = [](int index) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const Device device, xm::xla_device());
    Tensor w = tensor(Array::Of<float>({1}, {2}), device, true);
    w.register_hook([](const Tensor& grad) { return xm::all_reduce(xm::REDUCE_SUM, grad, 0.5); });
    const Tensor h = w * tensor(Array::Of<float>({1}, {index + 1.0F}), device);
    h.register_hook([](const Tensor& grad) { return grad * 10; });
    sum(h * h).backward();
    PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
    EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(10 * (4 + 16) / 2));
    return absl::OkStatus();
  };
  const absl::Status status = xmp::spawn(replica, {.nprocs = 2, .client = runtime::TestClient(2)});
  EXPECT_TRUE(status.ok()) << status;
}

// As PyTorch: what a hook adds or removes takes effect with the next gradient.
TEST(TensorHooks, MayChangeTheHooks) {
  Tensor w = Make({1}, {3}, true);
  const Tensor h = w * 2;
  RemovableHandle first;
  int added = 0, calls = 0;
  first = h.register_hook([&](const Tensor&) {
    ++calls;
    first.remove();
    h.register_hook([&](const Tensor&) { ++added; });
  });
  sum(h).backward({}, true);
  EXPECT_EQ(added, 0);
  sum(h).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(added, 1);
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(4));
}

// ---- Modules ----

TEST(ModuleHooks, SeeAndReplaceArgumentsAndResults) {
  const nn::Sequential model({nn::Identity(), nn::ReLU()});
  Tensor features;
  std::vector<std::string> order;
  nn::Module* const first = model->get_submodule("0");
  ASSERT_NE(first, nullptr);
  first->register_forward_pre_hook([&](nn::Module& module, const Tensors& args) {
    order.push_back(&module == first ? "pre" : "?");
    return args[0] * 2;
  });
  RemovableHandle handle =
      first->register_forward_hook([&](nn::Module&, const Tensors& args, const Tensors& output) {
        order.push_back("hook");
        features = output[0] - args[0];
        return Tensors{output[0] + 1};
      });
  EXPECT_THAT(ValuesOf(model(Make({2}, {-3, 4}))), ElementsAre(0, 9));
  EXPECT_THAT(ValuesOf(features), ElementsAre(0, 0));
  EXPECT_THAT(order, ElementsAre("pre", "hook"));
  handle.remove();
  EXPECT_THAT(ValuesOf(model(Make({2}, {-3, 4}))), ElementsAre(0, 8));
  model->register_forward_hook(
      [](nn::Module&, const Tensors&, const Tensors&) { return Tensors(3); });
  const Tensor y = model(Make({1}, {1}));
  EXPECT_THAT(ErrorOf(y), HasSubstr("returned 3 tensors instead of 1"));
}

// Of results that are structs, of several arguments, of layers within a module, of losses.
TEST(ModuleHooks, OfEveryKindOfModule) {
  const nn::LSTM lstm(2, 3);
  size_t results = 0;
  lstm->register_forward_hook(
      [&](nn::Module&, const Tensors&, const Tensors& output) { results = output.size(); });
  lstm(zeros({1, 1, 2}));
  EXPECT_EQ(results, 3u);
  const nn::TransformerEncoder encoder(
      nn::TransformerEncoderLayer(4, 2, {.dim_feedforward = 4, .dropout = 0}), 2);
  int calls = 0;
  for (const char* path : {"layers.0", "layers.1.self_attn", "layers.1.linear2"}) {
    nn::Module* const module = encoder->get_submodule(path);
    ASSERT_NE(module, nullptr) << path;
    module->register_forward_hook([&](nn::Module&, const Tensors&, const Tensors&) { ++calls; });
  }
  encoder(zeros({3, 1, 4}));
  EXPECT_EQ(calls, 3);
  const nn::MSELoss loss;
  loss->register_forward_hook([](nn::Module&, const Tensors& args, const Tensors& output) {
    return Tensors{output[0] * static_cast<double>(args.size())};
  });
  EXPECT_THAT(ValuesOf(loss(Make({1}, {3}), Make({1}, {1}))), ElementsAre(8));
  EXPECT_EQ(encoder->get_submodule("layers.2"), nullptr);
  EXPECT_THAT(ErrorOf(zeros(1)), HasSubstr("there is no module \"2\""));
}

TEST(ModuleHooks, NamedModulesAreThoseOfPyTorch) {
  const nn::Linear shared(2, 2);
  const nn::Sequential model({{"a", shared}, {"b", nn::Sequential({nn::ReLU(), shared})}});
  std::vector<std::string> names;
  for (const auto& [name, module] : model->named_modules()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("", "a", "b", "b.0"));
  EXPECT_EQ(model->modules().size(), 4u);
  EXPECT_EQ(model->get_submodule("b.1"), shared.ptr().get());
  EXPECT_EQ(model->get_submodule(""), model.ptr().get());
}

// ---- Gradient modes ----

TEST(GradMode, ScopesNest) {
  const Tensor w = Make({1}, {2}, true);
  EXPECT_TRUE(is_grad_enabled());
  {
    const no_grad off;
    EXPECT_FALSE((w * 2).requires_grad());
    {
      const enable_grad on;
      EXPECT_TRUE((w * 2).requires_grad());
      const set_grad_enabled evaluation(false);
      EXPECT_FALSE((w * 2).requires_grad());
    }
    EXPECT_FALSE(is_grad_enabled());
    const inference_mode training(false);
    EXPECT_TRUE(is_grad_enabled());
  }
  {
    const inference_mode mode;
    EXPECT_FALSE((w * 2).requires_grad());
  }
  EXPECT_TRUE(is_grad_enabled());
}

// ---- Checkpoints ----

TEST(Checkpoint, GradientsAreThoseWithoutIt) {
  Tensor w = Make({2, 2}, {0.5, -1, 2, 0.25}, true), x = Make({1, 2}, {1, 2}, true);
  const auto block = [&](const Tensor& v) { return tanh(matmul(v, w)) * v; };
  const Tensor plain = sum(block(block(x)));
  const float loss = ValuesOf(plain)[0];
  plain.backward();
  const std::vector<float> of_w = ValuesOf(w.grad()), of_x = ValuesOf(x.grad());
  w.set_grad(Tensor());
  x.set_grad(Tensor());
  for (int step = 0; step < 2; ++step) {
    const Tensor y = sum(checkpoint(block, checkpoint(block, x)));
    // Also through a step that was executed.
    if (step == 1) {
      ASSERT_TRUE(xm::mark_step().ok());
    }
    y.backward();
    EXPECT_THAT(ValuesOf(y), ElementsAre(loss));
    EXPECT_THAT(ValuesOf(w.grad()), testing::Pointwise(testing::FloatNear(1e-5), of_w));
    EXPECT_THAT(ValuesOf(x.grad()), testing::Pointwise(testing::FloatNear(1e-5), of_x));
    w.set_grad(Tensor());
    x.set_grad(Tensor());
  }
}

TEST(Checkpoint, RemembersRandomNumbersAndChangesStateOnce) {
  nn::Sequential model({nn::Linear(4, 4), nn::BatchNorm1d(4), nn::Dropout(0.5)});
  model->to(TestDevice());
  Tensor x =
      ones({3, 4}, {.device = TestDevice()}) * arange(12, {.device = TestDevice()}).reshape({3, 4});
  const Tensor y = checkpoint(model, x);
  sum(y * y).backward();
  ASSERT_TRUE(xm::mark_step().ok());
  for (const auto& [name, buffer] : model->named_buffers()) {
    if (name == "1.num_batches_tracked") {
      EXPECT_EQ(*buffer.item<int64_t>(), 1);
    }
  }
  for (const auto& [name, parameter] : model->named_parameters()) {
    EXPECT_TRUE(parameter.grad().defined()) << name;
  }
}

TEST(Checkpoint, OfListsSequencesAndWithoutGradients) {
  Tensor w = Make({1}, {3}, true);
  const Tensors both = checkpoint(
      [](const Tensor& a, const Tensor& b) {
        return Tensors{a * b, a.detach(), a};
      },
      w, w);
  ASSERT_EQ(both.size(), 3u);
  EXPECT_FALSE(both[1].requires_grad());
  EXPECT_EQ(both[2].impl(), w.impl());
  sum(both[0] + both[2]).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(7));
  const nn::Sequential layers({nn::Tanh(), nn::Identity(), nn::Tanh()});
  const Tensor y = utils::checkpoint::checkpoint_sequential(layers, 2, w);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_NEAR(ValuesOf(y)[0], std::tanh(std::tanh(3)), 1e-6);
  EXPECT_FALSE(utils::checkpoint::checkpoint_sequential(layers, 4, w).defined());
  EXPECT_THAT(ErrorOf(w), HasSubstr("segments is 4 for 3 modules"));
  {
    const no_grad guard;
    EXPECT_FALSE(checkpoint([](const Tensor& v) { return v * v; }, w).requires_grad());
  }
  // A function that ends the step.
  const Tensor z = checkpoint(
      [](const Tensor& v) {
        const Tensor h = v * v;
        EXPECT_TRUE(xm::mark_step().ok());
        return h * v;
      },
      w);
  w.set_grad(Tensor());
  sum(z).backward();
  EXPECT_THAT(ValuesOf(w.grad()), ElementsAre(27));
  checkpoint([](const Tensor& v) { return matmul(v, zeros({2, 2})); }, w);
  EXPECT_THAT(ErrorOf(w), HasSubstr("matmul"));
}

// Checkpoints in checkpoints, of convolutions, loops and 16-bit types, with hooks on their results;
// the same program in each step.
TEST(Checkpoint, OfNetworks) {
  manual_seed(3);
  nn::Conv2d conv(2, 2, 3, {.padding = 1});
  nn::LSTM lstm(8, 8);
  const auto network = [&](const Tensor& x, bool with) {
    const auto run = [with](const auto& function, const Tensor& v) {
      return with ? checkpoint(function, v) : function(v);
    };
    const auto inner = [&](const Tensor& v) { return relu(conv(v)); };
    const auto outer = [&](const Tensor& v) { return run(inner, run(inner, v)) + v; };
    const Tensor features = flatten(run(outer, x), 1);  // [2, 8]
    const auto steps = [&](const Tensor& v) { return lstm(unsqueeze(v, 0)).output; };
    const Tensor y = run(steps, features);
    y.register_hook([](const Tensor& grad) { return grad * 2; });
    return sum(square(y));
  };
  std::vector<std::vector<float>> all[2];
  for (const bool with : {false, true}) {
    for (const Tensor& parameter : conv->parameters()) Tensor(parameter).set_grad(Tensor());
    for (const Tensor& parameter : lstm->parameters()) Tensor(parameter).set_grad(Tensor());
    Tensor x = arange(16, {.dtype = kFloat, .device = conv->weight.device()}) * 0.1;
    x = x.reshape({2, 2, 2, 2}).detach().clone();
    x.requires_grad_();
    {
      const amp::autocast scope("bfloat16");
      network(x, with).backward();
    }
    ASSERT_TRUE(xm::mark_step().ok());
    all[with].push_back(ValuesOf(x.grad()));
    all[with].push_back(ValuesOf(conv->weight.grad()));
    for (const Tensor& parameter : lstm->parameters()) {
      all[with].push_back(ValuesOf(parameter.grad()));
    }
  }
  for (size_t i = 0; i < all[0].size(); ++i) {
    EXPECT_THAT(all[1][i], testing::Pointwise(testing::FloatNear(0.02F), all[0][i])) << i;
  }
}

}  // namespace penstock::lazy::hooks_test
