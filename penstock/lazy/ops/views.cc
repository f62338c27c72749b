// Functions that return views.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

#include "penstock/lazy/ops/build.h"
#include "penstock/lazy/record.h"
#include "penstock/lazy/view_kind.h"

namespace penstock::lazy {
namespace {

using internal::ResolveDim;
using ir::Value;

// ---- reshape ----

// The shape with -1 replaced. Empty message: it is valid.
std::string CompleteShape(const Tensor& x, std::vector<int64_t>& shape) {
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && unknown < 0) {
      unknown = static_cast<int64_t>(i);
    } else if (shape[i] < 0) {
      return absl::StrCat("shape ", Sizes(shape).ToString(),
                          " is invalid: only one size may be -1");
    } else if (__builtin_mul_overflow(known, shape[i], &known)) {
      return absl::StrCat("shape ", Sizes(shape).ToString(), " has more than 2^63 elements");
    }
  }
  if (shape.size() > static_cast<size_t>(base::kMaxRank)) {
    return absl::StrCat("at most ", base::kMaxRank, " dims are supported");
  }
  const int64_t elements = x.numel();
  if (unknown >= 0) {
    if (known == 0 || elements % known != 0) {
      return absl::StrCat("shape ", Sizes(shape).ToString(), " does not fit ", elements,
                          " elements");
    }
    shape[unknown] = elements / known;
  } else if (known != elements) {
    return absl::StrCat("shape ", Sizes(shape).ToString(), " has ", known,
                        " elements, the tensor has ", elements);
  }
  return "";
}

Tensor Reshaped(absl::string_view name, const Tensor& x, const Sizes& given, SourceLocation where) {
  std::vector<int64_t> sizes = given.values();
  const std::string wrong = CompleteShape(x, sizes);
  if (x.defined() && !wrong.empty()) return FailOp(name, {x}, wrong, where);
  return RecordView(name, x, where, ReshapeView{Shape(sizes)});
}

std::vector<int64_t> SizesOf(const Tensor& x) { return {x.sizes().begin(), x.sizes().end()}; }

// ---- permutations ----

Tensor Permuted(absl::string_view name, const Tensor& x, const ir::Axes& dims,
                SourceLocation where) {
  return RecordView(name, x, where, PermuteView{dims});
}

ir::Axes Identity(int64_t rank) {
  ir::Axes dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// ---- slices ----

Tensor Sliced(absl::string_view name, const Tensor& x, int64_t axis, int64_t begin, int64_t end,
              int64_t step, SourceLocation where) {
  const int64_t count = end <= begin ? 0 : (end - begin - 1) / step + 1;
  return RecordView(name, x, where, SliceView{axis, begin, count, step});
}

}  // namespace

Tensor reshape(const Tensor& x, const Sizes& shape, SourceLocation where) {
  return Reshaped("reshape", x, shape, where);
}
Tensor view(const Tensor& x, const Sizes& shape, SourceLocation where) {
  return Reshaped("view", x, shape, where);
}

Tensor flatten(const Tensor& x, int64_t start_dim, int64_t end_dim, SourceLocation where) {
  if (!ResolveDim("flatten", x, start_dim, where) || !ResolveDim("flatten", x, end_dim, where)) {
    return Tensor();
  }
  if (start_dim > end_dim) {
    return FailOp("flatten", {x},
                  absl::StrCat("start_dim (", start_dim, ") comes after end_dim (", end_dim, ")"),
                  where);
  }
  if (x.dim() == 0) return Reshaped("flatten", x, 1, where);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (i > start_dim && i <= end_dim) {
      sizes.back() *= x.size(i);
    } else {
      sizes.push_back(x.size(i));
    }
  }
  return Reshaped("flatten", x, sizes, where);
}

Tensor unflatten(const Tensor& x, int64_t dim, const Sizes& sizes, SourceLocation where) {
  if (!ResolveDim("unflatten", x, dim, where)) return Tensor();
  std::vector<int64_t> given = sizes.values(), shape;
  int64_t known = 1;
  for (int64_t size : given) {
    if (size != -1 && __builtin_mul_overflow(known, size, &known)) known = 0;  // rejected below
  }
  for (int64_t& size : given) {
    if (size == -1 && known > 0) size = x.size(dim) / known;
  }
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (i == dim) {
      shape.insert(shape.end(), given.begin(), given.end());
    } else {
      shape.push_back(x.size(i));
    }
  }
  return Reshaped("unflatten", x, shape, where);
}

Tensor unsqueeze(const Tensor& x, int64_t dim, SourceLocation where) {
  if (!ResolveDim("unsqueeze", x, dim, where, 1)) return Tensor();
  std::vector<int64_t> sizes = SizesOf(x);
  sizes.insert(sizes.begin() + dim, 1);
  return Reshaped("unsqueeze", x, sizes, where);
}

Tensor squeeze(const Tensor& x, SourceLocation where) {
  std::vector<int64_t> sizes;
  for (int64_t size : x.sizes()) {
    if (size != 1) sizes.push_back(size);
  }
  return Reshaped("squeeze", x, sizes, where);
}

Tensor squeeze(const Tensor& x, int64_t dim, SourceLocation where) {
  if (!ResolveDim("squeeze", x, dim, where)) return Tensor();
  std::vector<int64_t> sizes = SizesOf(x);
  if (!sizes.empty() && sizes[dim] == 1) sizes.erase(sizes.begin() + dim);
  return Reshaped("squeeze", x, sizes, where);
}

Tensor permute(const Tensor& x, const Sizes& dims, SourceLocation where) {
  ir::Axes axes;
  std::vector<bool> seen(static_cast<size_t>(x.dim()));
  for (int64_t dim : dims) {
    if (!ResolveDim("permute", x, dim, where)) return Tensor();
    axes.push_back(dim);
    if (dim < x.dim()) seen[dim] = true;
  }
  if (static_cast<int64_t>(axes.size()) != x.dim() ||
      std::find(seen.begin(), seen.end(), false) != seen.end()) {
    return FailOp("permute", {x},
                  absl::StrCat("dims ", dims.ToString(), " must contain each dim once"), where);
  }
  return Permuted("permute", x, axes, where);
}

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1, SourceLocation where) {
  if (!ResolveDim("transpose", x, dim0, where) || !ResolveDim("transpose", x, dim1, where)) {
    return Tensor();
  }
  ir::Axes dims = Identity(x.dim());
  if (x.dim() == 0) return Permuted("transpose", x, dims, where);
  std::swap(dims[dim0], dims[dim1]);
  return Permuted("transpose", x, dims, where);
}

Tensor t(const Tensor& x, SourceLocation where) {
  if (x.dim() > 2) {
    return FailOp("t", {x}, "expects at most 2 dims; transpose(dim0, dim1) swaps others", where);
  }
  return Permuted("t", x, x.dim() < 2 ? Identity(x.dim()) : ir::Axes{1, 0}, where);
}

Tensor movedim(const Tensor& x, int64_t source, int64_t destination, SourceLocation where) {
  if (!ResolveDim("movedim", x, source, where) || !ResolveDim("movedim", x, destination, where)) {
    return Tensor();
  }
  ir::Axes dims = Identity(x.dim());
  if (x.dim() == 0) return Permuted("movedim", x, dims, where);
  dims.erase(dims.begin() + source);
  dims.insert(dims.begin() + destination, source);
  return Permuted("movedim", x, dims, where);
}

Tensor expand(const Tensor& x, const Sizes& sizes, SourceLocation where) {
  if (!x.defined()) return FailOp("expand", {x}, "the input is undefined", where);
  std::vector<int64_t> shape = sizes.values();
  const int64_t added = static_cast<int64_t>(shape.size()) - x.dim();
  bool fits = added >= 0 && shape.size() <= static_cast<size_t>(base::kMaxRank);
  for (int64_t i = 0; fits && i < static_cast<int64_t>(shape.size()); ++i) {
    const int64_t own = i < added ? 1 : x.size(i - added);
    if (shape[i] == -1 && i >= added) shape[i] = own;
    fits = shape[i] >= 0 && (own == 1 || own == shape[i]);
  }
  if (!fits) {
    return FailOp("expand", {x},
                  absl::StrCat("sizes ", sizes.ToString(),
                               " must equal the tensor's, aligned from the right, except where "
                               "those are 1"),
                  where);
  }
  const Shape to(shape);
  if (to.num_elements() == x.numel()) {  // nothing is repeated
    return RecordView("expand", x, where, ReshapeView{to});
  }
  if (to.num_elements() == 0) {
    return RecordView(
        "expand", x, where, [to](Value v) { return ir::BroadcastTo(v, to); },
        [](Value v, Value) { return v; });
  }
  return RecordView(
      "expand", x, where, [to](Value v) { return ir::BroadcastTo(v, to); },
      [](Value v, Value) {
        v.graph()->Fail(absl::InvalidArgumentError(
            "more than one element of an expanded tensor is one element of memory, so it cannot be "
            "modified in place; use clone() first"));
        return Value();
      });
}
Tensor expand_as(const Tensor& x, const Tensor& other, SourceLocation where) {
  return expand(x, other.sizes(), where);
}
Tensor broadcast_to(const Tensor& x, const Sizes& shape, SourceLocation where) {
  return expand(x, shape, where);
}

Tensor narrow(const Tensor& x, int64_t dim, int64_t start, int64_t length, SourceLocation where) {
  if (!ResolveDim("narrow", x, dim, where)) return Tensor();
  const int64_t extent = x.dim() == 0 ? 0 : x.size(dim);
  if (start < 0) start += extent;
  if (start < 0 || length < 0 || start > extent - length) {
    return FailOp("narrow", {x},
                  absl::StrCat("start ", start, " and length ", length, " exceed the size ", extent,
                               " of dim ", dim),
                  where);
  }
  return Sliced("narrow", x, dim, start, start + length, 1, where);
}

Tensor select(const Tensor& x, int64_t dim, int64_t index, SourceLocation where) {
  if (!ResolveDim("select", x, dim, where)) return Tensor();
  const int64_t extent = x.dim() == 0 ? 0 : x.size(dim);
  if (index < -extent || index >= extent) {
    return FailOp(
        "select", {x},
        absl::StrCat("index ", index, " is out of range for dim ", dim, " of size ", extent),
        where);
  }
  if (index < 0) index += extent;
  return RecordView(
      "select", x, where,
      [=](Value v) { return ir::Squeeze(ir::SliceAxis(v, dim, index, index + 1), {dim}); },
      [=](Value v, Value changed) {
        return ReplaceSlice(v, ir::ExpandDims(changed, dim), dim, index, 1);
      });
}

Tensor slice(const Tensor& x, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
             int64_t step, SourceLocation where) {
  if (!ResolveDim("slice", x, dim, where)) return Tensor();
  if (x.dim() == 0) return FailOp("slice", {x}, "a scalar cannot be sliced", where);
  if (step <= 0) {
    return FailOp("slice", {x}, absl::StrCat("step must be above 0, got ", step, "; use flip()"),
                  where);
  }
  const int64_t extent = x.size(dim);
  const auto within = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + extent : at, 0, extent);
  };
  const int64_t begin = within(start.value_or(0)), limit = within(end.value_or(extent));
  return Sliced("slice", x, dim, begin, std::max(begin, limit), step, where);
}

Tensor diagonal(const Tensor& x, SourceLocation where) {
  if (x.defined() && x.dim() != 2) {
    return FailOp("diagonal", {x}, "expects a matrix", where);
  }
  // The elements at 0, width + 1, 2 (width + 1)... of the flattened matrix.
  const auto count = [](Value v) { return std::min(v.shape().dim(0), v.shape().dim(1)); };
  return RecordView(
      "diagonal", x, where,
      [count](Value v) {
        const int64_t n = count(v), step = v.shape().dim(1) + 1;
        return ir::SliceAxis(ir::Reshape(v, {v.shape().num_elements()}), 0, 0,
                             n == 0 ? 0 : (n - 1) * step + 1, step);
      },
      [](Value v, Value changed) {
        const Value flat = ir::Reshape(v, {v.shape().num_elements()});
        return ir::Reshape(ReplaceSlice(flat, changed, 0, 0, v.shape().dim(1) + 1), v.shape());
      });
}

Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim,
              SourceLocation where) {
  if (!ResolveDim("split", x, dim, where)) return {};
  const int64_t extent = x.dim() == 0 ? 0 : x.size(dim);
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != extent) {
    FailOp("split", {x},
           absl::StrCat("sizes ", Sizes(sizes).ToString(), " must add up to the size of dim ", dim,
                        ", ", extent),
           where);
    return Tensors(sizes.size());
  }
  Tensors parts;
  int64_t at = 0;
  for (int64_t size : sizes) {
    parts.push_back(Sliced("split", x, dim, at, at + size, 1, where));
    at += size;
  }
  return parts;
}

Tensors split(const Tensor& x, int64_t split_size, int64_t dim, SourceLocation where) {
  if (!ResolveDim("split", x, dim, where)) return {};
  if (split_size <= 0) {
    FailOp("split", {x}, absl::StrCat("split_size must be above 0, got ", split_size), where);
    return {};
  }
  std::vector<int64_t> sizes;
  int64_t rest = x.dim() == 0 ? 0 : x.size(dim);
  do {  // an empty tensor has one part
    sizes.push_back(std::min(rest, split_size));
    rest -= split_size;
  } while (rest > 0);
  return split(x, sizes, dim, where);
}

Tensors chunk(const Tensor& x, int64_t chunks, int64_t dim, SourceLocation where) {
  if (!ResolveDim("chunk", x, dim, where)) return {};
  if (chunks <= 0) {
    FailOp("chunk", {x}, absl::StrCat("chunks must be above 0, got ", chunks), where);
    return {};
  }
  const int64_t extent = x.dim() == 0 ? 0 : x.size(dim);
  if (extent == 0) return split(x, std::vector<int64_t>(chunks), dim, where);
  return split(x, extent / chunks + (extent % chunks != 0), dim, where);
}

Tensors unbind(const Tensor& x, int64_t dim, SourceLocation where) {
  if (!ResolveDim("unbind", x, dim, where)) return {};
  Tensors parts;
  for (int64_t i = 0; x.dim() > 0 && i < x.size(dim); ++i)
    parts.push_back(select(x, dim, i, where));
  return parts;
}

}  // namespace penstock::lazy
