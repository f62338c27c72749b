// ModelBuilder: makes the graph of one call of Train, Evaluate, Predict or ExportSavedModel from an
// estimator's functions. Internal to room estimator.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/estimator/estimator.h"
#include "penstock/session/data.h"
#include "penstock/session/graph.h"

namespace penstock::estimator {

// The dataset of an input_fn, as the graph reads it.
struct ModelInput {
  data::Dataset dataset = data::Dataset::Range(0, 0);
  std::vector<std::string> labels = {};
  // Predict with shards: the column with the number of examples that are not padding.
  std::string count_column = "";
  // Number of examples that a step needs; 0: any.
  int64_t fixed_batch = 0;
};

struct BuiltModel {
  std::unique_ptr<session::Graph> graph;
  // Its tensors are outside of shards: the loss is the mean over shards, the others are joined.
  ModelSpec model;
  session::Tensor count = {};  // of ModelInput::count_column
  std::string global_step;     // name of the variable
};

class ModelBuilder {
 public:
  // `seed`: of the graph; default: RunConfig's.
  ModelBuilder(const Estimator& estimator, ModeKeys mode, std::optional<uint64_t> seed = {})
      : estimator_(estimator),
        mode_(mode),
        seed_(seed.has_value() ? seed : estimator.config().tf_random_seed) {}

  absl::StatusOr<ModelInput> MakeInput(const InputFn& input_fn) const;
  // Reads the input with an iterator.
  absl::StatusOr<BuiltModel> Build(const ModelInput& input,
                                   const data::IteratorOptions& options) const;
  // For ExportSavedModel: features are made by the function, without shards. `receiver`: its
  // result.
  absl::StatusOr<BuiltModel> BuildForServing(const ServingInputReceiverFn& function,
                                             ServingInputReceiver* receiver) const;

  // Session for the graph.
  absl::StatusOr<session::Session> MakeSession(session::Graph& graph) const;

 private:
  using Batches = Estimator::Batches;
  Params ParamsFor(bool input) const;
  absl::StatusOr<ModelSpec> Call(const NamedTensors& features, const NamedTensors& labels,
                                 const session::Graph& graph) const;
  absl::StatusOr<ModelSpec> CallSharded(const NamedTensors& features, const NamedTensors& labels,
                                        const session::Graph& graph) const;
  void Begin(BuiltModel& built) const;

  const Estimator& estimator_;
  const ModeKeys mode_;
  const std::optional<uint64_t> seed_;
};

// Error for an input without elements.
absl::Status EmptyInputError(const ModelInput& input);

}  // namespace penstock::estimator
