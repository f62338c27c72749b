#include "penstock/estimator/model_builder.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/estimator/pad_batch.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/tpu.h"
#include "penstock/session/variable.h"

namespace penstock::estimator {
namespace {

using session::Tensor;
using session::Tensors;

constexpr char kCountColumn[] = "penstock_examples";

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A scalar as a vector of one number, which can be joined over shards.
Tensor WithAxis(const Tensor& tensor) {
  if (!tensor.shape().has_rank() || tensor.shape().rank() > 0) return tensor;
  return session::Reshape(tensor, {1});
}

}  // namespace

absl::Status EmptyInputError(const ModelInput& input) {
  if (input.fixed_batch > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the input_fn's dataset is empty, or has fewer examples than one batch of all "
                     "shards, ",
                     input.fixed_batch));
  }
  return absl::InvalidArgumentError("the input_fn's dataset is empty");
}

Params ModelBuilder::ParamsFor(bool input) const {
  Params params = estimator_.params_;
  const Batches& batches = estimator_.batches_;
  const int64_t global = batches.Global(mode_);
  if (global > 0) {
    const bool whole = input && estimator_.config_.tpu_config.per_host_input_for_training ==
                                    InputPipelineConfig::kPerHostV1;
    params.Set("batch_size", whole ? global : global / batches.num_shards);
  }
  return params;
}

absl::StatusOr<ModelInput> ModelBuilder::MakeInput(const InputFn& input_fn) const {
  const Batches& batches = estimator_.batches_;
  const int64_t global = batches.Global(mode_);
  if (batches.sharded && global == 0) {
    const absl::string_view field = mode_ == ModeKeys::kTrain  ? "train_batch_size"
                                    : mode_ == ModeKeys::kEval ? "eval_batch_size"
                                                               : "predict_batch_size";
    return absl::InvalidArgumentError(
        absl::StrCat("TPUEstimator needs ", field, " for mode '", ModeName(mode_), "'"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(data::Dataset dataset, input_fn(ParamsFor(/*input=*/true)));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> labels,
                            LabelColumns(dataset.spec(), input_fn.options()));
  if (estimator_.input_transform_ != nullptr) {
    const absl::Status thrown = base::CatchExceptions([&] {
      dataset = estimator_.input_transform_(dataset, labels);
      return absl::OkStatus();
    });
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(thrown, "input_transform"));
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(dataset.status(), "input_fn"));
  }
  ModelInput input{.dataset = dataset, .labels = labels};
  for (const data::ColumnSpec& column : dataset.spec().columns()) {
    if (column.shape.rank() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("column '", column.ToString(),
                       "' of the input_fn's dataset has no axis of examples: end the dataset in "
                       "Batch"));
    }
  }
  if (batches.sharded && batches.num_shards > 1) {
    input.fixed_batch = global;
    const bool predict = mode_ == ModeKeys::kPredict;
    input.dataset = input.dataset.Rebatch(global, /*drop_remainder=*/!predict);
    if (predict) {
      input.count_column = kCountColumn;
      input.dataset = PadBatches(input.dataset, global, kCountColumn);
    }
  }
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(input.dataset.status(), "input_fn"));
  return input;
}

void ModelBuilder::Begin(BuiltModel& built) const {
  built.graph = std::make_unique<session::Graph>();
  if (seed_.has_value()) built.graph->SetRandomSeed(*seed_);
  const auto scope = built.graph->AsDefault();
  built.global_step = session::GetOrCreateGlobalStep().def()->name;
}

absl::StatusOr<BuiltModel> ModelBuilder::Build(const ModelInput& input,
                                               const data::IteratorOptions& options) const {
  BuiltModel built;
  Begin(built);
  const auto scope = built.graph->AsDefault();
  const session::Iterator iterator = session::MakeOneShotIterator(input.dataset, options);
  const session::Element element = iterator.valid() ? iterator.GetNext() : session::Element();
  PENSTOCK_RETURN_IF_ERROR(built.graph->status());
  std::vector<NamedTensors::Entry> feature_list, label_list;
  for (int i = 0; i < element.size(); ++i) {
    const std::string& name = element.names()[i];
    if (name == input.count_column) {
      built.count = element[i];
    } else {
      (Contains(input.labels, name) ? label_list : feature_list).emplace_back(name, element[i]);
    }
  }
  NamedTensors features(std::move(feature_list)), labels;
  // As in TensorFlow, there are no labels to predict.
  if (mode_ != ModeKeys::kPredict) labels = NamedTensors(std::move(label_list));
  features.Describe("features", "");
  labels.Describe("labels",
                  mode_ == ModeKeys::kPredict
                      ? "mode 'infer' has none"
                      : absl::StrCat("the input_fn's dataset has the columns ",
                                     absl::StrJoin(element.names(), ", "),
                                     "; name one of them 'label', or give InputOptions.labels"));
  PENSTOCK_ASSIGN_OR_RETURN(built.model, estimator_.batches_.sharded
                                             ? CallSharded(features, labels, *built.graph)
                                             : Call(features, labels, *built.graph));
  PENSTOCK_RETURN_IF_ERROR(built.graph->status());
  return built;
}

absl::StatusOr<ModelSpec> ModelBuilder::Call(const NamedTensors& features,
                                             const NamedTensors& labels,
                                             const session::Graph& graph) const {
  absl::StatusOr<ModelSpec> model =
      estimator_.model_fn_(features, labels, mode_, ParamsFor(/*input=*/false), estimator_.config_);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  if (!model.ok()) return base::WithContext(model.status(), "model_fn");
  PENSTOCK_RETURN_IF_ERROR(CheckSpec(*model, mode_, graph));
  return model;
}

absl::StatusOr<ModelSpec> ModelBuilder::CallSharded(const NamedTensors& features,
                                                    const NamedTensors& labels,
                                                    const session::Graph& graph) const {
  Tensors inputs = features.tensors();
  for (const auto& entry : labels) inputs.push_back(entry.second);
  ModelSpec model;
  absl::Status error;
  // Joined over shards: the loss, then these, in order.
  std::vector<NamedTensors*> joined;
  const auto computation = [&](const Tensors& in) -> session::Fetches {
    NamedTensors shard_features = features, shard_labels = labels;
    size_t next = 0;
    for (NamedTensors* part : {&shard_features, &shard_labels}) {
      for (const std::string& name : part->names()) part->Set(name, in[next++]);
    }
    absl::StatusOr<ModelSpec> called = Call(shard_features, shard_labels, graph);
    if (!called.ok()) {
      error = called.status();
      return {};
    }
    model = *std::move(called);
    joined.clear();
    if (mode_ == ModeKeys::kEval) joined.push_back(&model.eval_metrics.tensors);
    if (mode_ == ModeKeys::kTrain) joined.push_back(&model.host_call.tensors);
    if (mode_ == ModeKeys::kPredict) joined.push_back(&model.spec.predictions);
    session::Fetches outputs;
    if (mode_ != ModeKeys::kPredict) outputs.push_back(session::Reshape(model.spec.loss, {1}));
    for (const NamedTensors* part : joined) {
      for (const auto& entry : *part) outputs.push_back(WithAxis(entry.second));
    }
    if (mode_ == ModeKeys::kTrain) outputs.push_back(model.spec.train_op);
    return outputs;
  };
  const Tensors outputs = session::tpu::Shard(computation, inputs, estimator_.batches_.num_shards);
  PENSTOCK_RETURN_IF_ERROR(error);
  PENSTOCK_RETURN_IF_ERROR(graph.status());
  size_t next = 0;
  if (mode_ != ModeKeys::kPredict) {
    // Running the loss of the shards runs the train_op, too.
    if (mode_ == ModeKeys::kTrain) model.spec.train_op = session::Operation(outputs[next]);
    model.spec.loss = session::ReduceMean(outputs[next++]);
  }
  for (NamedTensors* part : joined) {
    for (const std::string& name : part->names()) part->Set(name, outputs[next++]);
  }
  return model;
}

absl::StatusOr<BuiltModel> ModelBuilder::BuildForServing(const ServingInputReceiverFn& function,
                                                         ServingInputReceiver* receiver) const {
  if (function == nullptr) {
    return absl::InvalidArgumentError("there is no serving_input_receiver_fn");
  }
  BuiltModel built;
  Begin(built);
  const auto scope = built.graph->AsDefault();
  const absl::Status status = base::CatchExceptions([&]() -> absl::Status {
    *receiver = function();
    return absl::OkStatus();
  });
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(status, "serving_input_receiver_fn"));
  PENSTOCK_RETURN_IF_ERROR(built.graph->status());
  if (receiver->features.empty()) {
    return absl::InvalidArgumentError("the serving_input_receiver_fn returned no features");
  }
  if (receiver->receiver_tensors.empty()) receiver->receiver_tensors = receiver->features;
  for (const NamedTensors* part : {&receiver->features, &receiver->receiver_tensors}) {
    PENSTOCK_RETURN_IF_ERROR(
        CheckTensors(*part, "serving_input_receiver_fn",
                     part == &receiver->features ? "feature" : "receiver tensor", *built.graph));
  }
  NamedTensors labels;
  labels.Describe("labels", "mode 'infer' has none");
  receiver->features.Describe("features of the serving_input_receiver_fn", "");
  PENSTOCK_ASSIGN_OR_RETURN(built.model, Call(receiver->features, labels, *built.graph));
  return built;
}

absl::StatusOr<session::Session> ModelBuilder::MakeSession(session::Graph& graph) const {
  const RunConfig& config = estimator_.config_;
  const bool evaluates = mode_ != ModeKeys::kTrain && !config.evaluation_master.empty();
  const std::string& target = evaluates ? config.evaluation_master : config.master;
  session::ConfigProto options = config.session_config;
  PENSTOCK_ASSIGN_OR_RETURN(options.client, estimator_.Devices(target));
  session::Session session(target, options, &graph);
  PENSTOCK_RETURN_IF_ERROR(session.status());
  return session;
}

}  // namespace penstock::estimator
