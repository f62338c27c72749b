// Compares functions, modules, optimizers and schedulers of room lazy with PyTorch: values, types
// and gradients. Rows: <family>.cc and <family>.py; expect.py computes with PyTorch and checks that
// no function, module or optimizer of the headers is without a row. A family is one program.
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "penstock/io/file_system.h"
#include "penstock/lazy/trace.h"
#include "penstock/lazy/xm.h"
#include "penstock/save/save.h"

#include "tests/lazy/rows.h"
#include "tests/python.h"

namespace penstock::tests::lazy_rows {
namespace {

namespace xm = lazy::xm;
using base::Array;
using base::DType;

// What PyTorch computed: [row][kind][index or name].
using NamedValues = std::map<std::string, base::NamedArrays>;
using Expected = std::map<std::string, NamedValues>;

// One run of PyTorch for all families.
const std::map<std::string, Expected>& FromPyTorch() {
  static const auto* const all = [] {
    auto* families = new std::map<std::string, Expected>();
    const TemporaryFolder folder;
    const absl::Status ran = RunDebianPython("lazy/expect.py", {folder.path().string()});
    EXPECT_TRUE(ran.ok()) << ran;
    if (!ran.ok()) return families;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      const auto weights = save::ReadWeights(*io::FileSystem::Default(), entry.path().string());
      EXPECT_TRUE(weights.ok()) << weights.status();
      if (!weights.ok()) continue;
      if (entry.path().extension() == ".pth") {
        (*families)["files"][entry.path().stem().string()]["state"] = weights->arrays;
        continue;
      }
      Expected& family = (*families)[entry.path().stem().string()];
      for (const auto& [name, array] : weights->arrays) {
        const std::vector<std::string> parts = absl::StrSplit(name, '|');  // row|kind|index
        family[parts[0]][parts[1]].Append(parts[2], array);
      }
    }
    return families;
  }();
  return *all;
}

double ToleranceOf(const Array& want, double tolerance) {
  switch (want.dtype()) {
    case DType::kBF16:
      return 2e-2;
    case DType::kF16:
      return 2e-3;
    case DType::kF64:
      return 1e-10;
    default:
      return tolerance;
  }
}

// Empty: `got` equals `want`, floats within the tolerance relative to the largest element, or to
// 0.1 where all are smaller: inputs are of the size of 1, and small gradients are differences.
std::string Difference(const Array& got, const Array& want, double tolerance) {
  if (got.TypeString() != want.TypeString()) {
    return absl::StrCat("is ", got.TypeString(), ", PyTorch has ", want.TypeString());
  }
  const Array g = *got.Cast(DType::kF64), w = *want.Cast(DType::kF64);
  double largest = 0;
  for (double value : w.values<double>()) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const double limit =
      base::IsFloat(want.dtype()) ? ToleranceOf(want, tolerance) * std::max(largest, 0.1) : 0;
  for (int64_t i = 0; i < g.num_elements(); ++i) {
    const double a = g.values<double>()[i], b = w.values<double>()[i];
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= limit) continue;
    return absl::StrCat("element ", i, " is ", a, ", PyTorch has ", b, " (limit ", limit, ")");
  }
  return "";
}

bool IsGradient(absl::string_view kind) { return kind == "grad" || kind == "param_grad"; }
bool IsZero(const Array& array) {
  const Array wide = *array.Cast(DType::kF64);
  for (double value : wide.values<double>()) {
    if (value != 0) return false;
  }
  return true;
}

// A row that was recorded: what is compared with PyTorch.
struct Recorded {
  std::string name;
  const NamedValues* values;
  std::map<std::string, std::map<std::string, T>> results;  // by kind and index
};

double ToleranceOfRow(const NamedValues& values) {
  const auto found = values.find("tolerance");
  return found == values.end() ? 1e-5 : found->second[0].second.item<double>();
}

// Records the row's program and its gradients.
Recorded Record(const std::string& name, const Program& program, const NamedValues& values,
                const lazy::Device& device) {
  Recorded row{name, &values, {}};
  Case c{.device = device};
  const auto of = [&](const char* kind) {
    const auto found = values.find(kind);
    return found == values.end() ? base::NamedArrays() : found->second;
  };
  const bool differentiates = values.count("cotangent") > 0;
  for (const auto& [index, array] : of("input")) {
    c.x.push_back(lazy::tensor(array, device, differentiates && base::IsFloat(array.dtype())));
  }
  c.state = of("state");
  const Ts inputs = c.x;
  const Ts outputs = program(c);
  EXPECT_TRUE(c.status.ok()) << name << ": " << c.status;
  for (size_t i = 0; i < outputs.size(); ++i) row.results["output"][absl::StrCat(i)] = outputs[i];
  T total;
  for (const auto& [index, array] : of("cotangent")) {
    int at = 0;
    if (!absl::SimpleAtoi(index, &at) || at >= static_cast<int>(outputs.size())) continue;
    const T term = lazy::sum(outputs[at] * lazy::tensor(array, device));
    total = total.defined() ? total + term.to(total.dtype()) : term;
  }
  if (total.defined() && total.requires_grad()) total.backward();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].grad().defined()) row.results["grad"][absl::StrCat(i)] = inputs[i].grad();
  }
  if (c.module != nullptr) {
    for (const auto& [path, param] : c.module->named_parameters()) {
      if (param.grad().defined()) row.results["param_grad"][path] = param.grad();
    }
    for (const auto& [path, buffer] : c.module->named_buffers()) {
      row.results["buffer"][path] = buffer;
    }
  }
  const absl::Status error = lazy::Recorder::OfThread().TakeError();
  EXPECT_TRUE(error.ok()) << name << ": " << error;
  return row;
}

void Compare(const Recorded& row) {
  const double tolerance = ToleranceOfRow(*row.values);
  for (const char* kind : {"output", "grad", "param_grad", "buffer"}) {
    const auto want = row.values->find(kind);
    const auto got = row.results.find(kind);
    std::set<std::string> compared;
    if (want != row.values->end()) {
      for (const auto& [index, array] : want->second) {
        compared.insert(index);
        const T* tensor = nullptr;
        if (got != row.results.end() && got->second.count(index) > 0) {
          tensor = &got->second.at(index);
        }
        if (tensor == nullptr || !tensor->defined()) {
          // The gradient of a step function: zeros in PyTorch, none here.
          if (IsGradient(kind) && IsZero(array)) continue;
          ADD_FAILURE() << row.name << ": there is no " << kind << " " << index;
          continue;
        }
        const absl::StatusOr<Array> value = tensor->cpu();
        if (!value.ok()) {
          ADD_FAILURE() << row.name << ": " << kind << " " << index << ": " << value.status();
          continue;
        }
        const std::string wrong = Difference(*value, array, tolerance);
        EXPECT_TRUE(wrong.empty()) << row.name << ": " << kind << " " << index << " " << wrong;
      }
    }
    if (got == row.results.end()) continue;
    for (const auto& [index, tensor] : got->second) {
      EXPECT_EQ(compared.count(index), 1u)
          << row.name << ": PyTorch has no " << kind << " " << index;
    }
  }
}

void CompareFamily(const std::string& family, const Table& table) {
  const auto found = FromPyTorch().find(family);
  ASSERT_NE(found, FromPyTorch().end()) << "expect.py has no family " << family;
  const Expected& expected = found->second;
  const absl::StatusOr<lazy::Device> device = xm::xla_device();
  ASSERT_TRUE(device.ok()) << device.status();
  std::vector<Recorded> rows;
  std::set<std::string> names;
  for (const auto& [name, program] : table) {
    EXPECT_TRUE(names.insert(name).second) << "two rows are named " << name;
    const auto values = expected.find(name);
    if (values == expected.end()) {
      ADD_FAILURE() << family << ".py has no row " << name;
      continue;
    }
    rows.push_back(Record(name, program, values->second, *device));
  }
  for (const auto& [name, values] : expected) {
    EXPECT_EQ(names.count(name), 1u) << family << ".cc has no row " << name;
  }
  const absl::Status ran = xm::mark_step();
  ASSERT_TRUE(ran.ok()) << ran;
  for (const Recorded& row : rows) Compare(row);
}

TEST(LazyParity, Elementwise) { CompareFamily("elementwise", ElementwiseRows()); }
TEST(LazyParity, Reductions) { CompareFamily("reductions", ReductionRows()); }
TEST(LazyParity, Shapes) { CompareFamily("shapes", ShapeRows()); }
TEST(LazyParity, Indexing) { CompareFamily("indexing", IndexingRows()); }
TEST(LazyParity, Contractions) { CompareFamily("contractions", ContractionRows()); }
TEST(LazyParity, Creation) { CompareFamily("creation", CreationRows()); }
TEST(LazyParity, InPlace) { CompareFamily("in_place", InPlaceRows()); }
TEST(LazyParity, Activations) { CompareFamily("activations", ActivationRows()); }
TEST(LazyParity, Layers) { CompareFamily("layers", LayerRows()); }
TEST(LazyParity, Losses) { CompareFamily("losses", LossRows()); }
TEST(LazyParity, Images) { CompareFamily("images", ImageRows()); }
TEST(LazyParity, Modules) { CompareFamily("modules", ModuleRows()); }
TEST(LazyParity, Sequences) { CompareFamily("sequences", SequenceRows()); }
TEST(LazyParity, Models) { CompareFamily("models", ModelRows()); }

// ---- Optimizers: ten steps of all rows together, so that they share a program ----

TEST(LazyParity, Optimizers) {
  const auto found = FromPyTorch().find("optimizers");
  ASSERT_NE(found, FromPyTorch().end());
  const absl::StatusOr<lazy::Device> device = xm::xla_device();
  ASSERT_TRUE(device.ok()) << device.status();
  const base::NamedArrays &initial = found->second.at("shared").at("input"),
                          &gradients = found->second.at("shared").at("gradient");
  struct Row {
    std::string name;
    Ts params;
    std::unique_ptr<optim::Optimizer> optimizer;
  };
  std::vector<Row> rows;
  std::set<std::string> names{"shared"};
  for (const auto& [name, make] : OptimizerRows()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    Row row{name, {}, nullptr};
    for (const auto& [index, array] : initial) {
      row.params.push_back(lazy::tensor(array, *device, true));
    }
    row.optimizer = make(row.params);
    rows.push_back(std::move(row));
  }
  const size_t count = initial.size();
  for (size_t step = 0; step * count < gradients.size(); ++step) {
    Ts grads;
    for (size_t i = 0; i < count; ++i) {
      grads.push_back(lazy::tensor(gradients[step * count + i].second, *device));
    }
    for (Row& row : rows) {
      for (size_t i = 0; i < count; ++i) row.params[i].set_grad(grads[i]);
      row.optimizer->step();
    }
    const absl::Status ran = xm::mark_step();
    ASSERT_TRUE(ran.ok()) << ran;
  }
  for (const Row& row : rows) {
    const auto values = found->second.find(row.name);
    if (values == found->second.end()) {
      ADD_FAILURE() << "optimizers.py has no row " << row.name;
      continue;
    }
    for (size_t i = 0; i < count; ++i) {
      const Array& want = values->second.at("output")[i].second;
      const std::string wrong = Difference(*row.params[i].cpu(), want, 1e-5);
      EXPECT_TRUE(wrong.empty()) << row.name << ": parameter " << i << " " << wrong;
    }
  }
  for (const auto& [name, values] : found->second) {
    EXPECT_EQ(names.count(name), 1u) << "optimizers.cc has no row " << name;
  }
}

// The state that PyTorch saved after half of the steps.
TEST(LazyParity, OptimizerContinuesFromAFileOfPyTorch) {
  const auto files = FromPyTorch().find("files"), found = FromPyTorch().find("optimizers");
  ASSERT_NE(files, FromPyTorch().end());
  const NamedValues& shared = found->second.at("shared");
  const lazy::Device device = *xm::xla_device();
  Ts params;
  for (const auto& [index, array] : shared.at("half")) {
    params.push_back(lazy::tensor(array, device, true));
  }
  optim::Adam adam(params, {.lr = 0.05, .weight_decay = 0.1, .amsgrad = true});
  const absl::Status loaded = adam.load_state_dict(files->second.at("adam").at("state"));
  ASSERT_TRUE(loaded.ok()) << loaded;
  const base::NamedArrays& gradients = shared.at("gradient");
  for (size_t i = gradients.size() / 2; i < gradients.size(); i += params.size()) {
    for (size_t k = 0; k < params.size(); ++k) {
      params[k].set_grad(lazy::tensor(gradients[i + k].second, device));
    }
    adam.step();
    ASSERT_TRUE(xm::mark_step().ok());
  }
  for (size_t k = 0; k < params.size(); ++k) {
    const std::string wrong = Difference(*params[k].cpu(), shared.at("continued")[k].second, 1e-5);
    EXPECT_TRUE(wrong.empty()) << "parameter " << k << " " << wrong;
  }
}

TEST(LazyParity, Schedulers) {
  const auto found = FromPyTorch().find("schedulers");
  ASSERT_NE(found, FromPyTorch().end());
  const absl::StatusOr<lazy::Device> device = xm::xla_device();
  ASSERT_TRUE(device.ok()) << device.status();
  std::set<std::string> names;
  for (const auto& [name, make] : SchedulerRows()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    const auto values = found->second.find(name);
    if (values == found->second.end()) {
      ADD_FAILURE() << "schedulers.py has no row " << name;
      continue;
    }
    const Ts params{lazy::tensor(Array::Of<float>({1}, {1}), *device, true)};
    const Ts others{lazy::tensor(Array::Of<float>({1}, {2}), *device, true)};
    optim::SGD optimizer(optim::ParamGroups{{.params = params}, {.params = others, .lr = 0.02}},
                         {.lr = 0.5, .momentum = 0.9});
    const auto step = make(optimizer);
    const Array& want = values->second.at("output")[0].second;  // [30, 4]
    Array got = Array::Zeros(DType::kF64, want.shape());
    for (int epoch = 0; epoch < want.dim(0); ++epoch) {
      for (int group = 0; group < 2; ++group) {
        const optim::Options& options = optimizer.param_groups()[group].options;
        got.mutable_data<double>()[epoch * 4 + group] = options.at("lr");
        got.mutable_data<double>()[epoch * 4 + 2 + group] = options.at("momentum");
      }
      step(epoch);
    }
    const std::string wrong = Difference(got, want, 1e-10);
    EXPECT_TRUE(wrong.empty()) << name << ": " << wrong;
  }
  for (const auto& [name, values] : found->second) {
    EXPECT_EQ(names.count(name), 1u) << "schedulers.cc has no row " << name;
  }
  const absl::Status error = lazy::Recorder::OfThread().TakeError();
  EXPECT_TRUE(error.ok()) << error;
}

}  // namespace
}  // namespace penstock::tests::lazy_rows
