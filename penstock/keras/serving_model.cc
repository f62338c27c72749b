#include "penstock/keras/serving_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/ir/module_text.h"

namespace penstock::keras {
namespace {

using base::Array;

// A portable artifact begins with the magic number of MLIR's bytecode.
constexpr absl::string_view kArtifact = "ML\xefR";
// Executables that are kept, each for one batch size.
constexpr size_t kMaxExecutables = 16;

bool IsStatic(const base::Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](int64_t extent) { return extent >= 0; });
}

bool Fits(const Array& array, const save::ServingTensor& tensor) {
  bool fits = array.dtype() == tensor.dtype && array.rank() == tensor.shape.rank();
  for (int i = 0; fits && i < array.rank(); ++i) {
    fits = tensor.shape.dim(i) < 0 || array.dim(i) == tensor.shape.dim(i);
  }
  return fits;
}

// The index of the client's platform among those of the module; an error if it is not among them.
// Modules before version 6 name no platforms.
absl::StatusOr<int32_t> PlatformIndex(const save::ServingFunction& function,
                                      const runtime::Client& client) {
  if (function.platforms.empty()) return 0;
  const std::string mine = absl::AsciiStrToUpper(client.platform());
  for (size_t i = 0; i < function.platforms.size(); ++i) {
    if (function.platforms[i] == mine) return static_cast<int32_t>(i);
  }
  return absl::FailedPreconditionError(absl::StrCat("the program is for the platforms ",
                                                    absl::StrJoin(function.platforms, ", "),
                                                    ", and this device is ", mine));
}

}  // namespace

absl::StatusOr<ServingModel> ServingModel::Load(absl::string_view uri,
                                                const ServingModelOptions& options) {
  io::FileSystem& fs = *io::FileSystem::Default();
  ServingModel model;
  model.name_ = io::DisplayName(uri);
  PENSTOCK_ASSIGN_OR_RETURN(model.function_, save::ReadServingFunction(fs, uri, options.signature));
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights weights, save::SavedModelFormat().read(fs, uri));
  model.client_ = options.client;
  if (model.client_ == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(model.client_, runtime::OpenClient());
  }
  const absl::Status put = model.PutVariables(weights);
  if (!put.ok()) return base::WithContext(put, model.name_);
  return model;
}

absl::Status ServingModel::PutVariables(const save::Weights& weights) {
  const runtime::Device& device = client_->devices()[0];
  PENSTOCK_ASSIGN_OR_RETURN(const int32_t platform, PlatformIndex(function_, *client_));
  if (function_.platforms.size() > 1) {
    PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffer index, client_->Put(Array::Scalar(platform), device));
    leading_.push_back(std::move(index));
  }
  for (const save::ServingFunction::Argument& argument : function_.arguments) {
    runtime::Buffer buffer;
    if (argument.input < 0) {
      PENSTOCK_ASSIGN_OR_RETURN(const Array value, save::FindVariable(weights, argument.variable));
      PENSTOCK_ASSIGN_OR_RETURN(buffer, client_->Put(value, device));
    }
    variables_.push_back(std::move(buffer));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ServingModel::BatchOf(const base::NamedArrays& inputs) const {
  int64_t batch = -1;
  for (const save::ServingTensor& input : function_.inputs) {
    PENSTOCK_ASSIGN_OR_RETURN(const Array array, inputs.Get(input.name));
    if (!Fits(array, input)) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", input.name, "' is ", base::DTypeName(input.dtype),
                       input.shape.ToString(), ", got ", array.TypeString()));
    }
    for (int i = 0; i < array.rank(); ++i) {
      if (input.shape.dim(i) >= 0 || array.dim(i) == batch) continue;
      if (batch >= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the unknown extents of the inputs are the batch size; input '",
                         input.name, "' has ", array.dim(i), " examples, another one ", batch));
      }
      batch = array.dim(i);
    }
  }
  if (inputs.size() != function_.inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("expects ", function_.inputs.size(), " inputs, got ", inputs.size()));
  }
  if (batch == 0)
    return absl::InvalidArgumentError("the inputs are a batch without examples; pass at least one");
  return std::max<int64_t>(batch, 1);
}

// The types in the binary form cannot be read without MLIR.
absl::StatusOr<ir::Program> ServingModel::ProgramOfArtifact() const {
  ir::Program program;
  program.name = "main";
  program.text = function_.module;
  const auto add = [&](const ir::TensorType& type) {
    program.parameters.push_back(type);
    program.parameter_names.push_back(absl::StrCat("argument", program.parameter_names.size()));
    program.alias.push_back(-1);
  };
  const auto unknown = [](const save::ServingTensor& tensor) {
    return absl::UnimplementedError(
        absl::StrCat("'", tensor.name, "' has unknown extents, ", tensor.shape.ToString(),
                     ", in a module in StableHLO's binary form; export it with static shapes"));
  };
  for (const runtime::Buffer& buffer : leading_) add(buffer.type());
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (variables_[i].valid()) {
      add(variables_[i].type());
      continue;
    }
    const save::ServingTensor& input =
        function_.inputs[static_cast<size_t>(function_.arguments[i].input)];
    if (!IsStatic(input.shape)) return unknown(input);
    add({input.dtype, input.shape});
  }
  program.results.resize(function_.outputs.size());
  for (size_t i = 0; i < function_.outputs.size(); ++i) {
    const save::ServingTensor& output = function_.outputs[i];
    if (!IsStatic(output.shape)) return unknown(output);
    const int result = function_.results[i];
    if (result < 0 || result >= static_cast<int>(program.results.size())) {
      return absl::UnimplementedError(
          "the module has results that are not outputs of the signature");
    }
    program.results[static_cast<size_t>(result)] = {output.dtype, output.shape};
  }
  for (const ir::TensorType& type : program.results) {
    if (type.dtype == base::DType::kInvalid) {
      return absl::UnimplementedError(
          "the module has results that are not outputs of the signature");
    }
    program.result_names.push_back(absl::StrCat("result", program.result_names.size()));
  }
  return program;
}

absl::StatusOr<ir::Program> ServingModel::ProgramFor(int64_t batch) const {
  if (absl::StartsWith(function_.module, kArtifact)) return ProgramOfArtifact();
  PENSTOCK_ASSIGN_OR_RETURN(ir::Program program, ir::SpecializeModule(function_.module, batch));
  if (program.parameters.size() != leading_.size() + variables_.size()) {
    return absl::DataLossError(absl::StrCat("the module has ", program.parameters.size(),
                                            " arguments, and is called with ",
                                            leading_.size() + variables_.size()));
  }
  for (const int result : function_.results) {
    if (result < static_cast<int>(program.results.size())) continue;
    return absl::DataLossError(absl::StrCat("the module has no result ", result));
  }
  return program;
}

absl::StatusOr<runtime::Executable*> ServingModel::ExecutableFor(int64_t batch) {
  if (const auto known = executables_.find(batch); known != executables_.end()) {
    return known->second.get();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const ir::Program program, ProgramFor(batch));
  PENSTOCK_ASSIGN_OR_RETURN(std::shared_ptr<runtime::Executable> executable,
                            client_->Compile(program));
  if (executables_.size() == kMaxExecutables) executables_.erase(executables_.begin());
  return (executables_[batch] = std::move(executable)).get();
}

absl::StatusOr<base::NamedArrays> ServingModel::Predict(const base::NamedArrays& inputs) {
  const auto predict = [&]() -> absl::StatusOr<base::NamedArrays> {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t batch, BatchOf(inputs));
    PENSTOCK_ASSIGN_OR_RETURN(runtime::Executable * executable, ExecutableFor(batch));
    runtime::Buffers arguments = leading_;
    for (size_t i = 0; i < variables_.size(); ++i) {
      arguments.push_back(variables_[i]);
      if (variables_[i].valid()) continue;
      const auto input = static_cast<size_t>(function_.arguments[i].input);
      PENSTOCK_ASSIGN_OR_RETURN(const Array array, inputs.Get(function_.inputs[input].name));
      PENSTOCK_ASSIGN_OR_RETURN(arguments.back(), client_->Put(array, client_->devices()[0]));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<runtime::Buffers> results,
                              executable->Execute({arguments}));
    base::NamedArrays outputs;
    for (size_t i = 0; i < function_.outputs.size(); ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(Array array,
                                results[0][static_cast<size_t>(function_.results[i])].Get());
      outputs.Append(function_.outputs[i].name, std::move(array));
    }
    return outputs;
  };
  absl::StatusOr<base::NamedArrays> outputs = predict();
  if (!outputs.ok()) return base::WithContext(outputs.status(), name_);
  return outputs;
}

}  // namespace penstock::keras
