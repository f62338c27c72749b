#include "penstock/save/saved_model/saved_model.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/save/quoted.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/saved_model.pb.h"
#include "penstock/save/saved_model/saved_model_graph.h"
#include "penstock/save/tensor_bundle.h"
#include "penstock/save/tensor_bundle_format.h"
#include "penstock/save/tensor_bundle_write.h"

namespace penstock::save {
namespace savedmodel {
namespace {

constexpr char kProgram[] = "saved_model.pb";
constexpr char kFingerprint[] = "fingerprint.pb";  // TensorFlow's hashes of the program
// A message may have 2 GiB. Parsed, it takes at most about 30 times its bytes; a large one consists
// mainly of constants.
constexpr int64_t kMaxProgram = 256 << 20;
constexpr int kMaxDepth = 64;           // of calls and identities on the way to the module
constexpr int64_t kMaxSteps = 1 << 22;  // nodes that are looked at on that way

std::string ProgramFile(absl::string_view uri) { return io::JoinPath(uri, kProgram); }
std::string VariablesPrefix(absl::string_view uri) {
  return io::JoinPath(io::JoinPath(uri, "variables"), "variables");
}

absl::StatusOr<std::string> ReadProgram(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file,
                            fs.OpenRandomAccess(ProgramFile(uri)));
  if (file->size() > kMaxProgram) {
    return absl::UnimplementedError(
        absl::StrCat(kProgram, " has ", file->size(), " bytes; the maximum is ", kMaxProgram));
  }
  std::string bytes(static_cast<size_t>(file->size()), '\0');
  PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file, 0, absl::MakeSpan(bytes)));
  return bytes;
}

// Makes the folder one that holds no SavedModel. The weights stay.
absl::Status RemoveProgram(io::FileSystem& fs, absl::string_view uri) {
  // The program last: without its fingerprint it is still a SavedModel.
  const absl::Status removed = fs.Remove(io::JoinPath(uri, kFingerprint));
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  return fs.Remove(ProgramFile(uri));
}

absl::StatusOr<SavedModel> ParseProgram(const std::string& bytes) {
  SavedModel model;
  if (!model.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat(kProgram, " is malformed"));
  }
  return model;
}

// The graph with the tag "serve", or the first one.
absl::StatusOr<const MetaGraph*> FindMetaGraph(const SavedModel& model) {
  for (const MetaGraph& meta : model.meta_graphs()) {
    const auto& tags = meta.meta_info_def().tags();
    if (tags.size() == 1 && tags[0] == "serve") return &meta;
  }
  if (model.meta_graphs_size() == 0) {
    return absl::DataLossError(absl::StrCat(kProgram, " has no graph"));
  }
  return &model.meta_graphs(0);
}

absl::StatusOr<ServingTensor> TensorOf(const NamedTensorInfo& entry) {
  ServingTensor tensor{.name = entry.key()};
  PENSTOCK_ASSIGN_OR_RETURN(tensor.dtype, tensor_bundle::DTypeOfTensorFlow(entry.value().dtype()));
  const Shape& shape = entry.value().tensor_shape();
  if (shape.unknown_rank()) return absl::UnimplementedError("its rank is unknown");
  if (shape.dim_size() > base::kMaxRank) {
    return absl::UnimplementedError(
        absl::StrCat("has rank ", shape.dim_size(), "; the maximum is ", base::kMaxRank));
  }
  std::vector<int64_t> dims;
  for (const auto& dim : shape.dim()) {
    if (dim.size() < -1) return absl::DataLossError("has a negative extent");
    dims.push_back(dim.size());
  }
  tensor.shape = base::Shape(dims);
  return tensor;
}

absl::StatusOr<std::vector<ServingTensor>> TensorsOf(
    const google::protobuf::RepeatedPtrField<NamedTensorInfo>& entries, absl::string_view what) {
  std::vector<ServingTensor> tensors;
  for (const NamedTensorInfo& entry : entries) {
    absl::StatusOr<ServingTensor> tensor = TensorOf(entry);
    if (!tensor.ok()) {
      return base::WithContext(tensor.status(), absl::StrCat(what, " ", Quoted(entry.key())));
    }
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

// ---- From a signature to its module ----

const AttrValue* FindAttr(const Node& node, absl::string_view key) {
  for (const Attr& attr : node.attr()) {
    if (attr.key() == key) return &attr.value();
  }
  return nullptr;
}

// Where a value comes from.
struct Origin {
  enum class Kind { kInput, kVariable, kModule } kind = Kind::kInput;
  std::string name = {};  // of the placeholder or of the variable
  const Node* module = nullptr;
  struct Scope* scope = nullptr;  // the module's
  int index = 0;                  // of the module's result
};

// The body of a function that was called, or the graph.
struct Scope {
  absl::flat_hash_map<absl::string_view, const Node*> nodes = {};
  absl::flat_hash_map<absl::string_view, Origin> arguments = {};
  const Function* function = nullptr;
};

// The parts of the name of a tensor: "node", "node:1" in a graph; "node:output:1" in a function.
struct TensorName {
  absl::string_view node;
  int index = 0;
};
std::optional<TensorName> ParseTensorName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, ':');
  TensorName out{.node = parts[0]};
  if (parts.size() > 3) return std::nullopt;
  if (parts.size() > 1 && (!absl::SimpleAtoi(parts.back(), &out.index) || out.index < 0)) {
    return std::nullopt;
  }
  return out;
}

bool PassesOn(absl::string_view op) {
  return op == "Identity" || op == "PreventGradient" || op == "StopGradient" ||
         op == "ReadVariableOp";
}
bool IsCall(absl::string_view op) {
  return op == "StatefulPartitionedCall" || op == "PartitionedCall";
}

class Finder {
 public:
  explicit Finder(const Graph& graph) {
    for (const Node& node : graph.node()) main_.nodes.emplace(node.name(), &node);
    for (const Function& function : graph.library().function()) {
      functions_.emplace(function.signature().name(), &function);
    }
  }

  Scope& main() { return main_; }

  absl::StatusOr<Origin> Find(Scope& scope, absl::string_view tensor, int depth = 0) {
    if (depth > kMaxDepth || ++steps_ > kMaxSteps) {
      return absl::UnimplementedError("the program has too many nested calls");
    }
    if (const auto argument = scope.arguments.find(tensor); argument != scope.arguments.end()) {
      return argument->second;
    }
    const std::optional<TensorName> name = ParseTensorName(tensor);
    const auto found = name.has_value() ? scope.nodes.find(name->node) : scope.nodes.end();
    if (found == scope.nodes.end()) {
      return absl::DataLossError(absl::StrCat("there is no tensor ", Quoted(tensor)));
    }
    const Node& node = *found->second;
    const absl::string_view op = node.op();
    if (op == "Placeholder") return Origin{.kind = Origin::Kind::kInput, .name = node.name()};
    if (op == "VarHandleOp") {
      const AttrValue* shared = FindAttr(node, "shared_name");
      return Origin{.kind = Origin::Kind::kVariable,
                    .name = shared == nullptr || shared->s().empty() ? node.name() : shared->s()};
    }
    if (op == "XlaCallModule") {
      return Origin{
          .kind = Origin::Kind::kModule, .module = &node, .scope = &scope, .index = name->index};
    }
    if (PassesOn(op) && node.input_size() > 0) return Find(scope, node.input(0), depth + 1);
    if (op == "IdentityN" && name->index < node.input_size()) {
      return Find(scope, node.input(name->index), depth + 1);
    }
    if (IsCall(op)) return FindInCall(scope, node, name->index, depth + 1);
    return absl::UnimplementedError(
        absl::StrCat("it needs TensorFlow's operation ", Quoted(op), " (", Quoted(node.name()),
                     "); only programs that are one StableHLO module can be run"));
  }

 private:
  absl::StatusOr<Origin> FindInCall(Scope& scope, const Node& node, int index, int depth) {
    PENSTOCK_ASSIGN_OR_RETURN(Scope * body, BodyOf(scope, node, depth));
    const Signature& signature = body->function->signature();
    if (index >= signature.output_arg_size()) {
      return absl::DataLossError(
          absl::StrCat("there is no output ", index, " of function ", Quoted(signature.name())));
    }
    for (const Text& returned : body->function->ret()) {
      if (returned.key() == signature.output_arg(index).name()) {
        return Find(*body, returned.value(), depth);
      }
    }
    return absl::DataLossError(
        absl::StrCat("function ", Quoted(signature.name()), " does not return an output"));
  }

  // The body of the function that a node calls, made once for each node.
  absl::StatusOr<Scope*> BodyOf(Scope& scope, const Node& node, int depth) {
    const auto known = bodies_.find({&scope, &node});
    if (known != bodies_.end()) return known->second.get();
    const AttrValue* called = FindAttr(node, "f");
    const auto found =
        called == nullptr ? functions_.end() : functions_.find(called->func().name());
    if (found == functions_.end()) {
      return absl::DataLossError(absl::StrCat(Quoted(node.name()), " calls an unknown function"));
    }
    auto made = std::make_unique<Scope>();
    made->function = found->second;
    for (const Node& inner : made->function->node_def()) made->nodes.emplace(inner.name(), &inner);
    steps_ += made->function->node_def_size();
    const auto& args = made->function->signature().input_arg();
    if (args.size() > node.input_size()) {
      return absl::DataLossError(absl::StrCat(Quoted(node.name()), " has too few operands"));
    }
    for (int i = 0; i < args.size(); ++i) {
      absl::StatusOr<Origin> origin = Find(scope, node.input(i), depth);
      // An operand that the module does not need may be anything.
      if (origin.ok()) made->arguments.emplace(args[i].name(), *std::move(origin));
    }
    // A call whose operand is its own result has got a body meanwhile, to which origins refer.
    return bodies_.try_emplace(std::pair<const Scope*, const Node*>(&scope, &node), std::move(made))
        .first->second.get();
  }

  Scope main_;
  absl::flat_hash_map<absl::string_view, const Function*> functions_;
  absl::flat_hash_map<std::pair<const Scope*, const Node*>, std::unique_ptr<Scope>> bodies_;
  int64_t steps_ = 0;
};

// Control dependencies ("^node") follow the operands.
bool IsControl(absl::string_view input) { return absl::StartsWith(input, "^"); }

// The module that computes all outputs; `results` receives the index of each.
absl::StatusOr<Origin> FindModule(Finder& finder, const SignatureDef& signature,
                                  std::vector<int>& results) {
  Origin module;
  for (const NamedTensorInfo& output : signature.outputs()) {
    PENSTOCK_ASSIGN_OR_RETURN(const Origin origin,
                              finder.Find(finder.main(), output.value().name()));
    if (origin.kind != Origin::Kind::kModule ||
        (module.module != nullptr &&
         (module.module != origin.module || module.scope != origin.scope))) {
      return absl::UnimplementedError(
          absl::StrCat("output ", Quoted(output.key()),
                       " is not computed by the one StableHLO module of the others"));
    }
    module = origin;
    results.push_back(origin.index);
  }
  if (module.module == nullptr) return absl::DataLossError("the signature has no outputs");
  return module;
}

absl::Status TakeArguments(Finder& finder, const Origin& module, const SignatureDef& signature,
                           ServingFunction& function) {
  for (const std::string& operand : module.module->input()) {
    if (IsControl(operand)) continue;
    PENSTOCK_ASSIGN_OR_RETURN(Origin origin, finder.Find(*module.scope, operand));
    ServingFunction::Argument argument;
    if (origin.kind == Origin::Kind::kVariable) {
      argument.variable = std::move(origin.name);
    } else if (origin.kind == Origin::Kind::kInput) {
      for (int i = 0; i < signature.inputs_size(); ++i) {
        const std::optional<TensorName> name = ParseTensorName(signature.inputs(i).value().name());
        if (name.has_value() && name->node == origin.name) argument.input = i;
      }
      if (argument.input < 0) {
        return absl::DataLossError(
            absl::StrCat("placeholder ", Quoted(origin.name), " is not an input of the signature"));
      }
    } else {
      return absl::UnimplementedError("its program has several StableHLO modules");
    }
    function.arguments.push_back(std::move(argument));
  }
  return absl::OkStatus();
}

absl::StatusOr<ServingFunction> FunctionOf(const MetaGraph& meta, const SignatureDef& signature) {
  ServingFunction function;
  PENSTOCK_ASSIGN_OR_RETURN(function.inputs, TensorsOf(signature.inputs(), "input"));
  PENSTOCK_ASSIGN_OR_RETURN(function.outputs, TensorsOf(signature.outputs(), "output"));
  Finder finder(meta.graph_def());
  PENSTOCK_ASSIGN_OR_RETURN(const Origin module, FindModule(finder, signature, function.results));
  PENSTOCK_RETURN_IF_ERROR(TakeArguments(finder, module, signature, function));
  const AttrValue* text = FindAttr(*module.module, "module");
  const AttrValue* version = FindAttr(*module.module, "version");
  if (text == nullptr || version == nullptr) {
    return absl::DataLossError(absl::StrCat(Quoted(module.module->name()), " has no module"));
  }
  function.module = text->s();
  function.version = static_cast<int>(std::clamp<int64_t>(version->i(), 0, INT32_MAX));
  if (const AttrValue* platforms = FindAttr(*module.module, "platforms"); platforms != nullptr) {
    function.platforms.assign(platforms->list().s().begin(), platforms->list().s().end());
  }
  return function;
}

absl::StatusOr<ServingFunction> ReadFunction(io::FileSystem& fs, absl::string_view uri,
                                             absl::string_view signature_name) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, ReadProgram(fs, uri));
  PENSTOCK_ASSIGN_OR_RETURN(const SavedModel model, ParseProgram(bytes));
  PENSTOCK_ASSIGN_OR_RETURN(const MetaGraph* meta, FindMetaGraph(model));
  std::vector<std::string> known;
  for (const NamedSignatureDef& signature : meta->signature_def()) {
    if (signature.key() == signature_name) {
      absl::StatusOr<ServingFunction> function = FunctionOf(*meta, signature.value());
      if (function.ok()) return function;
      return base::WithContext(function.status(),
                               absl::StrCat("signature ", Quoted(signature_name)));
    }
    if (known.size() < 20) known.push_back(Quoted(signature.key()));
  }
  return absl::NotFoundError(absl::StrCat("there is no signature ", Quoted(signature_name),
                                          "; there are: ", absl::StrJoin(known, ", ")));
}

// ---- The table of formats ----

bool Recognizes(const Probe& probe) {
  return probe.is_directory &&
         std::find(probe.entries.begin(), probe.entries.end(), kProgram) != probe.entries.end();
}

std::string TextOf(const std::vector<ServingTensor>& tensors) {
  std::vector<std::string> texts;
  for (const ServingTensor& tensor : tensors) {
    texts.push_back(
        absl::StrCat(tensor.name, ": ", base::DTypeName(tensor.dtype), tensor.shape.ToString()));
  }
  return absl::StrJoin(texts, ", ");
}

// A line for each signature: "x: float32[?,8] -> y: float32[?,2]".
absl::StatusOr<std::map<std::string, std::string>> DescribeSignatures(io::FileSystem& fs,
                                                                      absl::string_view uri) {
  std::map<std::string, std::string> lines;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, ReadProgram(fs, uri));
  PENSTOCK_ASSIGN_OR_RETURN(const SavedModel model, ParseProgram(bytes));
  PENSTOCK_ASSIGN_OR_RETURN(const MetaGraph* meta, FindMetaGraph(model));
  for (const NamedSignatureDef& signature : meta->signature_def()) {
    const auto inputs = TensorsOf(signature.value().inputs(), "input"),
               outputs = TensorsOf(signature.value().outputs(), "output");
    if (!inputs.ok() || !outputs.ok()) continue;  // texts, or a signature that returns nothing
    lines[absl::StrCat("signature ", signature.key())] =
        absl::StrCat(TextOf(*inputs), " -> ", TextOf(*outputs));
  }
  return lines;
}

absl::StatusOr<bool> HasVariables(io::FileSystem& fs, absl::string_view uri) {
  return IsTensorBundlePrefix(fs, VariablesPrefix(uri));
}

absl::StatusOr<Contents> InspectFolder(io::FileSystem& fs, absl::string_view uri) {
  Contents contents;
  PENSTOCK_ASSIGN_OR_RETURN(const bool has_variables, HasVariables(fs, uri));
  if (has_variables) {
    PENSTOCK_ASSIGN_OR_RETURN(contents, TensorBundleFormat().inspect(fs, VariablesPrefix(uri)));
  }
  contents.format = "SavedModel";
  absl::StatusOr<std::map<std::string, std::string>> lines = DescribeSignatures(fs, uri);
  if (!lines.ok()) return base::WithContext(lines.status(), io::DisplayName(uri));
  contents.metadata = *std::move(lines);
  return contents;
}

absl::StatusOr<Weights> ReadFolder(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const bool has_variables, HasVariables(fs, uri));
  if (!has_variables) return Weights();
  return TensorBundleFormat().read(fs, VariablesPrefix(uri));
}

// Weights alone make no SavedModel.
absl::Status CheckDestination(io::FileSystem&, absl::string_view uri) {
  return NeedsModel(uri, "a SavedModel");
}

}  // namespace
}  // namespace savedmodel

std::vector<ServingTensor> ServingTensors(absl::Span<const std::string> names,
                                          absl::Span<const ir::TensorType> types) {
  std::vector<ServingTensor> tensors;
  for (size_t i = 0; i < names.size(); ++i) {
    ServingTensor tensor{.name = names[i], .dtype = types[i].dtype};
    std::vector<int64_t> dims;
    for (const int64_t dim : types[i].shape) dims.push_back(std::max<int64_t>(dim, -1));
    tensor.shape = base::Shape(dims);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<ServingFunction> ReadServingFunction(io::FileSystem& fs, absl::string_view uri,
                                                    absl::string_view signature) {
  absl::StatusOr<ServingFunction> function = savedmodel::ReadFunction(fs, uri, signature);
  if (!function.ok()) return base::WithContext(function.status(), io::DisplayName(uri));
  return function;
}

absl::StatusOr<base::Array> FindVariable(const Weights& weights, absl::string_view variable) {
  const base::Array* found = nullptr;
  for (const auto& [name, array] : weights.arrays) {
    const auto other = weights.variables.find(name);
    if (other != weights.variables.end() && other->second == variable) return array;
    if (name == variable) found = &array;
  }
  if (found != nullptr) return *found;
  return absl::NotFoundError(absl::StrCat("there is no variable ", Quoted(variable)));
}

absl::Status WriteSavedModel(io::FileSystem& fs, absl::string_view uri,
                             const SavedModelContents& contents, const WriteOptions& options) {
  const auto write = [&]() -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(savedmodel::Messages messages, savedmodel::MakeMessages(contents));
    base::NamedArrays arrays;
    for (const SavedModelContents::Variable& variable : contents.variables) {
      arrays.Append(variable.name, variable.value);
    }
    PENSTOCK_ASSIGN_OR_RETURN(const bool exists, SavedModelExists(fs, uri));
    absl::StatusOr<std::string> old = absl::NotFoundError("no program");
    if (exists) old = savedmodel::ReadProgram(fs, uri);
    if (exists && !old.ok() && !absl::IsUnimplemented(old.status())) return old.status();
    const bool same = old.ok() && *old == messages.saved_model;
    tensor_bundle::BundleOptions bundle{.max_shard_bytes = options.max_shard_bytes,
                                        .object_graph = std::move(messages.object_graph)};
    const std::string variables = savedmodel::VariablesPrefix(uri);
    // Of the weights whose program was removed.
    absl::StatusOr<std::string> old_index = absl::NotFoundError("no program was removed");
    if (exists && !same) {
      bundle.before_index = [&] {
        old_index = io::ReadFile(fs, tensor_bundle::IndexFile(variables));
        return savedmodel::RemoveProgram(fs, uri);
      };
    }
    const absl::Status weights = tensor_bundle::WriteBundle(fs, variables, arrays, bundle);
    if (old.ok() && old_index.ok() && tensor_bundle::IsDefiniteFailure(weights)) {
      // A full disk: the old weights are still there, and so is their program again.
      const absl::StatusOr<std::string> index =
          io::ReadFile(fs, tensor_bundle::IndexFile(variables));
      if (index.ok() && *index == *old_index) {
        io::WriteFile(fs, savedmodel::ProgramFile(uri), *old).IgnoreError();
      }
    }
    PENSTOCK_RETURN_IF_ERROR(weights);
    if (same) return absl::OkStatus();
    return io::WriteFile(fs, savedmodel::ProgramFile(uri), messages.saved_model);
  };
  return base::WithContext(write(), io::DisplayName(uri));
}

absl::Status CheckSavedModelDestination(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFile(fs, savedmodel::ProgramFile(uri)));
  return io::CheckWritableFile(fs, tensor_bundle::IndexFile(savedmodel::VariablesPrefix(uri)));
}

absl::StatusOr<bool> SavedModelExists(io::FileSystem& fs, absl::string_view uri) {
  return fs.Exists(savedmodel::ProgramFile(uri));
}

Format SavedModelFormat() {
  return {.name = "SavedModel",
          .extensions = {".savedmodel"},
          .recognizes = savedmodel::Recognizes,
          .inspect = savedmodel::InspectFolder,
          .read = savedmodel::ReadFolder,
          .write = [](io::FileSystem& fs, absl::string_view uri, const Weights&,
                      const WriteOptions&) { return savedmodel::CheckDestination(fs, uri); },
          .holds_metadata = true,
          .main_file = savedmodel::ProgramFile,
          .check_destination = savedmodel::CheckDestination};
}

}  // namespace penstock::save
