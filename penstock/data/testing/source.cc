#include "penstock/data/testing/source.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/data/stage.h"
#include "penstock/data/testing/conformance.h"

namespace penstock::data::testing {
namespace {

using base::Array;
using base::DType;

class SourceOrigins : public OriginSource {
 public:
  std::string At(int64_t index) const override { return absl::StrCat("source:", index); }
};

struct Portion {
  std::atomic<bool> done = false;
  BlockPtr block;
};

BlockPtr MakeBlock(int64_t begin, int64_t rows) {
  auto block = std::make_shared<Block>();
  block->rows = rows;
  Array x = Array::Uninitialized(DType::kI64, {rows});
  Array v = Array::Uninitialized(DType::kF32, {rows, 2});
  std::vector<std::string> s;
  for (int64_t i = 0; i < rows; ++i) {
    x.mutable_data<int64_t>()[i] = begin + i;
    v.mutable_data<float>()[2 * i] = static_cast<float>(begin + i);
    v.mutable_data<float>()[2 * i + 1] = -static_cast<float>(begin + i);
    s.push_back(absl::StrCat("row ", begin + i));
  }
  block->columns = {Column(x), Column(v), Column(Array::Strings({rows}, s))};
  block->origins.Append(std::make_shared<SourceOrigins>(), begin, rows);
  return block;
}

class SourceNode : public Node {
 public:
  SourceNode(const NodeContext& context, SourceOptions options,
             std::shared_ptr<SourceCounts> counts)
      : Node(context, nullptr), options_(options), counts_(std::move(counts)) {}

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    if (row_ == options_.fail_at) {
      return absl::DataLossError(absl::StrCat("source:", row_, ": broken"));
    }
    if (row_ == options_.rows) return Poll::kEnd;
    if (output_rows_ == nullptr) {
      int64_t rows = options_.portion;
      if (options_.rows >= 0) rows = std::min(rows, options_.rows - row_);
      if (options_.fail_at >= 0) rows = std::min(rows, options_.fail_at - row_);
      output_rows_ = std::make_shared<Portion>();
      engine_.Compute([portion = output_rows_, begin = row_, rows, engine = &engine_] {
        portion->block = MakeBlock(begin, rows);
        portion->done = true;
        engine->Wake();
      });
    }
    if (!output_rows_->done) return Poll::kPending;
    const int64_t part = std::min(max_rows, output_rows_->block->rows - in_portion_);
    out->Append(output_rows_->block, in_portion_, part);
    row_ += part;
    in_portion_ += part;
    counts_->rows += part;
    if (in_portion_ == output_rows_->block->rows) {
      output_rows_ = nullptr;
      in_portion_ = 0;
    }
    return Poll::kReady;
  }

 private:
  const SourceOptions options_;
  const std::shared_ptr<SourceCounts> counts_;
  int64_t row_ = 0;
  std::shared_ptr<Portion> output_rows_;
  int64_t in_portion_ = 0;
};

class SourceStage : public Stage {
 public:
  SourceStage(SourceOptions options, std::shared_ptr<SourceCounts> counts)
      : options_(options),
        counts_(counts != nullptr ? std::move(counts) : std::make_shared<SourceCounts>()) {}

  absl::string_view name() const override { return "TestSource"; }
  std::string Parameters() const override { return absl::StrCat(options_.rows); }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    return ElementSpec{{"x", DType::kI64, {}}, {"v", DType::kF32, {2}}, {"s", DType::kString, {}}};
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    ++counts_->passes;
    return std::make_unique<SourceNode>(context, options_, counts_);
  }

 private:
  const SourceOptions options_;
  const std::shared_ptr<SourceCounts> counts_;
};

}  // namespace

Dataset TestSource(SourceOptions options, std::shared_ptr<SourceCounts> counts) {
  return Dataset::From(std::make_shared<SourceStage>(options, std::move(counts)));
}

Dataset OwnedRows(base::NamedArrays arrays) {
  ElementSpec spec;
  for (const auto& [name, array] : arrays) {
    spec.Set({name, array.dtype(), array.shape().RowShape()});
  }
  const auto make = [arrays = std::move(arrays)](const GeneratorContext&) -> ElementGenerator {
    return [arrays, i = int64_t{0}](base::NamedArrays* element) mutable -> absl::StatusOr<bool> {
      if (i == arrays[0].second.dim(0)) return false;
      for (const auto& [name, array] : arrays) element->Set(name, array.Row(i));
      ++i;
      return true;
    };
  };
  return Dataset::FromGenerator(make, std::move(spec));
}

Dataset Lists(const Dataset& dataset) {
  return dataset.Map(
      [](const base::NamedArrays& in, base::NamedArrays* out) {
        const int64_t x = in.Find("x")->item<int64_t>();
        std::vector<int64_t> tags;
        std::vector<std::string> names;
        for (int64_t t = 0; t < x % 4; ++t) {
          tags.push_back(10 * x + t);
          names.push_back("tag " + std::to_string(10 * x + t));
        }
        out->Set("tags", base::Array::Of<int64_t>({x % 4}, tags));
        out->Set("names", base::Array::Strings({x % 4}, names));
        return absl::OkStatus();
      },
      {.name = "lists",
       .reads = {"x"},
       .makes = {{"tags", base::DType::kI64, {-1}}, {"names", base::DType::kString, {-1}}},
       .drops = {"s"}});
}

std::string PrintedRow(int64_t i) {
  const float f = static_cast<float>(i);
  return PrintElement({{"x", Array::Scalar<int64_t>(i)},
                       {"v", Array::Of<float>({2}, {f, -f})},
                       {"s", Array::Strings({}, {absl::StrCat("row ", i)})}});
}

std::vector<std::string> PrintedRows(const std::vector<int64_t>& rows) {
  std::vector<std::string> out;
  for (int64_t row : rows) out.push_back(PrintedRow(row));
  return out;
}

}  // namespace penstock::data::testing
