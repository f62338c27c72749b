// InputFn: the function that makes an estimator's input, a dataset of batches.
//
//   const auto train_input = [](const Params& params) {
//     return data::Dataset::FromCsv({"train-*.csv"}).Shuffle(2048).Batch(params["batch_size"]);
//   };
//   PENSTOCK_RETURN_IF_ERROR(estimator.Train(train_input, {.steps = 1000}));
//   PENSTOCK_RETURN_IF_ERROR(estimator.Train({train_input, {.labels = {"class"}}}));
//
// A dataset has named columns where TensorFlow's has (features, labels). Which columns are labels
// is said by InputOptions.labels, or by their names: "label" and "labels", and all that begin with
// "label/" or "labels/". The other columns are features. A model_fn receives a single label as a
// single tensor.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/null_function.h"
#include "penstock/data/dataset.h"
#include "penstock/estimator/params.h"

namespace penstock::estimator {

struct InputOptions {
  // Columns that are labels; empty: those with the names above.
  std::vector<std::string> labels = {};
};

class InputFn {
 public:
  InputFn() = default;
  // `function` takes Params, or nothing, and returns a Dataset or a StatusOr of one.
  template <typename F,
            std::enable_if_t<!std::is_same_v<std::decay_t<F>, InputFn> &&
                                 (std::is_invocable_v<F> || std::is_invocable_v<F, const Params&>),
                             int> = 0>
  InputFn(F function, InputOptions options = {})  // NOLINT: a function or a lambda
      : options_(std::move(options)) {
    if (base::IsNullFunction(function)) return;
    function_ = [function =
                     std::move(function)](const Params& params) -> absl::StatusOr<data::Dataset> {
      if constexpr (std::is_invocable_v<F, const Params&>) {
        return function(params);
      } else {
        return function();
      }
    };
  }
  // The same dataset each time.
  InputFn(data::Dataset dataset, InputOptions options = {})  // NOLINT
      : InputFn([dataset = std::move(dataset)] { return dataset; }, std::move(options)) {}

  bool valid() const { return function_ != nullptr; }
  const InputOptions& options() const { return options_; }
  // Calls the function; an exception that it throws is an error, and so is a dataset whose
  // description has one.
  absl::StatusOr<data::Dataset> operator()(const Params& params) const;

 private:
  std::function<absl::StatusOr<data::Dataset>(const Params&)> function_;
  InputOptions options_;
};

// Names of the label columns of a dataset. An error if options.labels names a column that does not
// exist.
absl::StatusOr<std::vector<std::string>> LabelColumns(const data::ElementSpec& spec,
                                                      const InputOptions& options);

}  // namespace penstock::estimator
