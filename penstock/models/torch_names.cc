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
  std::vector<int> permutation;
  int trailing_axes = 0;
};

const std::vector<KindRow>& KindRows() {
  static const auto& rows = *new std::vector<KindRow>{
      {TorchLayer::kConv, "kernel", "weight", {2, 3, 1, 0}},
      {TorchLayer::kConv, "bias", "bias", {}},
      {TorchLayer::kDepthwiseConv, "kernel", "weight", {2, 3, 0, 1}},
      {TorchLayer::kDepthwiseConv, "bias", "bias", {}},
      {TorchLayer::kNorm, "gamma", "weight", {}},
      {TorchLayer::kNorm, "beta", "bias", {}},
      {TorchLayer::kNorm, "moving_mean", "running_mean", {}},
      {TorchLayer::kNorm, "moving_variance", "running_var", {}},
      {TorchLayer::kDense, "kernel", "weight", {1, 0}},
      {TorchLayer::kDense, "bias", "bias", {}},
      {TorchLayer::kScale, "gamma", "", {}},
      {TorchLayer::kScaleC11, "gamma", "", {}, 2},
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
  const size_t slash = name.rfind('/');
  if (slash == absl::string_view::npos) return std::nullopt;
  const absl::string_view layer = name.substr(0, slash), variable = name.substr(slash + 1);
  for (const TorchRow& row : layout.rows) {
    std::optional<std::vector<int>> numbers = NumbersOf(row.layer, layer);
    if (!numbers.has_value()) continue;
    for (const KindRow& kind : KindRows()) {
      if (kind.kind == row.kind && variable == kind.name) {
        return FoundRow{&row, &kind, *std::move(numbers)};
      }
    }
    return std::nullopt;
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

// Without the last `count` axes, if their extents are 1.
std::optional<Array> WithoutTrailingAxes(const Array& array, int count) {
  const auto dims = array.shape().dims();
  const auto kept = static_cast<size_t>(std::max(0, array.rank() - count));
  for (size_t i = kept; i < dims.size(); ++i) {
    if (dims[i] != 1) return std::nullopt;
  }
  const std::vector<int64_t> left(dims.begin(), dims.begin() + kept);
  const auto out = array.Reshape(base::Shape(left));
  return out.ok() ? std::optional<Array>(*out) : std::nullopt;
}

bool Fits(const Array& array, const TorchVariable& variable) {
  if (!base::IsNumeric(array.dtype())) return false;
  return variable.permutation.empty() ||
         array.rank() == static_cast<int>(variable.permutation.size());
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
      variable.trailing_axes = row.kind->trailing_axes;
      variable.permutation = row.kind->permutation;
      if (!variable.permutation.empty()) variable.flattened_channels = row.row->flattened_channels;
    }
    variables.push_back(std::move(variable));
  }
  return variables;
}

std::optional<Array> FromTorchLayout(const Array& array, const TorchVariable& variable) {
  if (!Fits(array, variable)) return std::nullopt;
  if (variable.trailing_axes > 0) return WithoutTrailingAxes(array, variable.trailing_axes);
  if (variable.permutation.empty()) return array;
  const int64_t channels = variable.flattened_channels;
  if (channels == 0) return Permuted(array, variable.permutation);
  const int64_t units = array.dim(0), pixels = array.dim(1) / channels;
  return ReversedAxes(array, {units, channels, pixels}, {pixels * channels, units});
}

std::optional<Array> ToTorchLayout(const Array& array, const TorchVariable& variable) {
  if (!Fits(array, variable)) return std::nullopt;
  if (variable.trailing_axes > 0) {
    std::vector<int64_t> dims(array.shape().dims().begin(), array.shape().dims().end());
    dims.resize(dims.size() + static_cast<size_t>(variable.trailing_axes), 1);
    return *array.Reshape(base::Shape(dims));
  }
  if (variable.permutation.empty()) return array;
  const int64_t channels = variable.flattened_channels;
  if (channels == 0) return Permuted(array, Inverse(variable.permutation));
  const int64_t units = array.dim(1), pixels = array.dim(0) / channels;
  return ReversedAxes(array, {pixels, channels, units}, {units, channels * pixels});
}

}  // namespace penstock::models::internal
