#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

class EnumerateKernel : public RowKernel {
 public:
  explicit EnumerateKernel(int64_t start) : start_(start) {}

  void Run(const RowsIn& in, RowsOut& out) const override {
    auto column = out.Dense(0);
    if (!column.ok()) return out.FailAndStop(0, column.status());
    int64_t* index = column->mutable_data<int64_t>();
    // Unsigned, because it may wrap around after the maximum.
    const uint64_t first = static_cast<uint64_t>(start_) + static_cast<uint64_t>(in.first);
    for (int64_t row = 0; row < in.rows; ++row) {
      index[row] = static_cast<int64_t>(first + static_cast<uint64_t>(row));
    }
  }

 private:
  const int64_t start_;
};

struct EnumerateFields {
  int64_t start = 0;
  EnumerateOptions options = {};
};
void Fields(StageFields& f, EnumerateFields& p) {
  f.Value("start", &p.start);
  f.Value("column", &p.options.column);
}

class EnumerateStage : public RowStage {
 public:
  EnumerateStage(int64_t start, EnumerateOptions options)
      : start_(start), options_(std::move(options)) {}

  absl::string_view name() const override { return "Enumerate"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, EnumerateFields{start_, options_});
  }
  std::string Parameters() const override { return absl::StrCat(start_, ", ", options_.column); }
  bool counts_rows() const override { return true; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (inputs[0].Find(options_.column) >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("there is a column '", options_.column,
                                                     "' already; choose another name (.column)"));
    }
    ElementSpec spec = inputs[0];
    spec.Set({options_.column, base::DType::kI64, {}});
    return spec;
  }

  absl::StatusOr<RowKernelBinding> Bind(const ElementSpec& input,
                                        const ElementSpec&) const override {
    RowKernelBinding binding;
    binding.kernel = std::make_shared<EnumerateKernel>(start_);
    for (int i = 0; i < input.size(); ++i) binding.passes.push_back(i);
    binding.passes.push_back(-1);
    return binding;
  }

 private:
  const int64_t start_;
  const EnumerateOptions options_;
};

}  // namespace

Dataset Dataset::Enumerate(int64_t start, EnumerateOptions options) const {
  return Then(std::make_shared<EnumerateStage>(start, std::move(options)));
}

absl::StatusOr<Dataset> ReadEnumerate(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<EnumerateFields>(in));
  return inputs[0].Enumerate(p.start, p.options);
}

}  // namespace penstock::data
