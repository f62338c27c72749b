// Slices, subscripts, padding and rearrangements.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/internal.h"
#include "penstock/session/ops/known_integers.h"

namespace penstock::session {

using internal::AxisIn;
using internal::In;
using internal::Reject;
using ir::Value;
using ir::Values;

namespace {

// One axis of a subscript: Python's rules for begin:end:stride.
Value SliceOne(Value x, int64_t axis, const Slicer& s) {
  const int64_t n = x.shape().dim(static_cast<int>(axis)), stride = s.stride();
  const auto clamp = [&](const std::optional<int64_t>& given, int64_t otherwise) {
    if (!given.has_value()) return otherwise;
    const int64_t at = *given < 0 ? *given + n : *given;
    return stride > 0 ? std::clamp<int64_t>(at, 0, n) : std::clamp<int64_t>(at, -1, n - 1);
  };
  if (stride == 0) return Reject(x, "a stride of a slice is 0");
  const int64_t begin = clamp(s.begin(), stride > 0 ? 0 : n - 1);
  const int64_t end = clamp(s.end(), stride > 0 ? n : -1);
  if (stride > 0) return ir::SliceAxis(x, axis, begin, std::max(begin, end), stride);
  // Backward: the same elements forward, then reversed.
  const int64_t count = begin > end ? (begin - end - stride - 1) / -stride : 0;
  if (count == 0) return ir::SliceAxis(x, axis, 0, 0);
  const int64_t last = begin + (count - 1) * stride;
  return ir::Reverse(ir::SliceAxis(x, axis, last, begin + 1, -stride), {axis});
}

Value Subscript(Value x, const std::vector<Slicer>& slices) {
  using Kind = Slicer::Kind;
  const int64_t rank = x.rank();
  int64_t used = 0, ellipses = 0;
  for (const Slicer& s : slices) {
    used += s.kind() == Kind::kIndex || s.kind() == Kind::kRange ? 1 : 0;
    ellipses += s.kind() == Kind::kEllipsis ? 1 : 0;
  }
  if (used > rank || ellipses > 1) {
    return Reject(
        x, ellipses > 1 ? "more than one ellipsis in a subscript of " : "too many indices for ",
        x.type().ToString());
  }
  int64_t axis = 0;
  ir::Axes dropped;
  for (const Slicer& s : slices) {
    if (!x.valid()) return x;
    switch (s.kind()) {
      case Kind::kEllipsis:
        axis += rank - used;
        break;
      case Kind::kNewAxis:
        if (x.rank() == base::kMaxRank) return Reject(x, "too many axes");
        x = ir::ExpandDims(x, axis++);
        break;
      case Kind::kIndex: {
        const int64_t n = x.shape().dim(static_cast<int>(axis));
        const int64_t at = *s.begin() < 0 ? *s.begin() + n : *s.begin();
        if (at < 0 || at >= n) {
          return Reject(x, "index ", *s.begin(), " is out of range for the ", n,
                        " elements along axis ", axis, " of ", x.type().ToString());
        }
        x = ir::SliceAxis(x, axis, at, at + 1);
        dropped.push_back(axis++);
        break;
      }
      case Kind::kRange:
        x = SliceOne(x, axis++, s);
        break;
    }
  }
  return dropped.empty() || !x.valid() ? x : ir::Squeeze(x, dropped);
}

// Known values of x[s], for an integer vector x.
void SetKnownItem(const Tensor& item, const Tensor& x, const Slicer& s) {
  const auto* known = internal::KnownOf(x);
  if (known == nullptr || s.stride() != 1) return;
  const int64_t n = static_cast<int64_t>(known->size());
  const auto place = [n](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
  if (s.kind() == Slicer::Kind::kIndex) {
    if (place(*s.begin()) < n) internal::SetKnown(item, {(*known)[place(*s.begin())]});
  } else if (s.kind() == Slicer::Kind::kRange) {
    const int64_t begin = place(s.begin().value_or(0));
    const int64_t end = std::max(begin, s.end().has_value() ? place(*s.end()) : n);
    internal::SetKnown(item, {known->begin() + begin, known->begin() + end});
  }
}

// Subscripts of tf.strided_slice's arguments.
std::optional<std::vector<Slicer>> SlicersOf(const std::vector<int64_t>& begin,
                                             const std::vector<int64_t>& end,
                                             const StridedSliceOptions& o) {
  if (begin.size() != end.size() || (!o.strides.empty() && o.strides.size() != begin.size())) {
    return std::nullopt;
  }
  std::vector<Slicer> slices;
  for (size_t i = 0; i < begin.size(); ++i) {
    const int64_t bit = int64_t{1} << i;
    const int64_t stride = o.strides.empty() ? 1 : o.strides[i];
    if (o.ellipsis_mask & bit) {
      slices.push_back(kEllipsis);
    } else if (o.new_axis_mask & bit) {
      slices.push_back(kNewAxis);
    } else if (o.shrink_axis_mask & bit) {
      slices.push_back(Slicer(begin[i]));
    } else {
      const auto unless = [&](int64_t mask, int64_t value) {
        return mask & bit ? std::nullopt : std::optional<int64_t>(value);
      };
      slices.push_back(Slicer(unless(o.begin_mask, begin[i]), unless(o.end_mask, end[i]), stride));
    }
  }
  return slices;
}

// Mirrored padding of one axis: parts of the axis, reversed.
Value Mirror(Value x, int64_t axis, std::pair<int64_t, int64_t> amounts, bool with_edge) {
  const int64_t n = x.shape().dim(static_cast<int>(axis)), skip = with_edge ? 0 : 1;
  const auto [low, high] = amounts;
  if (low > n - skip || high > n - skip) {
    return Reject(x, "cannot mirror ", std::max(low, high), " elements at the ends of axis ", axis,
                  " of ", x.type().ToString());
  }
  Values parts;
  if (low > 0) parts.push_back(ir::Reverse(ir::SliceAxis(x, axis, skip, skip + low), {axis}));
  parts.push_back(x);
  if (high > 0) {
    parts.push_back(ir::Reverse(ir::SliceAxis(x, axis, n - skip - high, n - skip), {axis}));
  }
  return parts.size() == 1 ? x : ir::Concatenate(parts, axis);
}

}  // namespace

Tensor Slice(const Tensor& input, const std::vector<int64_t>& begin,
             const std::vector<int64_t>& size, absl::string_view name, SourceLocation where) {
  return AddOp("Slice", {input}, name, where, [begin, size](In in) -> Value {
    const Value& x = in[0];
    if (begin.size() != size.size() || static_cast<int>(begin.size()) != x.rank()) {
      return Reject(x, "expects a begin and a size for each axis of ", x.type().ToString(),
                    ", got ", begin.size(), " and ", size.size());
    }
    std::vector<int64_t> end = begin;
    for (size_t i = 0; i < begin.size(); ++i) {
      const int64_t n = x.shape().dim(static_cast<int>(i));
      if (begin[i] < 0 || begin[i] > n || size[i] < -1 || size[i] > n - begin[i]) {
        return Reject(x, "begin ", begin[i], " and size ", size[i], " exceed axis ", i, " of ",
                      x.type().ToString());
      }
      end[i] = size[i] == -1 ? n : begin[i] + size[i];
    }
    return begin.empty() ? x : ir::Slice(x, begin, end);
  });
}

Tensor StridedSlice(const Tensor& input, const std::vector<int64_t>& begin,
                    const std::vector<int64_t>& end, const StridedSliceOptions& options,
                    SourceLocation where) {
  const auto slices = SlicersOf(begin, end, options);
  if (!slices.has_value()) {
    return FailOp({input}, "StridedSlice",
                  absl::StrCat("expects begin, end and strides of one length, got ", begin.size(),
                               ", ", end.size(), " and ", options.strides.size()),
                  where);
  }
  return AddOp("StridedSlice", {input}, options.name, where,
               [slices = *slices](In in) { return Subscript(in[0], slices); });
}

Tensor GetItem(const Tensor& input, std::initializer_list<Slicer> slices, absl::string_view name,
               SourceLocation where) {
  const Tensor item =
      AddOp("StridedSlice", {input}, name.empty() ? "strided_slice" : name, where,
            [slices = std::vector<Slicer>(slices)](In in) { return Subscript(in[0], slices); });
  if (slices.size() == 1 && input.valid() && input.shape().rank() == 1) {
    SetKnownItem(item, input, *slices.begin());
  }
  return item;
}

Tensor GetItem(const Tensor& input, const Tensor& index, absl::string_view name,
               SourceLocation where) {
  return AddOp("StridedSlice", {input, index}, name.empty() ? "strided_slice" : name, where,
               [](In in) -> Value {
                 if (in[1].rank() != 0 || !base::IsInteger(in[1].dtype())) {
                   return Reject(in[0], "an index is an integer scalar, got ",
                                 in[1].type().ToString());
                 }
                 return ir::Take(in[0], in[1], 0);
               });
}

Tensor Pad(const Tensor& tensor, const std::vector<std::pair<int64_t, int64_t>>& paddings,
           const PadOptions& options, SourceLocation where) {
  const std::string mode = options.mode;
  if (mode != "CONSTANT" && mode != "REFLECT" && mode != "SYMMETRIC") {
    return FailOp({tensor}, "Pad",
                  absl::StrCat("mode is CONSTANT, REFLECT or SYMMETRIC, not \"", mode, "\""),
                  where);
  }
  const double fill = options.constant_values;
  if (tensor.valid() && mode == "CONSTANT" && !internal::FitsType(fill, tensor.dtype())) {
    return FailOp({tensor}, "Pad",
                  absl::StrCat("the number ", fill, " is not a value of type ",
                               base::DTypeName(tensor.dtype())),
                  where);
  }
  const char* const type = mode == "CONSTANT" ? "PadV2" : "MirrorPad";
  return AddOp(type, {tensor}, options.name.empty() ? "Pad" : options.name, where,
               [paddings, mode, fill](In in) -> Value {
                 Value x = in[0];
                 if (static_cast<int>(paddings.size()) != x.rank()) {
                   return Reject(x, "expects a pair for each axis of ", x.type().ToString(),
                                 ", got ", paddings.size());
                 }
                 std::vector<ir::PadAxis> axes;
                 for (const auto& [low, high] : paddings) {
                   if (low < 0 || high < 0) return Reject(x, "paddings are at least 0");
                   axes.push_back({low, high});
                 }
                 if (mode == "CONSTANT") return axes.empty() ? x : ir::Pad(x, fill, axes);
                 for (size_t i = 0; i < paddings.size() && x.valid(); ++i) {
                   x = Mirror(x, static_cast<int64_t>(i), paddings[i], mode == "SYMMETRIC");
                 }
                 return x;
               });
}

Tensor Reverse(const Tensor& tensor, const Axes& axis, absl::string_view name,
               SourceLocation where) {
  return AddOp("ReverseV2", {tensor}, name, where, [axis](In in) -> Value {
    const auto list = internal::AxesIn(in[0], axis);
    if (!list.has_value()) return Value();
    return list->empty() ? in[0] : ir::Reverse(in[0], *list);
  });
}

Tensor ReverseSequence(const Tensor& input, const Tensor& seq_lengths,
                       const ReverseSequenceOptions& options, SourceLocation where) {
  return AddOp(
      "ReverseSequence", {input, seq_lengths}, options.name, where, [options](In in) -> Value {
        const Value& x = in[0];
        const auto seq = AxisIn(x, options.seq_axis), batch = AxisIn(x, options.batch_axis);
        if (!seq.has_value() || !batch.has_value()) return Value();
        const int64_t count = x.shape().dim(static_cast<int>(*batch));
        if (*seq == *batch || in[1].shape() != Shape({count}) || !base::IsInteger(in[1].dtype())) {
          return Reject(x, "expects two axes and an integer length for each of the ", count,
                        " elements of the batch, got ", in[1].type().ToString());
        }
        std::vector<int64_t> dims(x.rank(), 1), of_lengths(x.rank(), 1);
        dims[*seq] = x.shape().dim(static_cast<int>(*seq));
        dims[*batch] = of_lengths[*batch] = count;
        const Value length = ir::Reshape(internal::Widened(in[1]), Shape(of_lengths));
        const Value place = ir::Iota(*x.graph(), {length.dtype(), Shape(dims)}, *seq);
        const Value from = ir::Select(ir::Less(place, length), length - 1.0 - place, place);
        return ir::TakeAlongAxis(x, from, *seq);
      });
}

Tensor Roll(const Tensor& input, const Ints& shift, const Axes& axis, absl::string_view name,
            SourceLocation where) {
  return AddOp("Roll", {input}, name, where, [shifts = shift.values(), axis](In in) -> Value {
    Value x = in[0];
    if (axis.all() || axis.list().size() != shifts.size()) {
      return Reject(x, "expects a shift for each axis");
    }
    for (size_t i = 0; i < shifts.size() && x.valid(); ++i) {
      const auto at = AxisIn(x, axis.list()[i]);
      if (!at.has_value()) return Value();
      const int64_t n = x.shape().dim(static_cast<int>(*at));
      const int64_t by = n == 0 ? 0 : ((shifts[i] % n) + n) % n;
      if (by == 0) continue;
      x = ir::Concatenate({ir::SliceAxis(x, *at, n - by, n), ir::SliceAxis(x, *at, 0, n - by)},
                          *at);
    }
    return x;
  });
}

}  // namespace penstock::session
