#include "tests/interop/small_data.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/io/file_system.h"

namespace penstock::tests {
namespace {

using base::Array;
using base::DType;
using base::Shape;

std::string Testdata(absl::string_view name) {
  return absl::StrCat(PENSTOCK_SOURCE_DIR, "/tests/interop/testdata/", name);
}

// Parses rows of numbers, the last of which is the class. `shape` is that of one example.
template <typename T>
absl::StatusOr<TrainAndTest> ReadRows(const std::string& file, const Shape& shape) {
  const data::Dataset text = data::Dataset::FromText({file});
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, text.Batch(4096).MakeIterator({}));
  base::NamedArrays batch;
  PENSTOCK_RETURN_IF_ERROR(iterator->Next(&batch).status());
  PENSTOCK_ASSIGN_OR_RETURN(const Array lines, batch.Get("line"));
  const int64_t total = lines.dim(0), features = shape.num_elements();
  const auto examples = [&](int64_t n) {
    std::vector<int64_t> dims = {n};
    dims.insert(dims.end(), shape.begin(), shape.end());
    return Examples{Array::Uninitialized(base::DTypeOf<T>(), Shape(dims)),
                    Array::Uninitialized(DType::kI64, {n})};
  };
  TrainAndTest both{examples(total - total / 5), examples(total / 5)};
  int64_t filled[2] = {0, 0};
  for (int64_t i = 0; i < total; ++i) {
    const bool is_test = i % 5 == 4;
    Examples& to = is_test ? both.test : both.train;
    const int64_t at = filled[is_test ? 1 : 0]++;
    const std::vector<absl::string_view> fields =
        absl::StrSplit(lines.data<absl::string_view>()[i], ',');
    std::vector<double> numbers(fields.size());
    bool good = static_cast<int64_t>(fields.size()) == features + 1;
    for (size_t k = 0; k < fields.size(); ++k) good &= absl::SimpleAtod(fields[k], &numbers[k]);
    if (!good) return absl::InvalidArgumentError(absl::StrCat(file, ": wrong line ", i + 1));
    for (int64_t k = 0; k < features; ++k) {
      to.x.mutable_data<T>()[at * features + k] = static_cast<T>(numbers[static_cast<size_t>(k)]);
    }
    to.y.mutable_data<int64_t>()[at] = static_cast<int64_t>(numbers.back());
  }
  return both;
}

}  // namespace

absl::StatusOr<TrainAndTest> Digits() {
  return ReadRows<uint8_t>(
      absl::StrCat(PENSTOCK_SOURCE_DIR, "/third_party/unpacked/digits/digits.csv.gz"), {8, 8, 1});
}

absl::StatusOr<TrainAndTest> Iris() { return ReadRows<float>(Testdata("iris.csv"), {4}); }

absl::StatusOr<std::string> Sonnets() {
  return io::ReadFile(*io::FileSystem::Default(), Testdata("sonnets.txt"));
}

}  // namespace penstock::tests
