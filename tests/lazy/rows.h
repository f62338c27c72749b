// Rows of the comparison of room lazy with PyTorch: each is a small program, here in C++ and under
// the same name in the Python file of its family. The name's first word is what the row is about.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/array.h"
#include "penstock/lazy/functional.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/nn/parameter_vector.h"
#include "penstock/lazy/nn/recurrent.h"
#include "penstock/lazy/nn/transformer.h"
#include "penstock/lazy/optim/clip.h"
#include "penstock/lazy/optim/lr_scheduler.h"
#include "penstock/lazy/optim/optimizers.h"

namespace penstock::tests::lazy_rows {

// NOLINTNEXTLINE(google-build-using-namespace): rows read like PyTorch programs
namespace torch = ::penstock::lazy;
namespace nn = ::penstock::lazy::nn;
namespace F = ::penstock::lazy::nn::functional;
namespace optim = ::penstock::lazy::optim;
using T = lazy::Tensor;
using Ts = lazy::Tensors;
using lazy::Ellipsis;
using lazy::None;
using lazy::Slice;

// Inputs of a row, and the modules that it made.
struct Case {
  Ts x = {};
  base::NamedArrays state = {};  // the state_dict of PyTorch's module
  lazy::Device device = {};
  std::shared_ptr<nn::Module> module = nullptr;  // whose parameters' gradients are compared
  absl::Status status = absl::OkStatus();

  // The module with PyTorch's weights.
  template <typename M>
  M Load(M m) {
    if constexpr (requires { m.ptr(); }) {
      module = m.ptr();
    } else {
      module = m;
    }
    status = module->load_state_dict(state);
    return m;
  }
};
using Program = std::function<Ts(Case& c)>;
using Table = std::vector<std::pair<std::string, Program>>;

Table ElementwiseRows();
Table ReductionRows();
Table ShapeRows();
Table IndexingRows();
Table ContractionRows();
Table CreationRows();
Table InPlaceRows();
Table ActivationRows();
Table LayerRows();
Table LossRows();
Table ImageRows();
Table ModuleRows();
Table SequenceRows();
Table ModelRows();

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const Ts& params)>;
std::vector<std::pair<std::string, MakeOptimizer>> OptimizerRows();
// The rates of 30 epochs: those of a function that makes each step.
using MakeStep = std::function<std::function<void(int epoch)>(optim::Optimizer& optimizer)>;
std::vector<std::pair<std::string, MakeStep>> SchedulerRows();

}  // namespace penstock::tests::lazy_rows
