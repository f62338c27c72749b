#include "penstock/session/ops/internal.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "penstock/base/status.h"
#include "penstock/session/ops/known_integers.h"

namespace penstock::session::internal {

using ir::Value;
using ir::Values;

std::optional<int64_t> AxisIn(const Value& x, int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  Reject(x, "axis ", axis, " is out of range for ", x.type().ToString(), "; it must be in [", -rank,
         ", ", rank, ")");
  return std::nullopt;
}

std::optional<ir::Axes> AxesIn(const Value& x, const Axes& axes) {
  ir::Axes all;
  if (axes.all()) {
    all.resize(x.rank());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  for (const int64_t given : axes.list()) {
    const std::optional<int64_t> axis = AxisIn(x, given);
    if (!axis.has_value()) return std::nullopt;
    if (std::find(all.begin(), all.end(), *axis) != all.end()) {
      Reject(x, "axis ", given, " of ", x.type().ToString(), " is given twice");
      return std::nullopt;
    }
    all.push_back(*axis);
  }
  return all;
}

Value Stretch(Value x, const Shape& shape) {
  return !x.valid() || x.shape() == shape ? x : ir::BroadcastTo(x, shape);
}

Value ScalarLike(const Value& x, double number) {
  return x.valid() ? ir::Splat(*x.graph(), {x.dtype(), {}}, number) : Value();
}

Value NumberLike(const Value& x, const Operand& number) {
  const std::optional<absl::int128>& integer = number.integer();
  const bool is_exact =
      !integer.has_value() || static_cast<absl::int128>(number.number()) == *integer;
  // Only these types hold an integer that a double does not.
  if (x.valid() && !is_exact && x.dtype() == DType::kI64) {
    return ir::Constant(*x.graph(), Array::Scalar(static_cast<int64_t>(*integer)));
  }
  if (x.valid() && !is_exact && x.dtype() == DType::kU64) {
    return ir::Constant(*x.graph(), Array::Scalar(static_cast<uint64_t>(*integer)));
  }
  return ScalarLike(x, number.number());
}

Value Widened(const Value& x) {
  const bool narrow = x.valid() && base::IsInteger(x.dtype()) && base::BitWidth(x.dtype()) < 32;
  return narrow ? ir::Convert(x, DType::kI32) : x;
}

Value OperandValues::Next(const Operand& operand, const Value& like) {
  return operand.is_number() ? NumberLike(like, operand) : in_[next_++];
}

double LowestOf(DType dtype) {
  if (base::IsFloat(dtype)) return -HUGE_VAL;
  if (!base::IsSigned(dtype)) return 0;
  return -std::ldexp(1.0, base::BitWidth(dtype) - 1);
}

double HighestOf(DType dtype) {
  if (base::IsFloat(dtype)) return HUGE_VAL;
  if (dtype == DType::kBool) return 1;
  return std::ldexp(1.0, base::BitWidth(dtype) - (base::IsSigned(dtype) ? 1 : 0)) - 1;
}

double FiniteLimit(DType dtype, bool lowest) {
  double limit = lowest ? LowestOf(dtype) : HighestOf(dtype);
  if (base::IsFloat(dtype)) {
    limit = dtype == DType::kF64    ? 1.7976931348623157e308
            : dtype == DType::kF16  ? 65504
            : dtype == DType::kBF16 ? 3.3895313892515355e38
                                    : 3.4028234663852886e38;
    if (lowest) limit = -limit;
  }
  return limit;
}

bool FitsType(const Operand& operand, DType dtype) {
  if (!operand.is_number() || base::IsFloat(dtype)) return true;
  if (operand.integer().has_value() && base::IsInteger(dtype)) {
    const bool is_signed = base::IsSigned(dtype);
    const absl::int128 beyond = absl::int128(1) << (base::BitWidth(dtype) - (is_signed ? 1 : 0));
    const absl::int128 lowest = is_signed ? -beyond : absl::int128(0);
    return *operand.integer() >= lowest && *operand.integer() < beyond;
  }
  const double number = operand.number();
  return number == std::floor(number) && number >= LowestOf(dtype) && number <= HighestOf(dtype);
}

Tensor AddUnary(absl::string_view type, const Tensor& x, absl::string_view name,
                SourceLocation where, UnaryFunction lower) {
  return AddOp(type, {x}, name, where, [lower](In in) { return lower(in[0]); });
}

Tensor AddBinary(absl::string_view type, const Operand& x, const Operand& y, absl::string_view name,
                 SourceLocation where, const BinaryFunction& lower) {
  if (x.is_number() && y.is_number()) {
    return FailOp({}, type, "expects a tensor, got two numbers; make one of them a Constant",
                  where);
  }
  const Tensor& tensor = x.is_number() ? y.tensor() : x.tensor();
  for (const Operand* operand : {&x, &y}) {
    if (tensor.valid() && !FitsType(*operand, tensor.dtype())) {
      return FailOp({tensor}, type,
                    absl::StrCat("the number ", operand->number(), " is not a value of type ",
                                 base::DTypeName(tensor.dtype()), "; Cast the tensor first"),
                    where);
    }
  }
  if (!x.is_number() && !y.is_number()) {
    return AddOp(type, {x.tensor(), y.tensor()}, name, where,
                 [lower](In in) { return lower(in[0], in[1]); });
  }
  const bool first = x.is_number();
  const Operand number = first ? x : y;
  return AddOp(type, {tensor}, name, where, [lower, first, number](In in) {
    const Value other = NumberLike(in[0], number);
    return first ? lower(other, in[0]) : lower(in[0], other);
  });
}

namespace {

Graph* GraphOf(const Tensors& inputs) {
  for (const Tensor& input : inputs) {
    if (input.valid()) return input.graph();
  }
  return Graph::Default();
}

// The shape that the last input is, or an error of the lowering.
std::optional<Shape> ShapeFrom(Lowering& lowering, const Node& node, In in) {
  const int last = static_cast<int>(in.size()) - 1;
  const absl::StatusOr<Array> constant = lowering.ConstantOf(node, last, in[last]);
  if (!constant.ok()) {
    lowering.Fail(constant.status());
    return std::nullopt;
  }
  if (constant->rank() != 1 || !base::IsInteger(constant->dtype()) ||
      constant->num_elements() > base::kMaxRank) {
    lowering.Fail(
        absl::InvalidArgumentError(absl::StrCat("a shape is a vector of at most ", base::kMaxRank,
                                                " integers, got ", constant->TypeString())));
    return std::nullopt;
  }
  const absl::StatusOr<Array> wide = constant->Cast(DType::kI64);
  return Shape(wide->values<int64_t>());
}

absl::Status CheckShape(const Shape& shape) {
  for (const int64_t extent : shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", shape.ToString(), " has a negative extent; give it a number"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Tensor InvalidInput(absl::string_view type, SourceLocation where) {
  return FailOp({}, type, "an input is an invalid tensor; make it with an operation of this graph",
                where);
}

Tensor AddShaped(const ShapedOp& op, std::function<Value(const ShapedIn& in)> lower) {
  Tensors inputs = op.inputs;
  const bool is_static = op.shape.is_static();
  if (!is_static) inputs.push_back(op.shape.tensor());
  for (const Tensor& input : inputs) {
    if (!input.valid()) return InvalidInput(op.type, op.where);
  }
  Graph* const graph = GraphOf(inputs);
  if (graph == nullptr) return Tensor();
  NodeOptions options{.type = std::string(op.type), .name = std::string(op.name)};
  PartialShape known =
      is_static ? PartialShape(op.shape.shape()) : ShapeFromKnown(op.shape.tensor());
  if (op.output_shape != nullptr) known = op.output_shape(known);
  if (!is_static) {
    options.outputs = {{op.dtype, known}};
  } else if (op.has_shape) {
    if (const absl::Status checked = CheckShape(op.shape.shape()); !checked.ok()) {
      return FailOp(inputs, op.type, checked.message(), op.where);
    }
    options.outputs = {{op.dtype, op.shape.shape()}};
  }
  if (op.is_random) {
    options.stateful = true;
    options.extra = std::make_shared<RandomSeed>(op.seed);
  }
  const LowerFunction all = [lower = std::move(lower), is_static, is_random = op.is_random,
                             given = is_static ? op.shape.shape() : Shape()](Lowering& lowering,
                                                                             In in) -> Values {
    Shape shape = given;
    if (!is_static) {
      const std::optional<Shape> found = ShapeFrom(lowering, lowering.node(), in);
      if (!found.has_value()) return {Value()};
      shape = *found;
    }
    const Value key = is_random ? lowering.RandomKey(lowering.node()) : Value();
    return {lower({lowering.graph(), in, shape, key})};
  };
  Node* const node = graph->AddNode(std::move(options), std::move(inputs), all, op.where);
  if (node == nullptr) return Tensor();
  // More than inference by guesses finds out.
  Tensor output(node, 0);
  if (output.shape().IsCompatibleWith(known)) output.SetShape(known, op.where);
  return output;
}

Tensor AddRandom(absl::string_view type, const Tensors& inputs, absl::string_view name,
                 SourceLocation where, std::optional<uint64_t> seed,
                 const std::vector<Node::Output>& outputs,
                 std::function<Value(In in, Value key)> lower) {
  for (const Tensor& input : inputs) {
    if (!input.valid()) return InvalidInput(type, where);
  }
  Graph* const graph = GraphOf(inputs);
  if (graph == nullptr) return Tensor();
  NodeOptions options{.type = std::string(type),
                      .name = std::string(name),
                      .outputs = outputs,
                      .stateful = true,
                      .extra = std::make_shared<RandomSeed>(seed)};
  const auto all = [lower = std::move(lower)](Lowering& lowering, In in) -> Values {
    return {lower(in, lowering.RandomKey(lowering.node()))};
  };
  Node* const node = graph->AddNode(std::move(options), inputs, all, where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

}  // namespace penstock::session::internal
