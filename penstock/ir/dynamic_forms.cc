#include "penstock/ir/dynamic_forms.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/op_def.h"

namespace penstock::ir {
namespace {

// Type of a tensor of extents: "tensor<4xi32>".
std::string ExtentsType(size_t count) {
  return MlirType({DType::kI32, {static_cast<int64_t>(count)}});
}

std::string ExtentsType(const TensorType& type) {
  return ExtentsType(static_cast<size_t>(type.shape.rank()));
}

// The scalars as one tensor of extents.
std::string Stacked(Printer& printer, absl::Span<const std::string> scalars, DType dtype) {
  std::vector<std::string> parts;
  const auto line = [&](const std::string& text) {
    const std::string name = printer.FreshName();
    printer.PlainLine(absl::StrCat(name, " = stablehlo.", text));
    return name;
  };
  for (std::string scalar : scalars) {
    if (dtype != DType::kI32) {
      scalar =
          line(absl::StrCat("convert ", scalar, " : (", MlirType({dtype, {}}), ") -> tensor<i32>"));
    }
    parts.push_back(line(absl::StrCat("reshape ", scalar, " : (tensor<i32>) -> tensor<1xi32>")));
  }
  if (parts.size() == 1) return parts[0];
  const std::vector<std::string> types(parts.size(), "tensor<1xi32>");
  return line(absl::StrCat("concatenate ", absl::StrJoin(parts, ", "), ", dim = 0 : (",
                           absl::StrJoin(types, ", "), ") -> ", ExtentsType(parts.size())));
}

// `bounds`: names of begin, end and strides.
std::string RealDynamicSlice(const std::string& x, const TensorType& from,
                             absl::Span<const std::string> bounds, const TensorType& to) {
  const std::vector<std::string> types(bounds.size(), ExtentsType(from));
  return absl::StrCat("stablehlo.real_dynamic_slice ", x, ", ", absl::StrJoin(bounds, ", "), " : (",
                      MlirType(from), ", ", absl::StrJoin(types, ", "), ") -> ", MlirType(to));
}

}  // namespace

bool IsDynamic(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; });
}

std::string BroadcastText(Printer& printer, const std::string& x, const TensorType& from,
                          absl::Span<const int64_t> axes, const TensorType& to) {
  const std::string dims = absl::StrCat(", dims = ", MlirList(axes), " : (", MlirType(from));
  if (!IsDynamic(to.shape)) {
    return absl::StrCat("stablehlo.broadcast_in_dim ", x, dims, ") -> ", MlirType(to));
  }
  const std::string extents = printer.Extents(to.shape.dims());
  return absl::StrCat("stablehlo.dynamic_broadcast_in_dim ", x, ", ", extents, dims, ", ",
                      ExtentsType(to), ") -> ", MlirType(to));
}

std::string ReshapeText(Printer& printer, const std::string& x, const TensorType& from,
                        const TensorType& to) {
  if (!IsDynamic(to.shape)) {
    return absl::StrCat("stablehlo.reshape ", x, " : (", MlirType(from), ") -> ", MlirType(to));
  }
  const std::string extents = printer.Extents(to.shape.dims());
  return absl::StrCat("stablehlo.dynamic_reshape ", x, ", ", extents, " : (", MlirType(from), ", ",
                      ExtentsType(to), ") -> ", MlirType(to));
}

std::string IotaText(Printer& printer, int64_t axis, const TensorType& type) {
  if (!IsDynamic(type.shape)) {
    return absl::StrCat("stablehlo.iota dim = ", axis, " : ", MlirType(type));
  }
  const std::string extents = printer.Extents(type.shape.dims());
  return absl::StrCat("stablehlo.dynamic_iota ", extents, ", dim = ", axis, " : (",
                      ExtentsType(type), ") -> ", MlirType(type));
}

std::string SliceText(Printer& printer, const std::string& x, const TensorType& from,
                      const SliceRange& range, const TensorType& to) {
  if (IsDynamic(from.shape)) {
    const std::string begin = printer.Extents(range.begin), end = printer.Extents(range.end),
                      strides = printer.Extents(range.strides);
    return RealDynamicSlice(x, from, {begin, end, strides}, to);
  }
  std::vector<std::string> ranges;
  for (size_t i = 0; i < range.begin.size(); ++i) {
    const int64_t stride = range.strides[i];
    ranges.push_back(absl::StrCat(range.begin[i], ":", range.end[i],
                                  stride == 1 ? "" : absl::StrCat(":", stride)));
  }
  return absl::StrCat("stablehlo.slice ", x, " [", absl::StrJoin(ranges, ", "), "] : (",
                      MlirType(from), ") -> ", MlirType(to));
}

std::string DynamicSliceText(Printer& printer, const std::string& x, const TensorType& from,
                             absl::Span<const std::string> begin, DType index,
                             const TensorType& to) {
  if (IsDynamic(to.shape)) {
    // XLA takes an end that is the begin plus the extents for a dynamic_slice.
    const std::string extents = printer.Extents(to.shape.dims()),
                      start = Stacked(printer, begin, index), end = printer.FreshName();
    printer.PlainLine(
        absl::StrCat(end, " = stablehlo.add ", start, ", ", extents, " : ", ExtentsType(to)));
    const std::vector<int64_t> ones(begin.size(), 1);
    return RealDynamicSlice(x, from, {start, end, printer.Extents(ones)}, to);
  }
  std::vector<std::string> types{MlirType(from)};
  types.resize(1 + begin.size(), MlirType({index, {}}));
  return absl::StrCat("stablehlo.dynamic_slice ", x, begin.empty() ? "" : ", ",
                      absl::StrJoin(begin, ", "), ", sizes = ", MlirList(to.shape.dims()), " : (",
                      absl::StrJoin(types, ", "), ") -> ", MlirType(to));
}

}  // namespace penstock::ir
