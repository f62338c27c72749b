#include "penstock/estimator/export.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/estimator/estimator.h"
#include "penstock/estimator/model_builder.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/ir/stablehlo.h"
#include "penstock/ir/symbolic_batch.h"
#include "penstock/save/saved_model/saved_model.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/program_graph.h"

namespace penstock::estimator {
namespace {

// The calling convention of XlaCallModule that every TensorFlow since 2.14 knows.
constexpr int kCallModuleVersion = 9;

// The outputs of a signature, 16-bit floats as float32.
absl::StatusOr<std::vector<session::ProgramOutput>> Outputs(const EstimatorSpec& spec,
                                                            const std::string& signature) {
  NamedTensors outputs;
  if (spec.export_outputs.empty() && signature == kServingDefault) {
    outputs = PredictOutput(spec.predictions).outputs;
  } else if (const auto found = spec.export_outputs.find(signature);
             found != spec.export_outputs.end()) {
    outputs = found->second.outputs;
  } else if (spec.export_outputs.size() == 1 && signature == kServingDefault) {
    outputs = spec.export_outputs.begin()->second.outputs;  // as in TensorFlow
  } else {
    std::vector<std::string> names;
    for (const auto& entry : spec.export_outputs) names.push_back(entry.first);
    return absl::InvalidArgumentError(
        absl::StrCat("export_outputs have no '", signature, "'; they are ",
                     names.empty() ? "empty, and the predictions are 'serving_default'"
                                   : absl::StrJoin(names, ", ")));
  }
  if (outputs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the export output '", signature, "' has no tensors"));
  }
  std::vector<session::ProgramOutput> list;
  for (const auto& [name, tensor] : outputs) {
    const bool narrow = base::IsFloat(tensor.dtype()) && base::ByteWidth(tensor.dtype()) < 4;
    list.push_back({narrow ? session::Cast(tensor, base::DType::kF32) : tensor, name});
  }
  return list;
}

// The receiver's tensors for a batch size: unknown extents are the batch size.
absl::StatusOr<std::vector<session::ProgramInput>> Inputs(const NamedTensors& receiver,
                                                          int64_t batch) {
  std::vector<session::ProgramInput> inputs;
  for (const auto& [name, tensor] : receiver) {
    if (!tensor.shape().has_rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the receiver tensor '", name, "' has an unknown rank"));
    }
    base::Shape shape = tensor.shape().shape();
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape.dim(i) >= 0) continue;
      if (i > 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the receiver tensor '", name, "' has the shape ",
                         tensor.shape().ToString(), ", but only its first extent may be unknown"));
      }
      shape.set_dim(i, batch);
    }
    inputs.push_back({tensor, shape, name});
  }
  return inputs;
}

absl::Status CheckHasBatchSize(const NamedTensors& receiver) {
  for (const auto& [name, tensor] : receiver) {
    const session::PartialShape& shape = tensor.shape();
    if (!shape.has_rank() || (shape.rank() > 0 && shape.dim(0) < 0)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no receiver tensor has an unknown first extent, the batch size, but a SavedModel serves any "
      "one; '",
      receiver.begin()->first, "' is ", receiver.begin()->second.shape().ToString(),
      ": make it a Placeholder whose first extent is -1"));
}

// The program for every batch size, and the values of its variables.
absl::StatusOr<save::SavedModelContents> Contents(
    const session::Session& session, const NamedTensors& receiver,
    const std::vector<session::ProgramOutput>& outputs) {
  PENSTOCK_RETURN_IF_ERROR(CheckHasBatchSize(receiver));
  std::vector<const session::VariableDef*> variables;
  PENSTOCK_ASSIGN_OR_RETURN(
      const ir::SymbolicBatch batch,
      ir::SymbolicBatch::Of([&](int64_t size) -> absl::StatusOr<std::unique_ptr<ir::Graph>> {
        PENSTOCK_ASSIGN_OR_RETURN(const std::vector<session::ProgramInput> inputs,
                                  Inputs(receiver, size));
        PENSTOCK_ASSIGN_OR_RETURN(session::ProgramGraph program,
                                  session::TraceProgram(outputs, inputs));
        variables = program.variables;
        return std::move(program.graph);
      }));
  PENSTOCK_ASSIGN_OR_RETURN(
      ir::Program program,
      ir::PrintStableHlo(batch, {.locations = false, .platform_parameter = true}));
  const absl::Span<const ir::TensorType> types = program.parameters;
  const absl::Span<const std::string> names = program.parameter_names;
  save::SavedModelContents contents;
  contents.function.inputs =
      save::ServingTensors(names.subspan(variables.size()), types.subspan(variables.size()));
  contents.function.outputs = save::ServingTensors(program.result_names, program.results);
  contents.function.module = std::move(program.text);
  contents.function.version = kCallModuleVersion;
  contents.function.platforms = {"CPU", "CUDA", "ROCM", "TPU"};
  for (const session::VariableDef* variable : variables) {
    PENSTOCK_ASSIGN_OR_RETURN(base::Array value, session.GetVariableValue(variable->name));
    contents.variables.push_back({variable->name, std::move(value), variable->trainable});
  }
  return contents;
}

// A folder that does not exist yet, named by the time.
absl::StatusOr<std::string> NewExportFolder(io::FileSystem& fs, absl::string_view base,
                                            base::Clock& clock) {
  int64_t seconds = static_cast<int64_t>(std::floor(clock.UnixSeconds()));
  for (;; ++seconds) {
    std::string folder = io::JoinPath(base, absl::StrCat(seconds));
    PENSTOCK_ASSIGN_OR_RETURN(const bool exists, fs.Exists(folder));
    if (!exists) return folder;
  }
}

}  // namespace

ServingInputReceiverFn BuildRawServingInputReceiverFn(std::vector<data::ColumnSpec> features) {
  return [features = std::move(features)]() -> ServingInputReceiver {
    ServingInputReceiver receiver;
    for (const data::ColumnSpec& feature : features) {
      receiver.features.Set(feature.name,
                            session::Placeholder(feature.dtype, feature.shape,
                                                 session::AsName("receiver_" + feature.name)));
    }
    return receiver;
  };
}

absl::StatusOr<std::string> Estimator::ExportSavedModel(
    absl::string_view export_dir_base, const ServingInputReceiverFn& serving_input_receiver_fn,
    const ExportSavedModelOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(status_);
  if (export_dir_base.empty()) {
    return absl::InvalidArgumentError("ExportSavedModel needs an export_dir_base");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto fs, Files());
  std::string checkpoint = options.checkpoint_path;
  if (checkpoint.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(checkpoint, LatestCheckpoint());
    if (checkpoint.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "there is no checkpoint in ", io::DisplayName(model_dir()), " to export: train first"));
    }
  }
  PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFolder(*fs, export_dir_base));
  const ModelBuilder builder(*this, ModeKeys::kPredict);
  ServingInputReceiver receiver;
  PENSTOCK_ASSIGN_OR_RETURN(BuiltModel built,
                            builder.BuildForServing(serving_input_receiver_fn, &receiver));
  const auto scope = built.graph->AsDefault();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<session::ProgramOutput> outputs,
                            Outputs(built.model.spec, options.signature));
  PENSTOCK_RETURN_IF_ERROR(built.graph->status());
  PENSTOCK_ASSIGN_OR_RETURN(session::Session session, builder.MakeSession(*built.graph));
  PENSTOCK_RETURN_IF_ERROR(RestoreForInference(*fs, session, checkpoint));
  absl::StatusOr<save::SavedModelContents> contents =
      Contents(session, receiver.receiver_tensors, outputs);
  if (!contents.ok()) return base::WithContext(contents.status(), "ExportSavedModel");
  PENSTOCK_ASSIGN_OR_RETURN(const std::string folder,
                            NewExportFolder(*fs, export_dir_base, *config_.clock));
  PENSTOCK_RETURN_IF_ERROR(save::WriteSavedModel(*fs, folder, *contents));
  config_.Log(absl::StrCat("exported ", io::DisplayName(folder)));
  return folder;
}

}  // namespace penstock::estimator
