#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/ir/gradients.h"
#include "penstock/ir/operations/reducer.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/rewrite.h"
#include "penstock/kernels/all_finite.h"
#include "penstock/kernels/batch_norm.h"
#include "penstock/kernels/calls_at_exit.h"
#include "penstock/kernels/column_sum.h"
#include "penstock/kernels/convolution.h"
#include "penstock/kernels/fusion_limit.h"
#include "penstock/kernels/kernels.h"
#include "penstock/kernels/matmul.h"
#include "penstock/kernels/pooling.h"
#include "penstock/kernels/small_dot.h"

namespace penstock::kernels {
namespace {

using base::DType;
using ir::Node;
using ir::OpName;
using ir::Rewriter;
using ir::Value;
using ir::Values;
using Ints = std::vector<int64_t>;

bool HasElements(const Node& node) {
  for (const Value& operand : node.operands) {
    if (operand.shape().num_elements() == 0) return false;
  }
  return node.results[0].shape.num_elements() > 0;
}

// Reads the convolution, or gradient of one, that `node` computes; false for those that the kernels
// do not support: other types, layouts and ranks, cropping on the high side only, batch groups,
// input dilation.
bool ReadConvolution(const Node& node, Direction direction, ConvolutionShape& shape) {
  const auto ints = [&](const char* name) -> const Ints& {
    return node.attributes.Get<Ints>(name);
  };
  const DType dtype = node.results[0].dtype;
  const Ints ones{1, 1}, activations{0, 3, 1, 2};  // batch, features, height, width
  if ((dtype != DType::kF32 && dtype != DType::kBF16) || ints("strides").size() != 2 ||
      ints("lhs_dilation") != ones || node.attributes.Get<int64_t>("batch_group_count") != 1 ||
      ints("input") != activations || ints("output") != activations ||
      ints("kernel") != Ints{2, 3, 0, 1} || !HasElements(node)) {
    return false;
  }
  for (const char* side : {"low", "high"}) {
    if (ints(side)[0] < 0 || ints(side)[1] < 0) return false;
  }
  const base::Shape& result = node.results[0].shape;
  const base::Shape &a = node.operands[0].shape(), &b = node.operands[1].shape();
  const base::Shape& input = direction == Direction::kInputGradient ? result : a;
  const base::Shape& kernel = direction == Direction::kKernelGradient ? result : b;
  const base::Shape& output = direction == Direction::kForward         ? result
                              : direction == Direction::kInputGradient ? a
                                                                       : b;
  shape = {.direction = direction,
           .dtype = dtype,
           .batch = input.dim(0),
           .channels = input.dim(3),
           .filters = output.dim(3),
           .groups = node.attributes.Get<int64_t>("feature_group_count")};
  for (int i = 0; i < 2; ++i) {
    shape.input[i] = input.dim(1 + i);
    shape.kernel[i] = kernel.dim(i);
    shape.output[i] = output.dim(1 + i);
    shape.strides[i] = ints("strides")[i];
    shape.low[i] = ints("low")[i];
    shape.dilation[i] = ints("rhs_dilation")[i];
  }
  return true;
}

ir::Attributes AttributesOf(const ConvolutionShape& shape) {
  return {{"dilation", Ints(shape.dilation.begin(), shape.dilation.end())},
          {"groups", shape.groups},
          {"low", Ints(shape.low.begin(), shape.low.end())},
          {"strides", Ints(shape.strides.begin(), shape.strides.end())}};
}

// Whether `node` transposes with this permutation.
bool Transposes(const Node& node, const Ints& permutation) {
  return OpName(node) == "stablehlo.transpose" &&
         node.attributes.Get<Ints>("permutation") == permutation;
}

// Makes the call read a kernel of PyTorch's order, OIHW, where it is instead of a copy as HWIO.
void ReadFiltersFirst(const Rewriter& r, const Node& node, ConvolutionShape& shape,
                      Values& operands) {
  const Node& kernel = node.operands[1].node();
  if (!Transposes(kernel, {2, 3, 1, 0}) || !HasFiltersFirst(shape)) return;
  operands[1] = r.Replacement(kernel.operands[0]);
  shape.filters_first = true;
}

template <Direction kDirection>
Values LowerConvolution(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  ConvolutionShape shape;
  if (!ReadConvolution(node, kDirection, shape) || !HasFastConvolution(shape)) return {};
  Values operands = r.Operands(node);
  if (kDirection != Direction::kKernelGradient) ReadFiltersFirst(r, node, shape, operands);
  return ir::CustomCall(r.to(), ConvolutionTarget(shape), operands, node.results,
                        AttributesOf(shape));
}

// Makes the call write a kernel gradient as OIHW, if nothing else reads it. The new graph still
// contains the other gradient, but unused operations are not printed.
Values LowerTranspose(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  const Value& gradient = node.operands[0];
  ConvolutionShape shape;
  if (!Transposes(node, {3, 2, 0, 1}) ||
      OpName(gradient.node()) != "penstock.convolution_kernel_gradient" ||
      r.Users(gradient.node_id(), 0) != std::vector<int>{id} ||
      !ReadConvolution(gradient.node(), Direction::kKernelGradient, shape) ||
      !HasFastConvolution(shape) || !HasFiltersFirst(shape)) {
    return {};
  }
  shape.filters_first = true;
  return ir::CustomCall(r.to(), ConvolutionTarget(shape), r.Operands(gradient.node()), node.results,
                        AttributesOf(shape));
}

// The vector that is broadcast over the rows of the last axis, if `value` is one.
const Value* StretchedVector(const Value& value) {
  const Node& node = value.node();
  if (OpName(node) != "stablehlo.broadcast_in_dim") return nullptr;
  const Value& vector = node.operands[0];
  const int64_t last = value.rank() - 1;
  const bool over_last = vector.rank() == 1 && vector.shape().dim(0) == value.shape().dim(last) &&
                         node.attributes.Get<Ints>("axes") == Ints{last};
  return over_last ? &vector : nullptr;
}

// Fuses a bias into a convolution with no other consumer. The new graph still contains the
// convolution without bias, but unused operations are not printed.
Values LowerBias(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  for (int i : {0, 1}) {
    const Value& y = node.operands[i];
    const Value* const bias = StretchedVector(node.operands[1 - i]);
    ConvolutionShape shape;
    if (bias == nullptr || OpName(y.node()) != "stablehlo.convolution" ||
        r.Users(y.node_id(), 0) != std::vector<int>{id} ||
        !ReadConvolution(y.node(), Direction::kForward, shape)) {
      continue;
    }
    shape.bias = true;
    if (!HasFastConvolution(shape)) continue;
    Values operands = r.Operands(y.node());
    ReadFiltersFirst(r, y.node(), shape, operands);
    operands.push_back(r.Replacement(*bias));
    return ir::CustomCall(r.to(), ConvolutionTarget(shape), operands, node.results,
                          AttributesOf(shape));
  }
  return {};
}

// ---- Pooling ----

// Windows over height and width of images, without cropping.
bool CanPool(const Node& node) {
  const ir::TensorType& x = node.operands[0].type();
  const auto pairs = [&](const char* name) { return node.attributes.Get<Ints>(name); };
  if ((x.dtype != DType::kF32 && x.dtype != DType::kBF16) || x.shape.rank() != 4 ||
      !HasElements(node)) {
    return false;
  }
  for (int i : {0, 3}) {
    if (pairs("size")[i] != 1 || pairs("strides")[i] != 1 || pairs("low")[i] != 0 ||
        pairs("high")[i] != 0) {
      return false;
    }
  }
  for (int i : {1, 2}) {
    if (pairs("low")[i] < 0 || pairs("high")[i] < 0) return false;
  }
  return pairs("size")[1] * pairs("size")[2] <= kMaxWindow;
}

ir::Attributes WindowAttributes(const Node& node) {
  ir::Attributes attributes;
  for (const char* name : {"dilation", "low", "size", "strides"}) {
    const Ints& all = node.attributes.Get<Ints>(name);
    attributes.Set(name, Ints{all[1], all[2]});
  }
  return attributes;
}

Values LowerPooling(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  const auto kind = static_cast<ir::ReduceKind>(node.attributes.Get<int64_t>("kind"));
  if (kind == ir::ReduceKind::kMin || !CanPool(node)) return {};
  return ir::CustomCall(r.to(), kind == ir::ReduceKind::kMax ? kMaxPoolTarget : kSumPoolTarget,
                        r.Operands(node), node.results, WindowAttributes(node));
}

Values LowerPoolingGradient(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  if (!CanPool(node)) return {};
  return ir::CustomCall(r.to(), kMaxPoolGradientTarget, r.Operands(node), node.results,
                        WindowAttributes(node));
}

// ---- Batch normalization, fused with the relu that follows ----

bool IsZero(const Value& value) {
  const Node& node = value.node();
  if (OpName(node) != "stablehlo.constant") return false;
  const base::Array& array = node.attributes.Get<base::Array>("value");
  const char* bytes = static_cast<const char*>(array.raw());
  return std::all_of(bytes, bytes + array.num_bytes(), [](char byte) { return byte == 0; });
}

// Whether a value is the first result of node `id`.
bool IsFirstOf(int id, const Value& value) { return value.node_id() == id && value.result() == 0; }

// y <= 0, as ir::Relu tests, where y is node `y`.
bool IsSignTest(const Node& node, int y) {
  return OpName(node) == "stablehlo.compare" && IsFirstOf(y, node.operands[0]) &&
         node.attributes.Get<std::string>("direction") == "LE" && IsZero(node.operands[1]);
}

// y <= 0 ? 0 : x. With x = y this is relu(y); with x = a cotangent, its gradient.
bool IsCutBy(const Node& node, int y, const Value*& x) {
  if (OpName(node) != "stablehlo.select" || !IsSignTest(node.operands[0].node(), y) ||
      !IsZero(node.operands[1])) {
    return false;
  }
  x = &node.operands[2];
  return true;
}

// Whether relu(y) is the only consumer of y: then relu may be applied in the kernel, since
// relu(relu(y)) is relu(y) and has the same sign test.
bool OnlyReluReads(const Rewriter& r, int y) {
  bool found = false;
  for (int user : r.Users(y, 0)) {
    if (user == Rewriter::kResult) return false;
    const Node& node = r.from().node(user);
    const Value* x = nullptr;
    const bool relu = IsCutBy(node, y, x) && IsFirstOf(y, *x);
    if (!relu && !IsSignTest(node, y)) return false;
    found = found || relu;
  }
  return found;
}

// Whether our kernels support this batch_norm_training, or its gradient.
bool CanNormalize(const Node& node) {
  const ir::TensorType& x = node.operands[0].type();
  return (x.dtype == DType::kF32 || x.dtype == DType::kBF16) &&
         node.attributes.Get<int64_t>("axis") == x.shape.rank() - 1 && HasElements(node);
}

bool IsNormalized(const Value& y) {
  return OpName(y.node()) == "penstock.batch_norm_training" && y.result() == 0 &&
         CanNormalize(y.node());
}

// Index of the operand of the addition `id` that is a batch normalization whose kernel can include
// the addition and the relu after it, as at the end of a residual block; -1: none. Neither has
// another consumer.
int NormalizedOperand(const Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  if (OpName(node) != "stablehlo.add" || !OnlyReluReads(r, id)) return -1;
  for (int i : {0, 1}) {
    const Value& y = node.operands[i];
    if (IsNormalized(y) && r.Users(y.node_id(), 0) == std::vector<int>{id} &&
        y != node.operands[1 - i]) {
      return i;
    }
  }
  return -1;
}

// Whether the normalization `id` is computed as part of such an addition.
bool IsPartOfAddition(const Rewriter& r, int id) {
  const std::vector<int>& users = r.Users(id, 0);
  if (users.size() != 1 || users[0] == Rewriter::kResult) return false;
  const int operand = NormalizedOperand(r, users[0]);
  return operand >= 0 && IsFirstOf(id, r.from().node(users[0]).operands[operand]);
}

Values LowerBatchNorm(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  if (!CanNormalize(node)) return {};
  const bool masked = node.operands.size() > 3;
  Values operands = r.Operands(node);
  if (!IsPartOfAddition(r, id)) {
    return ir::CustomCall(
        r.to(), masked ? kMaskedBatchNormTarget : kBatchNormTarget, operands, node.results,
        {{"epsilon", node.attributes.Get<double>("epsilon")}, {"relu", OnlyReluReads(r, id)}});
  }
  const Value x = operands[0];
  operands.erase(operands.begin() + 1, operands.begin() + 3);  // scale and offset come later
  const Values moments = ir::CustomCall(r.to(), masked ? kMaskedMomentsTarget : kMomentsTarget,
                                        operands, {node.results[1], node.results[2]});
  if (moments.empty()) return {};
  return {x, moments[0], moments[1]};  // x: y is used only by LowerAddition
}

// Addition and relu at the end of a residual block, or a bias.
Values LowerAddition(Rewriter& r, int id) {
  const int operand = NormalizedOperand(r, id);
  if (operand < 0) return LowerBias(r, id);
  const Node& node = r.from().node(id);
  const int norm_id = node.operands[operand].node_id();
  const Node& norm = r.from().node(norm_id);
  const Values operands{r.Replacement(norm.operands[0]), r.Replacement(norm.operands[1]),
                        r.Replacement(norm.operands[2]), r.Replacement(norm_id, 1),
                        r.Replacement(norm_id, 2),       r.Replacement(node.operands[1 - operand])};
  return ir::CustomCall(r.to(), kBatchNormAddReluTarget, operands, node.results,
                        {{"epsilon", norm.attributes.Get<double>("epsilon")}});
}

// A relu that a kernel includes.
Values LowerRelu(Rewriter& r, int id) {
  const Value& y = r.from().node(id).operands[2];
  const Value* x = nullptr;
  if (!IsCutBy(r.from().node(id), y.node_id(), x) || !OnlyReluReads(r, y.node_id())) return {};
  if (!IsNormalized(y) && NormalizedOperand(r, y.node_id()) < 0) return {};
  return {r.Replacement(y)};
}

Values LowerBatchNormGradient(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  if (!CanNormalize(node)) return {};
  // x, scale, mean, variance, cotangent, mask
  Values operands = r.Operands(node);
  // The forward normalization, identified by its statistics.
  const Value mean = node.operands[2];
  Value offset;
  bool relu = false;
  if (OpName(mean.node()) == "penstock.batch_norm_training" &&
      mean.node().operands[0] == node.operands[0]) {
    const int y = mean.node_id();
    const Value* cotangent = nullptr;
    relu = OnlyReluReads(r, y) && IsCutBy(node.operands[4].node(), y, cotangent);
    if (relu) operands[4] = r.Replacement(*cotangent);
    offset = r.Replacement(mean.node().operands[2]);
  }
  if (!offset.valid()) offset = ir::SplatLike(operands[1], 0);  // used only with relu
  operands.insert(operands.begin() + 2, offset);
  const bool masked = operands.size() > 6;
  return ir::CustomCall(r.to(), masked ? kMaskedBatchNormGradientTarget : kBatchNormGradientTarget,
                        operands, node.results,
                        {{"epsilon", node.attributes.Get<double>("epsilon")}, {"relu", relu}});
}

// ---- Sums over rows ----

// Summing fewer elements is faster than a kernel call.
constexpr int64_t kFewestToSum = 1 << 15;

// Whether `value` is in memory whether or not the sum reads it: another operation reads it, or it
// is a kernel's result or a parameter. XLA fuses a value that only the sum reads into the sum.
bool IsInMemory(const Rewriter& r, const Value& value) {
  const absl::string_view name = OpName(value.node());
  return name == "parameter" || absl::StartsWith(name, "penstock.") ||
         r.Users(value.node_id(), value.result()).size() > 1;
}

// The gradient of a bias.
Values LowerColumnSum(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  if (static_cast<ir::ReduceKind>(node.attributes.Get<int64_t>("kind")) != ir::ReduceKind::kSum) {
    return {};
  }
  Value x = node.operands[0];
  Ints leading;
  for (int64_t axis = 0; axis + 1 < x.rank(); ++axis) leading.push_back(axis);
  if (x.dtype() != DType::kF32 || leading.empty() || node.attributes.Get<Ints>("axes") != leading ||
      x.shape().num_elements() < kFewestToSum) {
    return {};
  }
  // ir converts 16-bit floats to float32 for a sum; the kernel reads them directly.
  if (OpName(x.node()) == "stablehlo.convert" && x.node().operands[0].dtype() == DType::kBF16) {
    x = x.node().operands[0];
  }
  if (!IsInMemory(r, x)) return {};
  return ir::CustomCall(r.to(), kColumnSumTarget, {r.Replacement(x)}, node.results);
}

// ---- AllFinite ----

// A range [begin, end) of a value in memory, in row-major order.
struct Range {
  Value of;
  int64_t begin, end;
};

// Memory from which the elements of `value` can be read without a copy: a part of a collective's
// result, or the values before a conversion to a wider type, which are finite if the converted ones
// are.
Range RangeOf(Value value) {
  const int64_t size = value.shape().num_elements();
  int64_t begin = 0;
  for (;;) {
    const Node& node = value.node();
    const absl::string_view name = OpName(node);
    const bool widens = name == "stablehlo.convert" && base::IsFloat(node.operands[0].dtype()) &&
                        base::ByteWidth(node.operands[0].dtype()) < base::ByteWidth(value.dtype());
    if (name == "stablehlo.reshape" || widens) {
      value = node.operands[0];
    } else if (name == "stablehlo.slice" && value.rank() == 1 &&
               node.attributes.Get<Ints>("strides") == Ints{1}) {
      begin += node.attributes.Get<Ints>("begin")[0];
      value = node.operands[0];
    } else {
      return {value, begin, begin + size};
    }
  }
}

// Testing fewer elements is faster than a kernel call.
constexpr int64_t kFewestToTest = 1 << 15;

Values LowerAllFinite(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  Values tensors;
  Ints ranges;
  int64_t elements = 0;
  for (const Value& operand : node.operands) {
    const Range range = RangeOf(operand);
    elements += range.end - range.begin;
    const Value tensor = r.Replacement(range.of);
    const auto known = std::find(tensors.begin(), tensors.end(), tensor);
    ranges.insert(ranges.end(), {known - tensors.begin(), range.begin, range.end});
    if (known == tensors.end()) tensors.push_back(tensor);
  }
  if (elements < kFewestToTest) return {};
  return ir::CustomCall(r.to(), kAllFiniteTarget, tensors, node.results, {{"ranges", ranges}});
}

// ---- Matrix products ----

Values LowerMatmul(Rewriter& r, int id) {
  const Node& node = r.from().node(id);
  const DType dtype = node.results[0].dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16) return {};
  const auto axes = [&](const char* name) { return node.attributes.Get<Ints>(name); };
  const std::optional<MatmulShape> shape =
      ReadMatmul(dtype, node.operands[0].shape().dims(), node.operands[1].shape().dims(),
                 {.lhs_contracting = axes("lhs_contracting"),
                  .rhs_contracting = axes("rhs_contracting"),
                  .lhs_batch = axes("lhs_batch"),
                  .rhs_batch = axes("rhs_batch")});
  if (!shape.has_value() || !HasFastMatmul(*shape)) return {};
  return ir::CustomCall(r.to(), kMatmulTarget, r.Operands(node), node.results, node.attributes);
}

Values LowerDot(Rewriter& r, int id) {
  const Values small = LowerSmallDot(r, id);
  return small.empty() ? LowerMatmul(r, id) : small;
}

// A row: operation, kernel, platform. The rule returns {} if the platform's own code is better.
// Transposes are those of kernel gradients.
struct Row {
  const char* platform;
  const char* operation;
  Values (*lower)(Rewriter& rewriter, int id);
};

//
// bf16 convolutions that oneDNN computes wrong are left to XLA (IsMiscomputed in convolution.cc):
// kernel gradients with a vertical dilation above 1 and a number of input channels per group that
// is not a multiple of 16, or with a kernel column that reads only padding; input gradients of 1x1
// convolutions with an odd number of filters.
constexpr Row kTable[] = {
    {"cpu", "stablehlo.convolution", LowerConvolution<Direction::kForward>},
    {"cpu", "penstock.convolution_input_gradient", LowerConvolution<Direction::kInputGradient>},
    {"cpu", "penstock.convolution_kernel_gradient", LowerConvolution<Direction::kKernelGradient>},
    {"cpu", "stablehlo.transpose", LowerTranspose},
    {"cpu", "stablehlo.reduce_window", LowerPooling},
    {"cpu", "penstock.reduce_window_gradient", LowerPoolingGradient},
    {"cpu", "penstock.batch_norm_training", LowerBatchNorm},
    {"cpu", "penstock.batch_norm_gradient", LowerBatchNormGradient},
    {"cpu", "stablehlo.add", LowerAddition},
    {"cpu", "stablehlo.select", LowerRelu},
    {"cpu", "stablehlo.dot_general", LowerDot},
    {"cpu", "stablehlo.reduce", LowerColumnSum},
    {"cpu", "penstock.all_finite", LowerAllFinite},
};

std::vector<runtime::Kernel> AllKernels() {
  std::vector<runtime::Kernel> all = ConvolutionKernels();
  for (const auto& more : {BatchNormKernels(), PoolingKernels(), MatmulKernels(),
                           ColumnSumKernels(), AllFiniteKernels(), InMemoryKernels()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// Self-test: a convolution of 2x2 pixels of ones with the number 3 and its gradients, whose results
// cannot be right by chance, and a matrix product. Calls each of oneDNN's kernels, so that their
// static state exists from here on.
absl::Status Try(runtime::Client& client, const Lowering& lowering) {
  ir::Graph graph("kernels_check");
  const Value x = ir::Splat(graph, {DType::kF32, {1, 2, 2, 16}}, 1);
  const Value kernel = ir::Splat(graph, {DType::kF32, {1, 1, 16, 16}}, 3);
  const Value y = ir::Convolution(x, kernel);
  const Values gradients = ir::Gradients(ir::ReduceSum(y), {x, kernel});
  const Value ones = ir::Splat(graph, {DType::kF32, {64, 64}}, 1);
  graph.SetResults({y, gradients[0], gradients[1], ir::MatMul(ones, ones)});
  constexpr float kExpected[] = {48, 48, 4, 64};
  PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program, lowering.Print(graph));
  if (program.text.find("custom_call") == std::string::npos) {
    return absl::FailedPreconditionError("oneDNN has no optimized implementation for this CPU");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto executable, client.Compile(program));
  PENSTOCK_ASSIGN_OR_RETURN(const auto results, executable->Execute({{}}));
  for (size_t i = 0; i < std::size(kExpected); ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array got, results[0][i].Get());
    for (float value : got.values<float>()) {
      if (value == kExpected[i]) continue;
      return absl::InternalError(
          absl::StrCat("a call returned ", value, ", expected ", kExpected[i]));
    }
  }
  WaitForCallsAtExit();
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> KernelNames() {
  std::vector<std::string> names;
  for (const runtime::Kernel& kernel : AllKernels()) names.push_back(kernel.name);
  return names;
}

Lowering Lowering::For(runtime::Client& client) {
  Lowering lowering;
  const std::vector<runtime::Kernel> kernels = AllKernels();
  absl::Status status = client.AddKernels(kernels);
  if (status.ok()) {
    lowering.platform_ = client.platform();
    status = Try(client, lowering);
  }
  lowering.reason_ = std::string(status.message());
  if (!status.ok()) lowering.platform_.clear();
  client.Log(status.ok() ? absl::StrCat("using CPU kernels (", kernels.size(), ")")
                         : absl::StrCat("not using CPU kernels: ", lowering.reason_));
  return lowering;
}

std::unique_ptr<ir::Graph> Lowering::Lower(const ir::Graph& graph) const {
  auto lowered = ir::Rewrite(graph, [&](Rewriter& r, int id) -> Values {
    const absl::string_view operation = OpName(r.from().node(id));
    for (const Row& row : kTable) {
      if (row.platform == platform_ && row.operation == operation) return row.lower(r, id);
    }
    return {};
  });
  return platform_ == "cpu" ? LimitFusion(*lowered) : std::move(lowered);
}

absl::StatusOr<ir::Program> Lowering::Print(const ir::Graph& graph,
                                            const ir::PrintOptions& options) const {
  if (!uses_kernels()) return ir::PrintStableHlo(graph, options);
  return ir::PrintStableHlo(*Lower(graph), options);
}

}  // namespace penstock::kernels
