#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/engine/row_node.h"
#include "penstock/data/stage.h"
#include "penstock/data/stages/host_shard.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

using base::Array;
using base::DType;
using base::Shape;

int64_t BytesOf(DType dtype, const Shape& shape) {
  return shape.num_elements() * base::BitWidth(dtype) / 8;
}

// Elements of any type are copied as bytes; a string is then a view, whose bytes are copied later.
void Copy(DType dtype, const void* from, int64_t bytes, char* to) {
  if (dtype == DType::kString) {
    std::copy_n(static_cast<const absl::string_view*>(from), bytes / sizeof(absl::string_view),
                reinterpret_cast<absl::string_view*>(to));
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

void Fill(const Array& value, int64_t bytes, char* to) {
  const int64_t step = BytesOf(value.dtype(), {});
  for (int64_t at = 0; at < bytes; at += step) Copy(value.dtype(), value.raw(), step, to + at);
}

// Puts an array into the first corner of a larger one.
void CopyIntoCorner(DType dtype, const char* from, const Shape& shape, char* to,
                    const Shape& larger) {
  if (shape == larger || shape.rank() == 0) return Copy(dtype, from, BytesOf(dtype, shape), to);
  const Shape row = shape.RowShape(), larger_row = larger.RowShape();
  for (int64_t i = 0; i < shape.dim(0); ++i) {
    CopyIntoCorner(dtype, from + i * BytesOf(dtype, row), row, to + i * BytesOf(dtype, larger_row),
                   larger_row);
  }
}

class PaddedJoin : public RowJoin {
 public:
  PaddedJoin(std::string name, Shape shape, Array padding)
      : name_(std::move(name)), shape_(shape), padding_(std::move(padding)) {}

  absl::Status Join(absl::Span<const Array> rows, BufferPool& buffers, int64_t* failed_row,
                    std::vector<Array>* out) const override {
    Shape longest = shape_;
    for (int d = 0; d < longest.rank(); ++d)
      longest.set_dim(d, std::max<int64_t>(shape_.dim(d), 0));
    for (size_t i = 0; i < rows.size(); ++i) {
      *failed_row = static_cast<int64_t>(i);
      PENSTOCK_RETURN_IF_ERROR(Widen(rows[i].shape(), &longest));
    }
    const DType dtype = padding_.dtype();
    const Shape all = longest.Prepend(static_cast<int64_t>(rows.size()));
    Array array =
        dtype == DType::kString ? Array::Uninitialized(dtype, all) : buffers.Allocate(dtype, all);
    const int64_t row_bytes = BytesOf(dtype, longest);
    char* to = static_cast<char*>(array.mutable_raw());
    for (const Array& row : rows) {
      if (!(row.shape() == longest)) Fill(padding_, row_bytes, to);
      CopyIntoCorner(dtype, static_cast<const char*>(row.raw()), row.shape(), to, longest);
      to += row_bytes;
    }
    out->push_back(dtype == DType::kString ? array.Clone() : std::move(array));
    return absl::OkStatus();
  }

  int64_t RowBytes() const override {
    return IsKnown(shape_) ? BytesOf(padding_.dtype(), shape_) : 0;
  }

 private:
  absl::Status Widen(const Shape& row, Shape* longest) const {
    bool fits = row.rank() == shape_.rank();
    for (int d = 0; fits && d < row.rank(); ++d) {
      fits = shape_.dim(d) < 0 || row.dim(d) <= shape_.dim(d);
      longest->set_dim(d, std::max(longest->dim(d), row.dim(d)));
    }
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name_, " has shape ", row.ToString(), ", which does not fit into ",
                     shape_.ToString(), "; set a larger padded shape, or crop it in a Map before"));
  }

  const std::string name_;
  const Shape shape_;  // -1: as long as the longest of the batch
  const Array padding_;
};

struct PaddedBatchFields {
  int64_t size = 0;
  PaddedBatchOptions options = {};
};
void Fields(StageFields& f, PaddedBatchFields& p) {
  std::vector<std::pair<std::string, Array>> values(p.options.padding_values.begin(),
                                                    p.options.padding_values.end());
  f.Value("size", &p.size);
  f.Value("padded_shapes", &p.options.padded_shapes);
  f.Value("padding_values", &values);
  f.Value("drop_remainder", &p.options.drop_remainder);
  for (const auto& [name, value] : values) p.options.padding_values.Set(name, value);
}

class PaddedBatchStage : public Stage {
 public:
  PaddedBatchStage(int64_t size, PaddedBatchOptions options, HostShard host = {})
      : size_(size), options_(std::move(options)), host_(host) {}

  absl::string_view name() const override { return "PaddedBatch"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, PaddedBatchFields{size_, options_});
  }
  std::string Parameters() const override {
    std::string out = absl::StrCat(size_);
    for (const auto& [name, shape] : options_.padded_shapes) {
      absl::StrAppend(&out, ", ", name, " to ", shape.ToString());
    }
    for (const auto& [name, value] : options_.padding_values) {
      absl::StrAppend(&out, ", ", name, " with ", value.ToString());
    }
    if (options_.drop_remainder) absl::StrAppend(&out, ", drop remainder");
    return absl::StrCat(out, PrintHost(host_));
  }
  bool runs_fused_kernels() const override { return true; }
  std::shared_ptr<const Stage> ForHost(const HostShard& host) const override {
    return std::make_shared<PaddedBatchStage>(size_, options_, host);
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    return NumBatches(inputs[0], size_, options_.drop_remainder, host_);
  }
  std::string memory_advice() const override { return "a smaller batch"; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckBatch(size_, host_));
    for (const auto& [name, shape] : options_.padded_shapes) {
      PENSTOCK_ASSIGN_OR_RETURN(const int i, inputs[0].Index(name));
      PENSTOCK_RETURN_IF_ERROR(CheckShape(inputs[0][i], shape));
    }
    for (const auto& [name, value] : options_.padding_values) {
      PENSTOCK_ASSIGN_OR_RETURN(const int i, inputs[0].Index(name));
      if (value.dtype() == inputs[0][i].dtype && value.rank() == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("column ", inputs[0][i].ToString(), " cannot be padded with a ",
                       value.TypeString(), "; use a scalar of its type"));
    }
    ElementSpec spec;
    for (const ColumnSpec& column : inputs[0].columns()) {
      if (column.shape.rank() + 2 > base::kMaxRank) {
        return absl::InvalidArgumentError(
            absl::StrCat("column ", column.ToString(), " has too many dimensions to add one"));
      }
      const int64_t rows = options_.drop_remainder ? RowsPerHost(host_, size_) : -1;
      spec.Set({column.name, column.dtype, PaddedShape(column).Prepend(rows)});
    }
    return spec;
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    RowNodeOptions options = {.name = "PaddedBatch",
                              .batch = size_,
                              .drop_remainder = options_.drop_remainder,
                              .host = host_};
    for (const ColumnSpec& column : context.kernels->output().columns()) {
      const Shape shape = PaddedShape(column);
      // Where all rows have the padded shape they are computed in their places.
      const bool stacks = IsKnown(column.shape) && shape == column.shape;
      options.joins.push_back(
          stacks ? nullptr : std::make_shared<PaddedJoin>(column.name, shape, Padding(column)));
    }
    return MakeRowNode(context, std::move(input), std::move(options));
  }

 private:
  static absl::Status CheckShape(const ColumnSpec& column, const Shape& shape) {
    bool fits = shape.rank() == column.shape.rank();
    for (int d = 0; fits && d < shape.rank(); ++d) {
      fits = shape.dim(d) == -1 || (shape.dim(d) >= 0 && shape.dim(d) >= column.shape.dim(d));
    }
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("column ", column.ToString(), " cannot be padded to ", shape.ToString()));
  }

  // -1 in it: as long as the longest of the batch.
  Shape PaddedShape(const ColumnSpec& column) const {
    for (const auto& [name, shape] : options_.padded_shapes) {
      if (name != column.name) continue;
      Shape padded = shape;
      for (int d = 0; d < padded.rank(); ++d) {
        if (padded.dim(d) < 0) padded.set_dim(d, column.shape.dim(d));
      }
      return padded;
    }
    return column.shape;
  }

  Array Padding(const ColumnSpec& column) const {
    const Array* value = options_.padding_values.Find(column.name);
    return value != nullptr ? *value : Array::Zeros(column.dtype, {});
  }

  const int64_t size_;
  const PaddedBatchOptions options_;
  const HostShard host_;
};

}  // namespace

Dataset Dataset::PaddedBatch(int64_t size, PaddedBatchOptions options) const {
  return Then(std::make_shared<PaddedBatchStage>(size, std::move(options)));
}

absl::StatusOr<Dataset> ReadPaddedBatch(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<PaddedBatchFields>(in));
  return inputs[0].PaddedBatch(p.size, p.options);
}

}  // namespace penstock::data
