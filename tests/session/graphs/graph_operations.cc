// session's form of the operations of operations.py and shapes.py.
#include "tests/session/graphs/graph_operations.h"

#include <optional>

namespace penstock::tests::session_graphs {
namespace {

using Json = nlohmann::json;
using tf::Tensor;
using tf::Tensors;

// Arguments of Python's tf functions.
std::vector<int64_t> List(const Json& json) { return json.get<std::vector<int64_t>>(); }
std::optional<int64_t> Maybe(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<int64_t>());
}
tf::Axes AxesOf(const Json& json) {
  if (json.is_null()) return {};
  return json.is_number() ? tf::Axes(json.get<int64_t>()) : tf::Axes(List(json));
}
// Floormod(x, limit): indices in range.
Tensor Bounded(const Tensor& x, const Json& limit) { return tf::FloorMod(x, limit.get<double>()); }

Operation Unary(Tensor (*f)(const Tensor&, absl::string_view, tf::SourceLocation)) {
  return [f](const Tensors& x, const Json&) { return Tensors{f(x[0], "", {})}; };
}
using BinaryFunction = Tensor (*)(const tf::Operand&, const tf::Operand&, absl::string_view,
                                  tf::SourceLocation);
Operation Binary(BinaryFunction f) {
  return [f](const Tensors& x, const Json& a) {
    if (!a.contains("number")) return Tensors{f(x[0], x[1], "", {})};
    const tf::Operand number(a["number"].get<double>());
    const bool first = a.value("first", false);
    return Tensors{first ? f(number, x[0], "", {}) : f(x[0], number, "", {})};
  };
}
using ReduceFunction = Tensor (*)(const Tensor&, const tf::Axes&, const tf::ReduceOptions&,
                                  tf::SourceLocation);
Operation Reduction(ReduceFunction f) {
  return [f](const Tensors& x, const Json& a) {
    return Tensors{f(x[0], AxesOf(a["axis"]), {.keepdims = a["keepdims"].get<bool>()}, {})};
  };
}
using SegmentFunction = Tensor (*)(const Tensor&, const Tensor&, int64_t, absl::string_view,
                                   tf::SourceLocation);
Operation Segments(SegmentFunction f) {
  return [f](const Tensors& x, const Json& a) {
    return Tensors{f(x[0], Bounded(x[1], a["number"]), a["number"].get<int64_t>(), "", {})};
  };
}
using CumulativeFunction = Tensor (*)(const Tensor&, int64_t, const tf::CumulativeOptions&,
                                      tf::SourceLocation);
Operation Cumulative(CumulativeFunction f) {
  return [f](const Tensors& x, const Json& a) {
    return Tensors{f(x[0], a["axis"].get<int64_t>(),
                     {.exclusive = a["exclusive"].get<bool>(), .reverse = a["reverse"].get<bool>()},
                     {})};
  };
}

using Table = std::map<std::string, Operation>;

Table Elementwise() {
  return {
      {"abs", Unary(tf::Abs)},
      {"sign", Unary(tf::Sign)},
      {"neg", Unary(tf::Negative)},
      {"square", Unary(tf::Square)},
      {"identity", Unary(tf::Identity)},
      {"stop_gradient", Unary(tf::StopGradient)},
      {"zeros_like", [](const Tensors& x, const Json&) { return Tensors{tf::ZerosLike(x[0])}; }},
      {"ones_like", [](const Tensors& x, const Json&) { return Tensors{tf::OnesLike(x[0])}; }},
      {"sigmoid", Unary(tf::Sigmoid)},
      {"tanh", Unary(tf::Tanh)},
      {"sin", Unary(tf::Sin)},
      {"cos", Unary(tf::Cos)},
      {"atan", Unary(tf::Atan)},
      {"erf", Unary(tf::Erf)},
      {"exp", Unary(tf::Exp)},
      {"expm1", Unary(tf::Expm1)},
      {"sinh", Unary(tf::Sinh)},
      {"asinh", Unary(tf::Asinh)},
      {"log_sigmoid", Unary(tf::LogSigmoid)},
      {"softplus", Unary(tf::nn::Softplus)},
      {"elu", Unary(tf::nn::Elu)},
      {"selu", Unary(tf::nn::Selu)},
      {"softsign", Unary(tf::nn::Softsign)},
      {"relu", Unary(tf::nn::Relu)},
      {"relu6", Unary(tf::nn::Relu6)},
      {"leaky_relu",
       [](const Tensors& x, const Json&) { return Tensors{tf::nn::LeakyRelu(x[0])}; }},
      {"softmax", [](const Tensors& x, const Json&) { return Tensors{tf::nn::Softmax(x[0])}; }},
      {"log_softmax",
       [](const Tensors& x, const Json&) { return Tensors{tf::nn::LogSoftmax(x[0])}; }},
      {"floor", Unary(tf::Floor)},
      {"ceil", Unary(tf::Ceil)},
      {"round", Unary(tf::Round)},
      {"rint", Unary(tf::Rint)},
      {"is_finite", Unary(tf::IsFinite)},
      {"is_nan", Unary(tf::IsNan)},
      {"logical_not", Unary(tf::LogicalNot)},
      {"log", [](const Tensors& x, const Json&) { return Tensors{tf::Log(tf::Abs(x[0]) + 1)}; }},
      {"log1p", [](const Tensors& x, const Json&) { return Tensors{tf::Log1p(tf::Square(x[0]))}; }},
      {"rsqrt",
       [](const Tensors& x, const Json&) { return Tensors{tf::Rsqrt(tf::Square(x[0]) + 1)}; }},
      {"sqrt",
       [](const Tensors& x, const Json&) { return Tensors{tf::Sqrt(tf::Square(x[0]) + 1)}; }},
      {"add", Binary(tf::Add)},
      {"subtract", Binary(tf::Subtract)},
      {"multiply", Binary(tf::Multiply)},
      {"maximum", Binary(tf::Maximum)},
      {"minimum", Binary(tf::Minimum)},
      {"squared_difference", Binary(tf::SquaredDifference)},
      {"less", Binary(tf::Less)},
      {"less_equal", Binary(tf::LessEqual)},
      {"greater", Binary(tf::Greater)},
      {"greater_equal", Binary(tf::GreaterEqual)},
      {"equal", Binary(tf::Equal)},
      {"not_equal", Binary(tf::NotEqual)},
      {"logical_and", Binary(tf::LogicalAnd)},
      {"logical_or", Binary(tf::LogicalOr)},
      {"logical_xor", Binary(tf::LogicalXor)},
      {"bitwise_and", Binary(tf::bitwise::BitwiseAnd)},
      {"bitwise_or", Binary(tf::bitwise::BitwiseOr)},
      {"bitwise_xor", Binary(tf::bitwise::BitwiseXor)},
      {"atan2",
       [](const Tensors& x, const Json& a) {
         if (!a.contains("number")) return Tensors{tf::Atan2(x[0], tf::Abs(x[1]) + 1)};
         const double number = a["number"];
         return Tensors{a["first"].get<bool>() ? tf::Atan2(number, tf::Abs(x[0]) + 1)
                                               : tf::Atan2(x[0], std::abs(number) + 1)};
       }},
      {"div_no_nan", Binary(tf::DivNoNan)},
      {"floordiv", Binary(tf::Floordiv)},
      {"floormod", Binary(tf::FloorMod)},
      {"truncatediv", Binary(tf::TruncateDiv)},
      {"truncatemod", Binary(tf::TruncateMod)},
      {"truediv", Binary(tf::Truediv)},
      {"div", Binary(tf::Div)},
      {"where", [](const Tensors& x, const Json&) { return Tensors{tf::Where(x[0], x[1], x[2])}; }},
      {"where_v2",
       [](const Tensors& x, const Json&) { return Tensors{tf::WhereV2(x[0], x[1], x[2])}; }},
      {"cast", [](const Tensors& x,
                  const Json& a) { return Tensors{tf::Cast(x[0], TypeNamed(a["dtype"]))}; }},
      {"clip_by_value",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::ClipByValue(x[0], a["min"].get<double>(), a["max"].get<double>())};
       }},
  };
}

Table ReductionsAndProducts() {
  return {
      {"reduce_sum", Reduction(tf::ReduceSum)},
      {"reduce_mean", Reduction(tf::ReduceMean)},
      {"reduce_prod", Reduction(tf::ReduceProd)},
      {"reduce_max", Reduction(tf::ReduceMax)},
      {"reduce_min", Reduction(tf::ReduceMin)},
      {"reduce_all", Reduction(tf::ReduceAll)},
      {"reduce_any", Reduction(tf::ReduceAny)},
      {"reduce_logsumexp", Reduction(tf::ReduceLogsumexp)},
      {"argmax",
       [](const Tensors& x, const Json& a) { return Tensors{tf::ArgMax(x[0], a["axis"])}; }},
      {"argmin",
       [](const Tensors& x, const Json& a) { return Tensors{tf::ArgMin(x[0], a["axis"])}; }},
      {"count_nonzero",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::CountNonzero(x[0], AxesOf(a["axis"]))};
       }},
      {"cumsum", Cumulative(tf::Cumsum)},
      {"cumprod", Cumulative(tf::Cumprod)},
      {"sort", [](const Tensors& x, const Json& a) { return Tensors{tf::Sort(x[0], a["axis"])}; }},
      {"argsort",
       [](const Tensors& x, const Json& a) { return Tensors{tf::Argsort(x[0], a["axis"])}; }},
      {"moments",
       [](const Tensors& x, const Json& a) {
         const auto both = tf::nn::Moments(x[0], AxesOf(a["axis"]));
         return Tensors{both.first, both.second};
       }},
      {"matmul",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::MatMul(
             x[0], x[1], {.transpose_a = a["ta"].get<bool>(), .transpose_b = a["tb"].get<bool>()})};
       }},
      {"tensordot",
       [](const Tensors& x, const Json&) { return Tensors{tf::Tensordot(x[0], x[1], 1)}; }},
      {"einsum",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::Einsum(a["equation"].get<std::string>(), x)};
       }},
      {"add_n", [](const Tensors& x, const Json&) { return Tensors{tf::AddN(x)}; }},
      {"bias_add",
       [](const Tensors& x, const Json&) { return Tensors{tf::nn::BiasAdd(x[0], x[1])}; }},
      {"sigmoid_xent",
       [](const Tensors& x, const Json&) {
         return Tensors{tf::nn::SigmoidCrossEntropyWithLogits(x[0], x[1])};
       }},
      {"softmax_xent",
       [](const Tensors& x, const Json&) {
         return Tensors{tf::nn::SoftmaxCrossEntropyWithLogitsV2(x[0], x[1])};
       }},
      {"unsorted_segment_sum", Segments(tf::UnsortedSegmentSum)},
      {"unsorted_segment_mean", Segments(tf::UnsortedSegmentMean)},
      {"unsorted_segment_prod", Segments(tf::UnsortedSegmentProd)},
  };
}

Table Shapes() {
  return {
      {"shape", [](const Tensors& x,
                   const Json& a) { return Tensors{tf::ShapeOf(x[0], TypeNamed(a["dtype"]))}; }},
      {"size", [](const Tensors& x,
                  const Json& a) { return Tensors{tf::Size(x[0], TypeNamed(a["dtype"]))}; }},
      {"rank", [](const Tensors& x, const Json&) { return Tensors{tf::Rank(x[0])}; }},
      {"reshape",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::Reshape(x[0], tf::Shape(List(a["shape"])))};
       }},
      {"flatten",
       [](const Tensors& x, const Json&) {
         return Tensors{
             tf::Reshape(x[0], tf::Stack({tf::GetItem(tf::ShapeOf(x[0]), {0}), tf::Constant(-1)}))};
       }},
      {"reshape_like",
       [](const Tensors& x, const Json&) { return Tensors{tf::Reshape(x[0], tf::ShapeOf(x[1]))}; }},
      {"broadcast_to",
       [](const Tensors& x, const Json&) {
         return Tensors{tf::BroadcastTo(x[0], tf::ShapeOf(x[1]))};
       }},
      {"expand_dims",
       [](const Tensors& x, const Json& a) { return Tensors{tf::ExpandDims(x[0], a["axis"])}; }},
      {"squeeze",
       [](const Tensors& x, const Json& a) {
         return Tensors{a["axis"].empty() ? tf::Squeeze(x[0])
                                          : tf::Squeeze(x[0], AxesOf(a["axis"]))};
       }},
      {"transpose", [](const Tensors& x,
                       const Json& a) { return Tensors{tf::Transpose(x[0], AxesOf(a["perm"]))}; }},
      {"tile", [](const Tensors& x,
                  const Json& a) { return Tensors{tf::Tile(x[0], List(a["multiples"]))}; }},
      {"repeat",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::Repeat(x[0], a["repeats"].get<int64_t>(), Maybe(a["axis"]))};
       }},
      {"reverse", [](const Tensors& x,
                     const Json& a) { return Tensors{tf::Reverse(x[0], AxesOf(a["axis"]))}; }},
      {"roll",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::Roll(x[0], a["shift"].get<int64_t>(), AxesOf(a["axis"]))};
       }},
      {"pad",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::Pad(x[0], a["paddings"].get<std::vector<std::pair<int64_t, int64_t>>>(),
                                {.mode = a["mode"], .constant_values = a["value"].get<double>()})};
       }},
      {"fill",
       [](const Tensors& x, const Json&) { return Tensors{tf::Fill(tf::ShapeOf(x[0]), x[1])}; }},
      {"range",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::Range(tf::GetItem(tf::ShapeOf(x[0]), {a["axis"].get<int64_t>()}))};
       }},
      {"band_part",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::MatrixBandPart(x[0], a["lower"], a["upper"])};
       }},
      {"diag_part",
       [](const Tensors& x, const Json&) { return Tensors{tf::MatrixDiagPart(x[0])}; }},
  };
}

tf::Slicer SlicerOf(const Json& part) {
  if (part.is_number()) return part.get<int64_t>();
  if (part == "new") return tf::kNewAxis;
  if (part == "...") return tf::kEllipsis;
  return {Maybe(part[0]), Maybe(part[1]), part[2].get<int64_t>()};
}

// GetItem takes an initializer list.
Tensor Item(const Tensor& x, const std::vector<tf::Slicer>& s) {
  switch (s.size()) {
    case 1:
      return tf::GetItem(x, {s[0]});
    case 2:
      return tf::GetItem(x, {s[0], s[1]});
    case 3:
      return tf::GetItem(x, {s[0], s[1], s[2]});
    case 4:
      return tf::GetItem(x, {s[0], s[1], s[2], s[3]});
    case 5:
      return tf::GetItem(x, {s[0], s[1], s[2], s[3], s[4]});
    case 6:
      return tf::GetItem(x, {s[0], s[1], s[2], s[3], s[4], s[5]});
    default:
      return {};
  }
}

Table PartsAndIndexing() {
  return {
      {"concat", [](const Tensors& x, const Json& a) { return Tensors{tf::Concat(x, a["axis"])}; }},
      {"stack", [](const Tensors& x, const Json& a) { return Tensors{tf::Stack(x, a["axis"])}; }},
      {"unstack",
       [](const Tensors& x, const Json& a) { return tf::Unstack(x[0], std::nullopt, a["axis"]); }},
      {"split",
       [](const Tensors& x, const Json& a) {
         if (a.contains("number")) return tf::Split(x[0], a["number"].get<int64_t>(), a["axis"]);
         return tf::Split(x[0], List(a["sizes"]), a["axis"]);
       }},
      {"slice",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::Slice(x[0], List(a["begin"]), List(a["size"]))};
       }},
      {"item",
       [](const Tensors& x, const Json& a) {
         std::vector<tf::Slicer> parts;
         for (const Json& part : a["index"]) parts.push_back(SlicerOf(part));
         return Tensors{Item(x[0], parts)};
       }},
      {"gather",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::Gather(
             x[0], Bounded(x[1], a["limit"]),
             {.axis = a["axis"].get<int64_t>(), .batch_dims = a["batch"].get<int64_t>()})};
       }},
      {"gather_nd",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::GatherNd(x[0], tf::ExpandDims(Bounded(x[1], a["limit"]), -1))};
       }},
      {"scatter_add",
       [](const Tensors& x, const Json& a) {
         return Tensors{
             tf::TensorScatterAdd(x[0], tf::ExpandDims(Bounded(x[1], a["limit"]), -1), x[2])};
       }},
      {"one_hot",
       [](const Tensors& x, const Json& a) {
         return Tensors{tf::OneHot(
             x[0], a["depth"], {.axis = a["axis"].get<int64_t>(), .dtype = TypeNamed(a["dtype"])})};
       }},
      {"sequence_mask", [](const Tensors& x,
                           const Json& a) { return Tensors{tf::SequenceMask(x[0], a["length"])}; }},
      {"top_k",
       [](const Tensors& x, const Json& a) {
         const auto top = tf::nn::TopK(x[0], a["k"]);
         return Tensors{top.values, top.indices};
       }},
  };
}

}  // namespace

DType TypeNamed(const std::string& name) {
  static const std::map<std::string, DType> kTypes = {
      {"float64", DType::kF64}, {"float32", DType::kF32},   {"int64", DType::kI64},
      {"int32", DType::kI32},   {"int16", DType::kI16},     {"int8", DType::kI8},
      {"uint8", DType::kU8},    {"bfloat16", DType::kBF16}, {"float16", DType::kF16},
      {"bool", DType::kBool}};
  return kTypes.at(name);
}

const std::map<std::string, Operation>& Operations() {
  static const std::map<std::string, Operation> all = [] {
    Table table = Elementwise();
    table.merge(ReductionsAndProducts());
    table.merge(Shapes());
    table.merge(PartsAndIndexing());
    return table;
  }();
  return all;
}

}  // namespace penstock::tests::session_graphs
