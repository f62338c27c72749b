// PyTorch/XLA: modules, autograd, an optimizer, MpDeviceLoader.
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/lazy/data/parallel_loader.h"
#include "penstock/lazy/functional.h"
#include "penstock/lazy/nn/containers.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/optim/optimizers.h"
#include "penstock/lazy/xm.h"

#include "bench/idioms/idioms.h"

namespace penstock::idioms {
namespace {

namespace torch = penstock::lazy;
namespace nn = torch::nn;
namespace F = torch::nn::functional;
namespace pl = torch::pl;
namespace xm = torch::xm;

// Convolution and batch normalization.
struct Normed : nn::Module {
  Normed(int64_t inputs, int64_t outputs, int64_t kernel, int64_t stride = 1)
      : conv(register_module("conv",
                             nn::Conv2d(inputs, outputs, kernel,
                                        {.stride = stride, .padding = kernel / 2, .bias = false}))),
        norm(register_module("norm", nn::BatchNorm2d(outputs))) {}
  torch::Tensor forward(const torch::Tensor& x) { return norm(conv(x)); }

  nn::Conv2d conv;
  nn::BatchNorm2d norm;
};

struct Block : nn::Module {
  Block(int64_t inputs, int64_t outputs, int64_t stride)
      : first(register_module("first", std::make_shared<Normed>(inputs, outputs, 3, stride))),
        second(register_module("second", std::make_shared<Normed>(outputs, outputs, 3))) {
    if (inputs == outputs) return;
    shortcut = register_module("shortcut", std::make_shared<Normed>(inputs, outputs, 1, stride));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = second->forward(F::relu(first->forward(x)));
    return F::relu(y + (shortcut == nullptr ? x : shortcut->forward(x)));
  }

  std::shared_ptr<Normed> first, second, shortcut;
};

struct ResNet20 : nn::Module {
  ResNet20() {
    int64_t inputs = 16;
    for (const int64_t outputs : {16, 32, 64}) {
      for (int block = 0; block < 3; ++block) {
        blocks.push_back(register_module(
            "block" + std::to_string(blocks.size()),
            std::make_shared<Block>(inputs, outputs, block == 0 && outputs > 16 ? 2 : 1)));
        inputs = outputs;
      }
    }
  }
  torch::Tensor forward(const torch::Tensor& pixels) {
    torch::Tensor x = pixels.to(torch::kFloat32) * (1 / 255.0);
    x = F::relu(stem->forward(x));
    for (const auto& block : blocks) x = block->forward(x);
    return fc(torch::mean(x, {2, 3}));
  }

  std::shared_ptr<Normed> stem = register_module("stem", std::make_shared<Normed>(3, 16, 3));
  std::vector<std::shared_ptr<Block>> blocks;
  nn::Linear fc = register_module("fc", nn::Linear(64, kClasses));
};

// Trains on one batch that a loader transfers again and again.
template <typename Model>
class LazyTraining : public Training {
 public:
  LazyTraining(const torch::Device& device, Model model, const base::Array& x, const base::Array& y,
               const torch::optim::SGDOptions& options)
      : model_(std::move(model)),
        optimizer_(model_->parameters(), options),
        loader_(data::Dataset::FromArrays({{"x", x.Reshape(x.shape().Prepend(1)).value()},
                                           {"y", y.Reshape(y.shape().Prepend(1)).value()}})
                    .Repeat()),
        batches_(loader_, device) {}

  absl::StatusOr<double> Run(int64_t steps) override {
    const double began = SecondsSince(0);
    pl::TensorBatch batch;
    for (int64_t i = 0; i < steps; ++i) {
      PENSTOCK_RETURN_IF_ERROR(batches_.Next(&batch).status());
      optimizer_.zero_grad();
      F::cross_entropy(model_->forward(batch["x"]), batch["y"]).backward();
      PENSTOCK_RETURN_IF_ERROR(xm::optimizer_step(optimizer_));
    }
    PENSTOCK_RETURN_IF_ERROR(xm::mark_step(/*wait=*/true));
    return SecondsSince(began);
  }

 private:
  Model model_;
  torch::optim::SGD optimizer_;
  torch::utils::data::DataLoader loader_;
  pl::MpDeviceLoader batches_;
};

nn::Sequential IrisNet() {
  return nn::Sequential({nn::Linear(4, 10), nn::Sigmoid(), nn::Linear(10, 3)});
}

// A row for each step, as the program reads it.
class LazyRows : public Training {
 public:
  explicit LazyRows(torch::Device device) : device_(std::move(device)) {}

  absl::StatusOr<double> Run(int64_t steps) override {
    const double began = SecondsSince(0);
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t row = i % x_.dim(0);
      const torch::Tensor x = torch::tensor(x_.Slice(row, row + 1), device_);
      const torch::Tensor y = torch::tensor(y_.Slice(row, row + 1), device_);
      optimizer_.zero_grad();
      F::cross_entropy(model_(x), y).backward();
      PENSTOCK_RETURN_IF_ERROR(xm::optimizer_step(optimizer_, /*barrier=*/true));
    }
    PENSTOCK_RETURN_IF_ERROR(xm::mark_step(/*wait=*/true));
    return SecondsSince(began);
  }

 private:
  const torch::Device device_;
  const base::Array x_ = Flowers(), y_ = FlowerClasses();
  nn::Sequential model_ = IrisNet();
  torch::optim::SGD optimizer_{model_->parameters(), {.lr = kIrisLearningRate}};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Training>> LazyResNet20() {
  PENSTOCK_ASSIGN_OR_RETURN(const torch::Device device, xm::xla_device());
  using Net = LazyTraining<std::shared_ptr<ResNet20>>;
  return std::make_unique<Net>(
      device, std::make_shared<ResNet20>(), ImagesChannelsFirst(), Labels(),
      torch::optim::SGDOptions{.lr = kLearningRate, .momentum = kMomentum});
}

absl::StatusOr<std::unique_ptr<Training>> LazyIris() {
  PENSTOCK_ASSIGN_OR_RETURN(const torch::Device device, xm::xla_device());
  return std::make_unique<LazyTraining<nn::Sequential>>(
      device, IrisNet(), Flowers(), FlowerClasses(),
      torch::optim::SGDOptions{.lr = kIrisLearningRate});
}

absl::StatusOr<std::unique_ptr<Training>> LazyIrisRows() {
  PENSTOCK_ASSIGN_OR_RETURN(torch::Device device, xm::xla_device());
  return std::make_unique<LazyRows>(std::move(device));
}

}  // namespace penstock::idioms
