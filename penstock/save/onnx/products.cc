// Translations of matrix products and convolutions. ONNX's convolutions have the channels on axis
// 1: results keep that order (Tensor::order), and elementwise operations, pooling and
// concatenations after them compute in it, so that a network of convolutions is transposed at its
// ends only.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/save/onnx/shape.h"
#include "penstock/save/onnx/translations.h"

namespace penstock::save::onnx {
namespace {

using ir::DType;
using Ints = std::vector<int64_t>;

bool Contains(const Ints& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// ---- Matrix products ----

// An equation of Einsum: "abc,cd->abd".
std::string Equation(const ir::Node& node, const Ints& lhs_contracting, const Ints& rhs_contracting,
                     const Ints& lhs_batch, const Ints& rhs_batch) {
  const auto lhs_rank = static_cast<size_t>(node.operands[0].rank()),
             rhs_rank = static_cast<size_t>(node.operands[1].rank());
  std::string lhs, rhs(rhs_rank, ' '), batch, lhs_free, rhs_free;
  char next = 'a';
  for (size_t i = 0; i < lhs_rank; ++i) lhs.push_back(next++);
  for (size_t i = 0; i < lhs_batch.size(); ++i) {
    rhs[rhs_batch[i]] = lhs[lhs_batch[i]];
    batch.push_back(lhs[lhs_batch[i]]);
  }
  for (size_t i = 0; i < lhs_contracting.size(); ++i) {
    rhs[rhs_contracting[i]] = lhs[lhs_contracting[i]];
  }
  for (size_t i = 0; i < lhs_rank; ++i) {
    const auto axis = static_cast<int64_t>(i);
    if (!Contains(lhs_batch, axis) && !Contains(lhs_contracting, axis)) lhs_free.push_back(lhs[i]);
  }
  for (char& letter : rhs) {
    if (letter != ' ') continue;
    letter = next++;
    rhs_free.push_back(letter);
  }
  return absl::StrCat(lhs, ",", rhs, "->", batch, lhs_free, rhs_free);
}

// The order of axes in which a side is an operand of MatMul: the batch, then the contracting axis
// before or after the others.
Axes MatMulOrder(int rank, const Ints& batch, int64_t contracting, bool contracting_last) {
  Axes order = batch;
  for (int64_t i = 0; i < rank; ++i) {
    if (!Contains(batch, i) && i != contracting) order.push_back(i);
  }
  order.insert(contracting_last ? order.end() : order.begin() + static_cast<int64_t>(batch.size()),
               contracting);
  return order;
}

absl::Status TranslateDot(Translator& t) {
  const auto &lhs_contracting = t.Attribute<Ints>("lhs_contracting"),
             &rhs_contracting = t.Attribute<Ints>("rhs_contracting"),
             &lhs_batch = t.Attribute<Ints>("lhs_batch"),
             &rhs_batch = t.Attribute<Ints>("rhs_batch");
  const DType dtype = t.operand_type(0).dtype;
  if (!base::IsFloat(dtype) && dtype != DType::kI32 && dtype != DType::kI64) {
    return t.Unsupported("it multiplies matrices of other types than float32, int32 and int64");
  }
  const int lhs_rank = t.node().operands[0].rank(), rhs_rank = t.node().operands[1].rank();
  const auto batches = static_cast<int>(lhs_batch.size());
  // MatMul takes [batch..., m, k] and [batch..., k, n], and, without a batch, [..., k] and [k, n].
  const bool pairs = lhs_contracting.size() == 1 && rhs_rank == batches + 2 &&
                     (lhs_rank == batches + 2 || (batches == 0 && lhs_rank > 0));
  if (pairs) {
    const Axes lhs = MatMulOrder(lhs_rank, lhs_batch, lhs_contracting[0], true);
    const Axes rhs = MatMulOrder(rhs_rank, rhs_batch, rhs_contracting[0], false);
    t.SetResult(t.model().Add("MatMul", {t.Full(t.Operand(0), lhs), t.Full(t.Operand(1), rhs)}));
    return absl::OkStatus();
  }
  const std::string equation =
      Equation(t.node(), lhs_contracting, rhs_contracting, lhs_batch, rhs_batch);
  t.SetResult(t.model().Add("Einsum", {t.Full(0), t.Full(1)}, {{"equation", equation}}));
  return absl::OkStatus();
}

// ---- Convolutions ----

Ints Joined(const Ints& a, const Ints& b) {
  Ints all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

absl::Status TranslateConvolution(Translator& t) {
  // The batch, the features, then the spatial axes; of the kernel the input features first.
  const auto &input = t.Attribute<Ints>("input"), &output = t.Attribute<Ints>("output"),
             &lhs_dilation = t.Attribute<Ints>("lhs_dilation");
  Ints kernel = t.Attribute<Ints>("kernel");
  std::swap(kernel[0], kernel[1]);
  Ints low = t.Attribute<Ints>("low"), high = t.Attribute<Ints>("high");
  if (t.Attribute<int64_t>("batch_group_count") != 1) {
    return t.Unsupported("it has groups of examples");
  }
  if (input.size() == 2) return t.Unsupported("it has no spatial axes");
  if (t.operand_type(0).dtype == DType::kF64) {
    return t.Unsupported("ONNX Runtime lacks it for float64");
  }
  ModelBuilder& model = t.model();
  Shape shape = InOrder(t.OperandShape(0), input);
  std::string x = t.Full(t.Operand(0), input);
  const std::string zero = t.Full(t.Scalar(t.operand_type(0).dtype, 0, {}));
  // Negative padding crops, which the operation does not.
  Ints crop_low(input.size(), 0), crop_high = crop_low;
  for (size_t i = 0; i < low.size(); ++i) {
    if (shape[i + 2].batches != 0) return t.Unsupported("a spatial axis depends on the batch size");
    if (lhs_dilation[i] > 1) x = InsertHoles(model, x, shape, i + 2, lhs_dilation[i] - 1, zero);
    crop_low[i + 2] = std::min<int64_t>(0, low[i]);
    crop_high[i + 2] = std::min<int64_t>(0, high[i]);
    low[i] = std::max<int64_t>(0, low[i]);
    high[i] = std::max<int64_t>(0, high[i]);
  }
  x = PadEdges(model, x, crop_low, crop_high, zero);
  const std::string y = model.Add("Conv", {x, t.Full(t.Operand(1), kernel)},
                                  {{"strides", t.Attribute<Ints>("strides")},
                                   {"pads", Joined(low, high)},
                                   {"dilations", t.Attribute<Ints>("rhs_dilation")},
                                   {"group", t.Attribute<int64_t>("feature_group_count")}});
  t.SetResult(y, output);
  return absl::OkStatus();
}

// The padding at the end of ConvTranspose's output that gives the input's extents; empty if the
// operation does not take it. ir::ConvolutionTranspose is the gradient of a convolution with these
// attributes with respect to its input.
Ints OutputPadding(const ir::Node& node) {
  const ir::Attributes& a = node.attributes;
  const auto &strides = a.Get<Ints>("strides"), &low = a.Get<Ints>("low"),
             &high = a.Get<Ints>("high"), &dilation = a.Get<Ints>("rhs_dilation"),
             &shape = a.Get<Ints>("shape"), &input = a.Get<Ints>("input"),
             &kernel = a.Get<Ints>("kernel"), &output = a.Get<Ints>("output");
  Ints padding;
  for (size_t i = 0; i < strides.size(); ++i) {
    const auto extent = [&](int operand, const Ints& dimensions) {
      return node.operands[operand].shape().dim(static_cast<int>(dimensions[i + 2]));
    };
    const int64_t reach = (extent(1, kernel) - 1) * dilation[i] + 1;
    const int64_t covered = (extent(0, output) - 1) * strides[i] + reach - low[i] - high[i];
    padding.push_back(shape[input[i + 2]] - covered);
    if (extent(0, output) == 0 || padding[i] < 0 || padding[i] >= strides[i]) return {};
  }
  return padding;
}

bool IsConvTranspose(const ir::Node& node) {
  const ir::Attributes& a = node.attributes;
  const auto &holes = a.Get<Ints>("lhs_dilation"), &low = a.Get<Ints>("low"),
             &high = a.Get<Ints>("high");
  bool plain = a.Get<int64_t>("batch_group_count") == 1 && !holes.empty() &&
               node.operands[0].dtype() != DType::kF64;
  for (size_t i = 0; i < holes.size(); ++i) {
    plain = plain && holes[i] == 1 && low[i] >= 0 && high[i] >= 0;
  }
  return plain && !OutputPadding(node).empty();
}

absl::Status TranslateConvTranspose(Translator& t) {
  const auto &input = t.Attribute<Ints>("input"), &output = t.Attribute<Ints>("output");
  // The convolution's output features are the input features of its transpose.
  Ints kernel = t.Attribute<Ints>("kernel");
  std::swap(kernel[0], kernel[1]);
  const std::string y =
      t.model().Add("ConvTranspose", {t.Full(t.Operand(0), output), t.Full(t.Operand(1), kernel)},
                    {{"strides", t.Attribute<Ints>("strides")},
                     {"pads", Joined(t.Attribute<Ints>("low"), t.Attribute<Ints>("high"))},
                     {"dilations", t.Attribute<Ints>("rhs_dilation")},
                     {"output_padding", OutputPadding(t.node())},
                     {"group", t.Attribute<int64_t>("feature_group_count")}});
  t.SetResult(y, input);
  return absl::OkStatus();
}

}  // namespace

TranslationTable ProductTranslations() {
  static constexpr Translation kTable[] = {
      {"stablehlo.dot_general", TranslateDot},
      {"stablehlo.convolution", TranslateConvolution},
      {"penstock.convolution_input_gradient", TranslateConvTranspose, IsConvTranspose},
  };
  return kTable;
}

}  // namespace penstock::save::onnx
