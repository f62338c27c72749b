#include "penstock/data/stages/map.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"

namespace penstock::data {
namespace {

class MapKernel : public RowKernel {
 public:
  MapKernel(MapFunction function, std::vector<std::string> reads, std::vector<ColumnSpec> makes)
      : function_(std::move(function)), reads_(std::move(reads)), makes_(std::move(makes)) {}

  void Run(const RowsIn& in, RowsOut& out) const override {
    for (int64_t row = 0; row < in.rows; ++row) {
      absl::Status status = RunRow(in, row, out);
      if (!status.ok()) out.Fail(row, std::move(status));
    }
  }

 private:
  absl::Status RunRow(const RowsIn& in, int64_t row, RowsOut& out) const {
    base::NamedArrays given, made;
    for (size_t i = 0; i < reads_.size(); ++i) given.Set(reads_[i], in.columns[i]->Row(row));
    PENSTOCK_RETURN_IF_ERROR(base::CatchExceptions([&] { return function_(given, &made); }));
    for (size_t i = 0; i < makes_.size(); ++i) {
      PENSTOCK_RETURN_IF_ERROR(Store(made, row, static_cast<int>(i), out));
    }
    return absl::OkStatus();
  }

  absl::Status Store(const base::NamedArrays& made, int64_t row, int column, RowsOut& out) const {
    const ColumnSpec& spec = makes_[column];
    const base::Array* value = made.Find(spec.name);
    if (value == nullptr || value->dtype() != spec.dtype || !Fits(value->shape(), spec.shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the function should make ", spec.ToString(), ", but made ",
                       value == nullptr ? std::string("no such column") : value->TypeString()));
    }
    PENSTOCK_ASSIGN_OR_RETURN(void* to, out.Row(column, row, value->shape()));
    if (spec.dtype == base::DType::kString) {
      const auto strings = value->values<absl::string_view>();
      std::copy(strings.begin(), strings.end(), static_cast<absl::string_view*>(to));
      out.KeepAlive(column, value->owner());
    } else if (value->num_bytes() > 0) {
      std::memcpy(to, value->raw(), value->num_bytes());
    }
    return absl::OkStatus();
  }

  const MapFunction function_;
  const std::vector<std::string> reads_;
  const std::vector<ColumnSpec> makes_;
};

class MapStage : public RowStage {
 public:
  MapStage(std::string name, MapFunction function, MapOptions options)
      : name_(std::move(name)), function_(std::move(function)), options_(std::move(options)) {}

  absl::string_view name() const override { return name_; }
  absl::Status WriteFields(StageFields&) const override {
    return HoldsFunction(
        "replace it by what travels: DecodeImage (random_crop, random_flip, dtype, mean, std) or "
        "layers of the network (Rescaling, RandomCrop, RandomFlip, ...)");
  }
  Varies varies() const override { return CallOf(options_.name); }
  std::string Parameters() const override {
    return absl::StrCat(options_.name, ", C++ of this process");
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (function_ == nullptr) return absl::InvalidArgumentError("there is no function");
    PENSTOCK_RETURN_IF_ERROR(Reads(inputs[0]).status());
    PENSTOCK_ASSIGN_OR_RETURN(const ElementSpec makes, Makes(inputs[0]));
    ElementSpec all = inputs[0];
    for (const ColumnSpec& column : makes.columns()) {
      if (base::BitWidth(column.dtype) % 8 != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("elements of column ", column.ToString(), " are smaller than a byte"));
      }
      all.Set(column);
    }
    for (const std::string& name : options_.drops) {
      PENSTOCK_RETURN_IF_ERROR(all.Index(name).status());
    }
    ElementSpec out;
    for (const ColumnSpec& column : all.columns()) {
      if (!Dropped(column.name)) out.Set(column);
    }
    if (out.size() == 0) return absl::InvalidArgumentError("no column would remain");
    return out;
  }

  absl::StatusOr<RowKernelBinding> Bind(const ElementSpec& input,
                                        const ElementSpec& output) const override {
    RowKernelBinding binding;
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> reads, Reads(input));
    for (const std::string& name : reads) binding.reads.push_back(input.Find(name));
    PENSTOCK_ASSIGN_OR_RETURN(const ElementSpec makes, Makes(input));
    std::vector<ColumnSpec> made;
    for (const ColumnSpec& column : output.columns()) {
      const bool is_made = makes.Find(column.name) >= 0;
      binding.passes.push_back(is_made ? -1 : input.Find(column.name));
      if (is_made) made.push_back(column);
    }
    binding.kernel = std::make_shared<MapKernel>(function_, reads, std::move(made));
    return binding;
  }

 private:
  absl::StatusOr<std::vector<std::string>> Reads(const ElementSpec& input) const {
    for (const std::string& name : options_.reads) {
      PENSTOCK_RETURN_IF_ERROR(input.Index(name).status());
    }
    std::vector<std::string> reads = options_.reads;
    if (reads.empty()) {
      for (const ColumnSpec& column : input.columns()) reads.push_back(column.name);
    }
    return reads;
  }

  absl::StatusOr<ElementSpec> Makes(const ElementSpec& input) const {
    if (options_.makes.size() > 0) return options_.makes;
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> reads, Reads(input));
    ElementSpec makes;
    for (const std::string& name : reads) makes.Set(input[input.Find(name)]);
    return makes;
  }

  bool Dropped(const std::string& name) const {
    for (const std::string& drop : options_.drops) {
      if (drop == name) return true;
    }
    return false;
  }

  const std::string name_;
  const MapFunction function_;
  const MapOptions options_;
};

}  // namespace

std::shared_ptr<const RowStage> MakeMapStage(std::string name, MapFunction function,
                                             MapOptions options) {
  return std::make_shared<MapStage>(std::move(name), std::move(function), std::move(options));
}

Dataset Dataset::MapColumn(std::string column, ColumnFunction function,
                           MapColumnOptions options) const {
  if (!status_.ok()) return *this;
  const auto index = spec().Index(column);
  if (!index.ok()) return Mistaken(base::WithContext(index.status(), "Map"));
  const ColumnSpec& read = spec()[*index];
  if (read.dtype != function.reads) {
    return Mistaken(absl::InvalidArgumentError(
        absl::StrCat("Map: column ", read.ToString(), " holds no ", base::DTypeName(function.reads),
                     "; call Map with the C++ type of ", base::DTypeName(read.dtype))));
  }
  const std::string made = options.makes.empty() ? column : options.makes;
  MapOptions map{.name = std::move(options.name), .reads = {column}, .makes = {}};
  map.makes.Set({made, function.makes, function.keeps_shape ? read.shape : base::Shape()});
  return Map(
      [column, made, run = std::move(function.run)](const base::NamedArrays& in,
                                                    base::NamedArrays* out) {
        base::Array result;
        PENSTOCK_RETURN_IF_ERROR(run(*in.Find(column), &result));
        out->Set(made, std::move(result));
        return absl::OkStatus();
      },
      std::move(map));
}

Dataset Dataset::Map(MapFunction function, MapOptions options) const {
  return Then(MakeMapStage("Map", std::move(function), std::move(options)));
}

}  // namespace penstock::data
