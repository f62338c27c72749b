// Initializers: room nn's, whose values the host computes at each Run of a variable's initializer.
#include "penstock/nn/initializers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/run/host_input.h"
#include "penstock/session/variable.h"
#include "penstock/session/variable_table.h"

namespace penstock::session {
namespace {

class InitialValueInput final : public HostInput {
 public:
  InitialValueInput(std::string initializer, ir::TensorType type, uint64_t seed)
      : initializer_(std::move(initializer)), type_(std::move(type)), seed_(seed) {}

  absl::StatusOr<std::vector<Array>> Next() override {
    const uint64_t seed = runs_ == 0 ? seed_ : base::MixSeeds(seed_, runs_);
    PENSTOCK_ASSIGN_OR_RETURN(Array value, nn::InitialValue(initializer_, type_, seed));
    ++runs_;
    return std::vector<Array>{std::move(value)};
  }

 private:
  const std::string initializer_;
  const ir::TensorType type_;
  const uint64_t seed_;
  uint64_t runs_ = 0;
};

class InitialValueSource final : public HostInputSource {
 public:
  InitialValueSource(std::string initializer, ir::TensorType type, std::optional<uint64_t> seed)
      : initializer_(std::move(initializer)), type_(std::move(type)), seed_(seed) {}
  absl::StatusOr<std::unique_ptr<HostInput>> Open(uint64_t seed) override {
    return std::make_unique<InitialValueInput>(initializer_, type_, seed);
  }
  std::optional<uint64_t> op_seed() const override { return seed_; }

 private:
  const std::string initializer_;
  const ir::TensorType type_;
  const std::optional<uint64_t> seed_;
};

// The same array in each Run that needs it.
class ArrayInput final : public HostInput {
 public:
  explicit ArrayInput(Array value) : value_(std::move(value)) {}
  absl::StatusOr<std::vector<Array>> Next() override { return std::vector<Array>{value_}; }

 private:
  const Array value_;
};

class ArraySource final : public HostInputSource {
 public:
  explicit ArraySource(Array value) : value_(std::move(value)) {}
  absl::StatusOr<std::unique_ptr<HostInput>> Open(uint64_t) override {
    return std::make_unique<ArrayInput>(value_);
  }

 private:
  const Array value_;
};

SourceLocation Line(Graph* graph) { return graph->Extension<VariableTable>().initializer_where; }

// Of which types of variables an initializer makes values.
enum class InitializerTypes { kNumbers, kFloats };

// `text` is an initializer of room nn: "random_normal(mean=0, stddev=1)".
Initializer FromNn(std::string type, std::string text, std::optional<uint64_t> seed,
                   InitializerTypes of = InitializerTypes::kFloats) {
  return [=](const Shape& shape, DType dtype) {
    Graph* const graph = Graph::Default();
    if (graph == nullptr) return Tensor();
    if (of == InitializerTypes::kFloats && base::IsNumeric(dtype) && !base::IsFloat(dtype)) {
      return FailOp({}, type,
                    absl::StrCat("it makes floats, but the variable is ", base::DTypeName(dtype),
                                 "; use ZerosInitializer, OnesInitializer or ConstantInitializer"),
                    Line(graph));
    }
    // Arguments are checked now, with a small shape of the same rank.
    Shape small = shape;
    for (int i = 0; i < small.rank(); ++i) small.set_dim(i, std::min<int64_t>(small.dim(i), 2));
    if (const auto value = nn::InitialValue(text, {dtype, small}, 0); !value.ok()) {
      return FailOp({}, type, value.status().message(), Line(graph));
    }
    Node* const node = graph->AddNode(
        {.type = type,
         .outputs = std::vector<Node::Output>{{dtype, shape}},
         .stateful = true,
         .extra = std::make_shared<InitialValueSource>(text, ir::TensorType{dtype, shape}, seed)},
        {}, nullptr, Line(graph));
    return node == nullptr ? Tensor() : Tensor(node, 0);
  };
}

std::string Number(double value) { return absl::StrFormat("%.17g", value); }

}  // namespace

Tensor InitialArray(const Array& value, absl::string_view name, SourceLocation where) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return Tensor();
  if (!base::IsNumeric(value.dtype())) {
    return FailOp({}, "Const",
                  absl::StrCat("devices have no values of type ", base::DTypeName(value.dtype()),
                               "; variables are numbers"),
                  where);
  }
  // A copy: the caller may write to the array later, and a device may use its memory.
  Node* const node =
      graph->AddNode({.type = "Const",
                      .name = std::string(name),
                      .outputs = std::vector<Node::Output>{{value.dtype(), value.shape()}},
                      .stateful = true,
                      .extra = std::make_shared<ArraySource>(value.Clone())},
                     {}, nullptr, where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

Initializer ZerosInitializer() { return FromNn("Zeros", "zeros", {}, InitializerTypes::kNumbers); }
Initializer OnesInitializer() { return FromNn("Ones", "ones", {}, InitializerTypes::kNumbers); }
Initializer ConstantInitializer(double value) {
  return FromNn("Constant", absl::StrCat("constant(", Number(value), ")"), {},
                InitializerTypes::kNumbers);
}
Initializer ConstantInitializer(Array value) {
  return [value = std::move(value)](const Shape& shape, DType dtype) {
    if (!base::IsNumeric(value.dtype()) || !base::IsNumeric(dtype)) {
      return FailOp({}, "Const", "constant_initializer: its value and the variable are numbers",
                    {});
    }
    const absl::StatusOr<Array> shaped = value.Cast(dtype)->Reshape(shape);
    Graph* const graph = Graph::Default();
    if (graph == nullptr) return Tensor();
    if (shaped.ok()) return InitialArray(*shaped, "Const", Line(graph));
    return FailOp({}, "Const",
                  absl::StrCat("constant_initializer: a variable of shape ", shape.ToString(),
                               " does not have the elements of ", value.TypeString()),
                  {});
  };
}

Initializer RandomUniformInitializer(double minval, std::optional<double> maxval,
                                     std::optional<uint64_t> seed) {
  return FromNn("RandomUniform",
                absl::StrCat("random_uniform(minval=", Number(minval),
                             ", maxval=", Number(maxval.value_or(1)), ")"),
                seed, maxval.has_value() ? InitializerTypes::kNumbers : InitializerTypes::kFloats);
}

Initializer RandomNormalInitializer(double mean, double stddev, std::optional<uint64_t> seed) {
  return FromNn("RandomStandardNormal",
                absl::StrCat("random_normal(mean=", Number(mean), ", stddev=", Number(stddev), ")"),
                seed);
}

Initializer TruncatedNormalInitializer(double mean, double stddev, std::optional<uint64_t> seed) {
  return FromNn(
      "TruncatedNormal",
      absl::StrCat("truncated_normal(mean=", Number(mean), ", stddev=", Number(stddev), ")"), seed);
}

Initializer VarianceScalingInitializer(const VarianceScalingOptions& options) {
  return FromNn("VarianceScaling",
                absl::StrCat("variance_scaling(scale=", Number(options.scale),
                             ", mode=", options.mode, ", distribution=", options.distribution, ")"),
                options.seed);
}

Initializer GlorotUniformInitializer(std::optional<uint64_t> seed) {
  return FromNn("GlorotUniform", "glorot_uniform", seed);
}

Initializer GlorotNormalInitializer(std::optional<uint64_t> seed) {
  return FromNn("GlorotNormal", "glorot_normal", seed);
}

Initializer OrthogonalInitializer(double gain, std::optional<uint64_t> seed) {
  return FromNn("Orthogonal", absl::StrCat("orthogonal(gain=", Number(gain), ")"), seed);
}

Initializer IdentityInitializer(double gain) {
  return FromNn("Identity", absl::StrCat("identity(gain=", Number(gain), ")"), {});
}

}  // namespace penstock::session
