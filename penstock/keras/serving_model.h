// ServingModel: a SavedModel that holds its program as StableHLO, compiled and run by this library
// without TensorFlow: those that Model::Export writes, and those of JAX's jax2tf.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto model, keras::ServingModel::Load("gs://bucket/classifier"));
//   PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays scores, model.Predict({{"image", images}}));
//
// Modules of text run at any batch size: each is compiled when it first occurs. Modules in
// StableHLO's binary form (portable artifacts, as JAX writes them) run at the shapes that they were
// exported for; the device's plugin must support them. A module is compiled by the plugin as it is:
// load SavedModels only from sources whose programs you would run.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/runtime/client.h"
#include "penstock/save/saved_model/saved_model.h"

namespace penstock::keras {

struct ServingModelOptions {
  std::string signature = "serving_default";
  // The device to run on. Default: as CompileOptions::client.
  std::shared_ptr<runtime::Client> client = nullptr;
};

class ServingModel {
 public:
  // Reads the program and the weights, which are transferred to the device once.
  static absl::StatusOr<ServingModel> Load(absl::string_view uri,
                                           const ServingModelOptions& options = {});

  const std::vector<save::ServingTensor>& inputs() const { return function_.inputs; }
  const std::vector<save::ServingTensor>& outputs() const { return function_.outputs; }

  // The outputs by name, for inputs by name. Not thread-safe.
  absl::StatusOr<base::NamedArrays> Predict(const base::NamedArrays& inputs);

 private:
  ServingModel() = default;
  absl::Status PutVariables(const save::Weights& weights);
  absl::StatusOr<int64_t> BatchOf(const base::NamedArrays& inputs) const;
  absl::StatusOr<runtime::Executable*> ExecutableFor(int64_t batch);
  absl::StatusOr<ir::Program> ProgramFor(int64_t batch) const;
  absl::StatusOr<ir::Program> ProgramOfArtifact() const;

  std::string name_;
  save::ServingFunction function_;
  std::shared_ptr<runtime::Client> client_;
  // Arguments before those of the function: the platform's index, if the module takes it.
  runtime::Buffers leading_;
  // For each argument of the function, the variable; not valid() for an input.
  runtime::Buffers variables_;
  std::map<int64_t, std::shared_ptr<runtime::Executable>> executables_;  // by batch size
};

}  // namespace penstock::keras
