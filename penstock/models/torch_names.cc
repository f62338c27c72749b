#include "penstock/models/torch_names.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"

namespace penstock::models::internal {
namespace {

using base::Array;

// A variable of each kind of layer. `torch_name` may be empty: the layer's name is the variable's.
struct KindRow {
  TorchLayer kind;
  const char* name;
  const char* torch_name;
  TorchForm form = {};
};

// A kernel [features, heads, size], or a bias [heads, size], of queries, keys or values.
TorchForm AttentionKernel(int part) {
  return {.permutation = {1, 0}, .joined_axis = 1, .parts = 3, .part = part};
}
TorchForm AttentionBias(int part) { return {.joined_axis = 0, .parts = 3, .part = part}; }

const std::vector<KindRow>& KindRows() {
  const TorchForm output_kernel = {.permutation = {1, 0}, .joined_axis = 0};
  static const auto& rows = *new std::vector<KindRow>{
      {TorchLayer::kConv, "kernel", "weight", {.permutation = {2, 3, 1, 0}}},
      {TorchLayer::kConv, "bias", "bias"},
      {TorchLayer::kDepthwiseConv, "kernel", "weight", {.permutation = {2, 3, 0, 1}}},
      {TorchLayer::kDepthwiseConv, "bias", "bias"},
      {TorchLayer::kNorm, "gamma", "weight"},
      {TorchLayer::kNorm, "beta", "bias"},
      {TorchLayer::kNorm, "moving_mean", "running_mean"},
      {TorchLayer::kNorm, "moving_variance", "running_var"},
      {TorchLayer::kDense, "kernel", "weight", {.permutation = {1, 0}}},
      {TorchLayer::kDense, "bias", "bias"},
      {TorchLayer::kScale, "gamma", ""},
      {TorchLayer::kScaleC11, "gamma", "", {.trailing_axes = 2}},
      {TorchLayer::kPositions, "embeddings", "", {.leading_axes = 1}},
      {TorchLayer::kAttention, "query/kernel", "in_proj_weight", AttentionKernel(0)},
      {TorchLayer::kAttention, "query/bias", "in_proj_bias", AttentionBias(0)},
      {TorchLayer::kAttention, "key/kernel", "in_proj_weight", AttentionKernel(1)},
      {TorchLayer::kAttention, "key/bias", "in_proj_bias", AttentionBias(1)},
      {TorchLayer::kAttention, "value/kernel", "in_proj_weight", AttentionKernel(2)},
      {TorchLayer::kAttention, "value/bias", "in_proj_bias", AttentionBias(2)},
      {TorchLayer::kAttention, "attention_output/kernel", "out_proj.weight", output_kernel},
      {TorchLayer::kAttention, "attention_output/bias", "out_proj.bias"},
      {TorchLayer::kQkvAttention, "query/kernel", "qkv.weight", AttentionKernel(0)},
      {TorchLayer::kQkvAttention, "query/bias", "qkv.bias", AttentionBias(0)},
      {TorchLayer::kQkvAttention, "key/kernel", "qkv.weight", AttentionKernel(1)},
      {TorchLayer::kQkvAttention, "key/bias", "qkv.bias", AttentionBias(1)},
      {TorchLayer::kQkvAttention, "value/kernel", "qkv.weight", AttentionKernel(2)},
      {TorchLayer::kQkvAttention, "value/bias", "qkv.bias", AttentionBias(2)},
      {TorchLayer::kQkvAttention, "attention_output/kernel", "proj.weight", output_kernel},
      {TorchLayer::kQkvAttention, "attention_output/bias", "proj.bias"},
  };
  return rows;
}

// Removes the number, or letter, at the start of `name`.
std::optional<int> TakeNumber(char kind, absl::string_view& name) {
  int number = 0;
  size_t length = 0;
  if (kind == '@') {
    if (name.empty() || !absl::ascii_islower(static_cast<unsigned char>(name[0]))) {
      return std::nullopt;
    }
    number = name[0] - 'a' + 1;
    length = 1;
  } else {
    while (length < name.size() && absl::ascii_isdigit(static_cast<unsigned char>(name[length]))) {
      ++length;
    }
    if (!absl::SimpleAtoi(name.substr(0, length), &number)) return std::nullopt;
  }
  name.remove_prefix(length);
  return number;
}

// The numbers that '#' and '@' stand for, if `name` matches the pattern of a row.
std::optional<std::vector<int>> NumbersOf(absl::string_view pattern, absl::string_view name) {
  if (absl::ConsumePrefix(&pattern, "*")) {
    for (size_t start = 0; start <= name.size(); ++start) {
      auto numbers = NumbersOf(pattern, name.substr(start));
      if (numbers.has_value()) return numbers;
    }
    return std::nullopt;
  }
  std::vector<int> numbers;
  for (const char c : pattern) {
    if (c == '#' || c == '@') {
      const std::optional<int> number = TakeNumber(c, name);
      if (!number.has_value()) return std::nullopt;
      numbers.push_back(*number);
    } else {
      if (name.empty() || name[0] != c) return std::nullopt;
      name.remove_prefix(1);
    }
  }
  if (!name.empty()) return std::nullopt;
  return numbers;
}

// Position of a block, by the first two numbers of its layers' names.
using BlockNumbers = std::pair<int, int>;

// The value of "1", "2-1", "2+1", "2*1+1", "#". The tables are this room's, and tested.
int64_t ValueOf(absl::string_view term, const std::vector<int>& numbers,
                const std::set<BlockNumbers>& blocks) {
  if (term == "#") {
    PENSTOCK_CHECK(numbers.size() >= 2);
    const auto block = blocks.find({numbers[0], numbers[1]});
    PENSTOCK_CHECK(block != blocks.end());
    return std::distance(blocks.begin(), block);
  }
  const bool multiplied = term.size() > 1 && term[1] == '*';
  const int factor = multiplied ? term[0] - '0' : 1;
  if (multiplied) term.remove_prefix(2);
  const size_t number = static_cast<size_t>(term[0] - '1');
  PENSTOCK_CHECK(number < numbers.size());
  const int value = factor * numbers[number];
  if (term.size() == 1) return value;
  PENSTOCK_CHECK(term.size() == 3);
  const int change = term[2] - '0';
  return value + (term[1] == '-' ? -change : change);
}

std::string Filled(absl::string_view text, const std::vector<int>& numbers,
                   const std::set<BlockNumbers>& blocks) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('{');
    absl::StrAppend(&out, text.substr(0, open));
    if (open == absl::string_view::npos) break;
    const size_t close = text.find('}', open);
    PENSTOCK_CHECK(close != absl::string_view::npos);
    absl::StrAppend(&out, ValueOf(text.substr(open + 1, close - open - 1), numbers, blocks));
    text.remove_prefix(close + 1);
  }
  return out;
}

// The row of a variable, and what it needs of the variable's name.
struct FoundRow {
  const TorchRow* row = nullptr;
  const KindRow* kind = nullptr;
  std::vector<int> numbers = {};
  bool counts_blocks() const {
    return absl::string_view(row->torch).find("{#}") != std::string::npos;
  }
};

std::optional<FoundRow> RowOfVariable(const TorchLayout& layout, absl::string_view name) {
  for (const TorchRow& row : layout.rows) {
    for (const KindRow& kind : KindRows()) {
      absl::string_view layer = name;
      if (kind.kind != row.kind || !absl::ConsumeSuffix(&layer, kind.name) ||
          !absl::ConsumeSuffix(&layer, "/")) {
        continue;
      }
      std::optional<std::vector<int>> numbers = NumbersOf(row.layer, layer);
      if (numbers.has_value()) return FoundRow{&row, &kind, *std::move(numbers)};
    }
  }
  return std::nullopt;
}

// Copies `count` elements of T that are `stride` elements apart.
template <typename T>
void CopyStrided(const char* from, int64_t stride, int64_t count, char* to) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * sizeof(T), from + i * stride * static_cast<int64_t>(sizeof(T)), sizeof(T));
  }
}

using StridedCopy = void (*)(const char* from, int64_t stride, int64_t count, char* to);
StridedCopy StridedCopyOf(int64_t width) {
  struct Complex128 {
    char bytes[16];
  };
  switch (width) {
    case 1:
      return CopyStrided<uint8_t>;
    case 2:
      return CopyStrided<uint16_t>;
    case 4:
      return CopyStrided<uint32_t>;
    case 8:
      return CopyStrided<uint64_t>;
    default:
      PENSTOCK_CHECK(width == 16);
      return CopyStrided<Complex128>;
  }
}

// Axis i of the result is axis permutation[i] of `in`; at least one axis.
Array Permuted(const Array& in, const std::vector<int>& permutation) {
  const int rank = in.rank(), last = rank - 1;
  std::vector<int64_t> steps(rank, 1), extents(rank), strides(rank), index(rank, 0);
  for (int i = rank - 2; i >= 0; --i) steps[i] = steps[i + 1] * in.dim(i + 1);
  for (int i = 0; i < rank; ++i) {
    extents[i] = in.dim(permutation[i]);
    strides[i] = steps[permutation[i]];
  }
  Array out = Array::Uninitialized(in.dtype(), base::Shape(extents));
  const int64_t width = base::ByteWidth(in.dtype());
  const StridedCopy copy = StridedCopyOf(width);
  const char* const from = static_cast<const char*>(in.raw());
  char* const to = static_cast<char*>(out.mutable_raw());
  int64_t offset = 0;
  for (int64_t k = 0; k < out.num_elements(); k += extents[last]) {
    copy(from + offset * width, strides[last], extents[last], to + k * width);
    for (int i = last - 1; i >= 0; --i) {
      offset += strides[i];
      if (++index[i] < extents[i]) break;
      offset -= strides[i] * extents[i];
      index[i] = 0;
    }
  }
  return out;
}

std::vector<int> Inverse(const std::vector<int>& permutation) {
  std::vector<int> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<int>(i);
  return inverse;
}

// Reverses the axes of a matrix one of whose axes is itself an array: PyTorch's [units, channels x
// pixels] to [pixels x channels, units], or back. `given` is the matrix with three axes.
std::optional<Array> ReversedAxes(const Array& matrix, base::Shape given, base::Shape reversed) {
  const auto split = matrix.Reshape(std::move(given));
  if (!split.ok()) return std::nullopt;
  const auto joined = Permuted(*split, {2, 1, 0}).Reshape(std::move(reversed));
  return joined.ok() ? std::optional<Array>(*joined) : std::nullopt;
}

std::optional<Array> Reshaped(const Array& array, const std::vector<int64_t>& dims) {
  const auto out = array.Reshape(base::Shape(dims));
  return out.ok() ? std::optional<Array>(*out) : std::nullopt;
}

std::vector<int64_t> DimsOf(const Array& array) {
  return {array.shape().begin(), array.shape().end()};
}

std::optional<Array> PartOf(const Array& array, const TorchForm& form) {
  if (form.parts == 1) return array;
  if (array.rank() == 0 || array.dim(0) % form.parts != 0) return std::nullopt;
  const int64_t rows = array.dim(0) / form.parts;
  return array.Slice(form.part * rows, (form.part + 1) * rows);
}

// Without the first and the last axes that PyTorch has in addition, if their extents are 1.
std::optional<Array> WithoutAxes(const Array& array, const TorchForm& form) {
  if (form.leading_axes == 0 && form.trailing_axes == 0) return array;
  const int end = array.rank() - form.trailing_axes;
  if (form.leading_axes > end) return std::nullopt;
  std::vector<int64_t> kept;
  for (int i = 0; i < array.rank(); ++i) {
    if (i >= form.leading_axes && i < end) {
      kept.push_back(array.dim(i));
    } else if (array.dim(i) != 1) {
      return std::nullopt;
    }
  }
  return Reshaped(array, kept);
}

std::optional<Array> WithAxes(const Array& array, const TorchForm& form) {
  if (form.leading_axes == 0 && form.trailing_axes == 0) return array;
  std::vector<int64_t> dims = DimsOf(array);
  dims.insert(dims.begin(), static_cast<size_t>(form.leading_axes), 1);
  dims.insert(dims.end(), static_cast<size_t>(form.trailing_axes), 1);
  return Reshaped(array, dims);
}

// Splits the axis into two with the extents of `shape`; the array as it is if these do not fit.
std::optional<Array> WithSplitAxis(const Array& array, int axis, const base::Shape& shape) {
  if (axis < 0 || axis >= array.rank() || shape.rank() != array.rank() + 1 ||
      shape.dim(axis) * shape.dim(axis + 1) != array.dim(axis)) {
    return array;
  }
  std::vector<int64_t> dims = DimsOf(array);
  dims[static_cast<size_t>(axis)] = shape.dim(axis);
  dims.insert(dims.begin() + axis + 1, shape.dim(axis + 1));
  return Reshaped(array, dims);
}

std::optional<Array> WithJoinedAxes(const Array& array, int axis) {
  if (axis < 0) return array;
  if (axis + 1 >= array.rank()) return std::nullopt;
  std::vector<int64_t> dims = DimsOf(array);
  dims[static_cast<size_t>(axis)] *= array.dim(axis + 1);
  dims.erase(dims.begin() + axis + 1);
  return Reshaped(array, dims);
}

bool HasAxesOf(const Array& array, const std::vector<int>& permutation) {
  return permutation.empty() || array.rank() == static_cast<int>(permutation.size());
}

}  // namespace

std::vector<TorchVariable> TorchVariablesOf(const TorchLayout& layout,
                                            const std::vector<std::string>& names,
                                            absl::string_view prefix) {
  std::vector<std::optional<FoundRow>> found;
  std::set<BlockNumbers> blocks;
  for (const std::string& name : names) {
    absl::string_view rest = name;
    found.push_back(absl::ConsumePrefix(&rest, prefix) ? RowOfVariable(layout, rest)
                                                       : std::nullopt);
    const auto& row = found.back();
    if (row.has_value() && row->counts_blocks()) {
      blocks.insert({row->numbers.at(0), row->numbers.at(1)});
    }
  }
  std::vector<TorchVariable> variables;
  for (size_t i = 0; i < names.size(); ++i) {
    TorchVariable variable{.name = names[i], .torch_name = ""};
    if (found[i].has_value()) {
      const FoundRow& row = *found[i];
      variable.torch_name = Filled(row.row->torch, row.numbers, blocks);
      const absl::string_view torch_name = row.kind->torch_name;
      if (!torch_name.empty()) absl::StrAppend(&variable.torch_name, ".", torch_name);
      variable.form = row.kind->form;
      if (!variable.form.permutation.empty()) {
        variable.flattened_channels = row.row->flattened_channels;
      }
    }
    variables.push_back(std::move(variable));
  }
  return variables;
}

std::optional<Array> FromTorchLayout(const Array& array, const TorchVariable& variable,
                                     const base::Shape& shape) {
  if (!base::IsNumeric(array.dtype())) return std::nullopt;
  const TorchForm& form = variable.form;
  std::optional<Array> out = PartOf(array, form);
  if (out.has_value()) out = WithoutAxes(*out, form);
  if (!out.has_value() || !HasAxesOf(*out, form.permutation)) return std::nullopt;
  if (const int64_t channels = variable.flattened_channels; channels > 0) {
    const int64_t units = out->dim(0), pixels = out->dim(1) / channels;
    return ReversedAxes(*out, {units, channels, pixels}, {pixels * channels, units});
  }
  if (!form.permutation.empty()) out = Permuted(*out, form.permutation);
  return WithSplitAxis(*out, form.joined_axis, shape);
}

std::optional<Array> ToTorchLayout(const Array& array, const TorchVariable& variable) {
  if (!base::IsNumeric(array.dtype())) return std::nullopt;
  const TorchForm& form = variable.form;
  const std::optional<Array> joined = WithJoinedAxes(array, form.joined_axis);
  if (!joined.has_value() || !HasAxesOf(*joined, form.permutation)) return std::nullopt;
  if (const int64_t channels = variable.flattened_channels; channels > 0) {
    const int64_t units = joined->dim(1), pixels = joined->dim(0) / channels;
    return ReversedAxes(*joined, {pixels, channels, units}, {units, channels * pixels});
  }
  const Array permuted =
      form.permutation.empty() ? *joined : Permuted(*joined, Inverse(form.permutation));
  return WithAxes(permuted, form);
}

std::optional<Array> JoinedParts(const std::vector<Array>& parts) {
  std::vector<int64_t> dims = DimsOf(parts.at(0));
  if (dims.empty()) return std::nullopt;
  dims[0] = 0;
  for (const Array& part : parts) {
    const bool fits = part.dtype() == parts[0].dtype() && part.rank() == parts[0].rank() &&
                      part.shape().RowShape() == parts[0].shape().RowShape();
    if (!fits) return std::nullopt;
    dims[0] += part.dim(0);
  }
  Array whole = Array::Uninitialized(parts[0].dtype(), base::Shape(dims));
  char* to = static_cast<char*>(whole.mutable_raw());
  for (const Array& part : parts) {
    const auto bytes = static_cast<size_t>(part.num_elements() * base::ByteWidth(part.dtype()));
    if (bytes > 0) std::memcpy(to, part.raw(), bytes);
    to += bytes;
  }
  return whole;
}

}  // namespace penstock::models::internal
