// Keras's description of a network as that of nn::Network.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/exceptions.h"
#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"
#include "penstock/keras/keras_config.h"
#include "penstock/nn/json_depth.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/policy.h"

namespace penstock::keras {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kInputLayer[] = "InputLayer";

std::string Shown(const Json& value) {
  constexpr size_t kShown = 200;
  const std::string text = base::DumpJson(value);
  return text.size() > kShown ? absl::StrCat(text.substr(0, kShown), "...") : text;
}

absl::Status Wrong(absl::string_view layer, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("layer '", layer, "': ", what));
}

bool IsModelClass(const std::string& class_name) {
  return class_name == "Functional" || class_name == "Sequential" || class_name == "Model";
}

// Whether a layer of the file is an operation (keras.ops), such as the `+` of `x + 1`.
bool IsOperation(const Json& layer) {
  const auto module = layer.find("module");
  return module != layer.end() && module->is_string() &&
         (absl::StartsWith(module->get<std::string>(), "keras.src.ops") ||
          absl::StartsWith(module->get<std::string>(), "keras.ops"));
}

// Whether the value of an option is a layer, {"class_name", "config": {"name", ...}}. Layers that
// are given as activations are functions here.
bool IsLayer(absl::string_view key, const Json& value) {
  if (absl::EndsWith(key, "activation") || key == "dtype" || !value.is_object()) return false;
  const auto class_name = value.find("class_name"), config = value.find("config");
  return class_name != value.end() && class_name->is_string() && config != value.end() &&
         config->is_object() && (config->contains("name") || config->contains("layers"));
}

// Options that Keras has and Penstock lacks, with the value that gives Penstock's behavior.
struct KerasOnlyOption {
  const char* key;
  const char* value;  // JSON; nullptr: any value, because it has no effect on what is computed
};
constexpr KerasOnlyOption kKerasOnlyOptions[] = {
    {"data_format", "\"channels_last\""},
    {"seed", nullptr},  // random numbers follow from the training's seed
    {"sparse", "false"},
    {"ragged", "false"},
    {"autocast", "true"},
    {"renorm", "false"},
    {"renorm_momentum", nullptr},
    {"rms_scaling", "false"},
    {"keepdims", "false"},
    {"groups", "1"},
    {"antialias", "false"},
    {"pad_to_aspect_ratio", "false"},
    {"crop_to_aspect_ratio", "false"},
    // Keras 2.
    {"batch_input_shape", nullptr},
    {"time_major", "false"},
    {"implementation", nullptr},
    {"input_length", nullptr},
    {"fused", nullptr},
    {"kernel_initializer", nullptr},  // of separable convolutions, which have two others
    {"kernel_regularizer", nullptr},
    {"kernel_constraint", nullptr},
};

// A reference to an output of a call of a layer.
struct Reference {
  std::string layer;
  int64_t call = 0;
  int64_t output = 0;
};

// A call of a layer: its arguments in Keras's order, the inputs apart from numbers.
struct Call {
  std::vector<Reference> inputs;
  std::vector<std::pair<size_t, Json>> numbers;  // with the number of inputs before each
  std::map<std::string, Json> options;           // arguments that are options here
};

struct KerasLayer {
  const Json* json;
  std::string name, class_name;
  std::vector<Call> calls;
};

class Translator {
 public:
  explicit Translator(const nn::CustomLayers& custom) : custom_(custom) {}

  absl::StatusOr<Json> Translate(const Json& model) {
    std::vector<std::string> unknown;
    FindUnknown(model, unknown);
    if (!unknown.empty()) return UnknownLayers(unknown);
    std::map<std::string, int> policies;
    CountPolicies(model, policies);
    for (const auto& [name, count] : policies) {
      if (policy_.empty() || count > policies[policy_]) policy_ = name;
    }
    PENSTOCK_ASSIGN_OR_RETURN(Json network, Model(model, IsFrozen(model.at("config"))));
    if (!policy_.empty()) network["dtype"] = policy_;
    return network;
  }

 private:
  // ---- The whole file ----

  // Calls `visit` for each layer inside a layer: those of a model, and those among its options.
  template <typename Visit>
  static void VisitInner(const Json& layer, Visit visit) {
    const auto config = layer.find("config");
    if (config == layer.end() || !config->is_object()) return;
    for (const auto& [key, value] : config->items()) {
      if (IsLayer(key, value)) visit(value);
      if (key != "layers" || !value.is_array()) continue;
      for (const Json& inner : value) visit(inner);
    }
  }

  bool IsKnown(const Json& layer, const std::string& class_name) {
    if (IsModelClass(class_name)) return layer.at("config").contains("layers");
    if (class_name == kInputLayer) return true;
    if (IsOperation(layer)) return IsKnownOperation(class_name);
    return DefaultsOf(class_name).ok();
  }

  // Adds "class 'Foo' (layer 'bar')" for each layer of an unknown class.
  void FindUnknown(const Json& layer, std::vector<std::string>& unknown) {
    const std::string class_name = layer.at("class_name");
    if (!IsKnown(layer, class_name)) {
      const auto module = layer.find("module");
      const bool operation = IsOperation(layer);
      std::string name = layer.at("config").is_object() ? layer["config"].value("name", "") : "";
      unknown.push_back(absl::StrCat(operation ? module->get<std::string>() + "." : "", class_name,
                                     " (layer '", name.empty() ? layer.value("name", "") : name,
                                     "')"));
      return;
    }
    VisitInner(layer, [&](const Json& inner) { FindUnknown(inner, unknown); });
  }

  static absl::Status UnknownLayers(const std::vector<std::string>& unknown) {
    constexpr size_t kShown = 20;
    const size_t shown = std::min(unknown.size(), kShown);
    std::string list = absl::StrJoin(unknown.begin(), unknown.begin() + shown, ", ");
    if (shown < unknown.size()) {
      absl::StrAppend(&list, ", and ", unknown.size() - shown, " more");
    }
    return absl::InvalidArgumentError(
        absl::StrCat("Penstock has no counterpart of these layers of the file: ", list,
                     "; pass custom layers in LoadOptions.custom_layers"));
  }

  void CountPolicies(const Json& layer, std::map<std::string, int>& policies) {
    const Json& config = layer.at("config");
    const std::string class_name = layer.at("class_name");
    if (class_name != kInputLayer && !IsModelClass(class_name) && config.contains("dtype")) {
      const absl::StatusOr<nn::Policy> policy = nn::Policy::FromJson(config["dtype"]);
      if (policy.ok()) ++policies[policy->name];
    }
    VisitInner(layer, [&](const Json& inner) { CountPolicies(inner, policies); });
  }

  static bool IsFrozen(const Json& config) {
    const auto trainable = config.find("trainable");
    return trainable != config.end() && *trainable == false;
  }

  // ---- Layers ----

  struct Defaults {
    Json options;
    nn::KerasForm form;
  };

  // The name here of a class in the file; Keras saves some classes by another name.
  static std::string OwnName(const std::string& class_name) {
    static const auto* const kOwnNames = [] {
      auto* names = new std::map<std::string, std::string>;
      for (const std::string& own : nn::LayerClassNames()) {
        const auto layer = nn::LayerFromConfig(own, "", Json::object());
        if (!layer.ok()) continue;
        const std::string theirs = layer->body().keras_form().class_name;
        if (!theirs.empty()) (*names)[theirs] = own;
      }
      return names;
    }();
    const auto own = kOwnNames->find(class_name);
    return own == kOwnNames->end() ? class_name : own->second;
  }

  absl::StatusOr<const Defaults*> DefaultsOf(const std::string& class_name) {
    if (const auto found = defaults_.find(class_name); found != defaults_.end()) {
      return &found->second;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const nn::Layer layer, nn::LayerFromConfig(OwnName(class_name), "",
                                                                         Json::object(), &custom_));
    Defaults defaults{nn::LayerConfig(layer), layer.body().keras_form()};
    return &defaults_.emplace(class_name, std::move(defaults)).first->second;
  }

  // Operations are the layers that take a number instead of their second input, and those of one
  // input.
  bool IsKnownOperation(const std::string& class_name) {
    if (IsUnary(class_name)) return true;
    const auto layer = nn::LayerFromConfig(class_name, "", {{"constant", 1.0}});
    return layer.ok() && layer->body().keras_form().module == nn::kKerasOperations;
  }

  bool IsUnary(const std::string& class_name) {
    const auto defaults = DefaultsOf(class_name);
    return defaults.ok() && !(*defaults)->form.operation_options.empty();
  }

  absl::Status KerasOnly(const KerasLayer& layer, const std::string& key, const Json& value) {
    const auto option = std::find_if(std::begin(kKerasOnlyOptions), std::end(kKerasOnlyOptions),
                                     [&](const auto& row) { return key == row.key; });
    const std::string what =
        absl::StrCat(layer.class_name, "'s option '", key, "' is ", Shown(value));
    if (option == std::end(kKerasOnlyOptions)) {
      return Wrong(layer.name, absl::StrCat(what, ", an option that Penstock does not support"));
    }
    if (option->value == nullptr || value == Json::parse(option->value)) return absl::OkStatus();
    return Wrong(layer.name,
                 absl::StrCat(what, "; Penstock has only what ", option->value, " means"));
  }

  // The options of a layer, in Penstock's form. `frozen`: a model around it is.
  absl::StatusOr<Json> Options(const KerasLayer& layer, bool frozen) {
    const Json& config = layer.json->at("config");
    if (!config.is_object()) return Wrong(layer.name, "its config is not an object");
    PENSTOCK_ASSIGN_OR_RETURN(const Defaults* defaults, DefaultsOf(layer.class_name));
    Json options = Json::object();
    for (const auto& [given, value] : config.items()) {
      const bool old_slope = given == "alpha" && !defaults->options.contains("alpha") &&
                             defaults->options.contains("negative_slope");
      const std::string key = old_slope ? "negative_slope" : given;
      if (key == "name") continue;
      if (key == "trainable") {
        if (value == false || frozen) options[key] = value;
      } else if (key == "dtype") {
        PENSTOCK_RETURN_IF_ERROR(Dtype(layer, value, options));
      } else if (!defaults->options.contains(key) && !IsLayer(key, value) &&
                 !custom_.contains(layer.class_name)) {
        if (!value.is_null()) PENSTOCK_RETURN_IF_ERROR(KerasOnly(layer, key, value));
      } else {
        PENSTOCK_ASSIGN_OR_RETURN(
            options[key], Option(key, value, defaults->options, frozen || IsFrozen(config)));
      }
    }
    return options;
  }

  absl::Status Dtype(const KerasLayer& layer, const Json& value, Json& options) {
    if (value.is_null()) return absl::OkStatus();
    const absl::StatusOr<nn::Policy> policy = nn::Policy::FromJson(value);
    if (!policy.ok()) {
      // A layer of integers (Discretization) computes them under every policy.
      const bool integers = value.is_string() && absl::StrContains(value.get<std::string>(), "int");
      return integers ? absl::OkStatus() : base::WithContext(policy.status(), layer.name);
    }
    if (policy->name != policy_) options["dtype"] = policy->name;
    return absl::OkStatus();
  }

  absl::StatusOr<Json> Option(const std::string& key, const Json& value, const Json& defaults,
                              bool frozen) {
    if (IsLayer(key, value)) {
      PENSTOCK_ASSIGN_OR_RETURN(KerasLayer inner, Read(value));
      PENSTOCK_ASSIGN_OR_RETURN(Json row, SharedLayer(inner, frozen));
      row["config"]["name"] = inner.name;
      return row;
    }
    if (value.is_object() && value.contains("class_name") && value.contains("config")) {
      Json object = {{"class_name", value["class_name"]}, {"config", value["config"]}};
      if (!absl::EndsWith(key, "activation") || !object["config"].is_object()) return object;
      for (const char* of_layer : {"name", "trainable", "dtype"}) object["config"].erase(of_layer);
      return object;
    }
    // Keras 2 has a list of one axis.
    const auto expected = defaults.find(key);
    if (value.is_array() && value.size() == 1 && expected != defaults.end() &&
        expected->is_number_integer()) {
      return value[0];
    }
    return value;
  }

  // {"class_name", "config"}.
  absl::StatusOr<Json> Layer(const KerasLayer& layer, bool frozen) {
    Json row = Json::object();
    if (IsModelClass(layer.class_name)) {
      const Json& config = layer.json->at("config");
      frozen = frozen || IsFrozen(config);
      PENSTOCK_ASSIGN_OR_RETURN(Json network, Model(*layer.json, frozen));
      row["class_name"] = network.contains("sequential") ? "Sequential" : "Functional";
      row["config"]["network"] = std::move(network);
      if (IsFrozen(config)) row["config"]["trainable"] = false;
    } else {
      row["class_name"] = OwnName(layer.class_name);
      PENSTOCK_ASSIGN_OR_RETURN(row["config"], Options(layer, frozen));
    }
    return row;
  }

  // The same for a layer that may be at several places of the file.
  absl::StatusOr<Json> SharedLayer(const KerasLayer& layer, bool frozen) {
    const auto shared = layer.json->find("shared_object_id");
    if (shared == layer.json->end() || !shared->is_number_integer()) return Layer(layer, frozen);
    const int64_t id = shared->get<int64_t>();
    if (const auto found = shared_.find(id); found != shared_.end()) return found->second;
    PENSTOCK_ASSIGN_OR_RETURN(Json row, Layer(layer, frozen));
    row["shared"] = static_cast<int64_t>(shared_.size());
    return shared_.emplace(id, std::move(row)).first->second;
  }

  // An operation becomes the layer of the same name.
  absl::StatusOr<Json> Operation(const KerasLayer& layer) {
    if (IsUnary(layer.class_name)) return UnaryOperation(layer);
    // Operations know nothing of masks.
    Json row = {{"class_name", layer.class_name}, {"config", {{"use_masks", false}}}};
    for (const Call& call : layer.calls) {
      if (call.numbers.empty()) continue;
      const bool swapped = call.numbers[0].first == 0 && layer.class_name == "Subtract";
      if (layer.calls.size() > 1 || call.numbers.size() > 1 || call.inputs.size() != 1 || swapped) {
        return Wrong(layer.name, absl::StrCat("Penstock has no operation ", layer.class_name,
                                              " of these arguments: one number, after an input"));
      }
      row["config"]["constant"] = call.numbers[0].second;
    }
    return row;
  }

  absl::StatusOr<Json> UnaryOperation(const KerasLayer& layer) {
    PENSTOCK_ASSIGN_OR_RETURN(const Defaults* defaults, DefaultsOf(layer.class_name));
    Json row = {{"class_name", layer.class_name}, {"config", Json::object()}};
    for (const std::string& key : defaults->form.operation_options) {
      const auto value = layer.json->at("config").find(key);
      if (value == layer.json->at("config").end() || !value->is_number_integer()) {
        return Wrong(layer.name, absl::StrCat("Penstock has no operation ", layer.class_name,
                                              " without a number as '", key, "'"));
      }
      row["config"][key] = *value;
    }
    for (const Call& call : layer.calls) {
      if (call.numbers.empty() && call.inputs.size() == 1) continue;
      return Wrong(layer.name, absl::StrCat(layer.class_name, " takes one input"));
    }
    return row;
  }

  // ---- Calls ----

  static absl::StatusOr<Reference> ReadReference(const Json& history) {
    if (!history.is_array() || history.size() < 3 || !history[0].is_string() ||
        !history[1].is_number_integer() || !history[2].is_number_integer()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a tensor is [layer, call, output], got ", Shown(history)));
    }
    return Reference{history[0].get<std::string>(), history[1].get<int64_t>(),
                     history[2].get<int64_t>()};
  }

  // Keras 2's form of a tensor, and of tensors in input_layers: ["conv", 0, 0].
  static bool IsReference(const Json& value) {
    return value.is_array() && value.size() >= 3 && value[0].is_string() &&
           value[1].is_number_integer();
  }

  // Adds the inputs and numbers of an argument, in the order in which Keras flattens it.
  static absl::Status AddArgument(const Json& value, Call& call) {
    if (value.is_null()) return absl::OkStatus();
    if (IsReference(value)) {
      PENSTOCK_ASSIGN_OR_RETURN(Reference reference, ReadReference(value));
      call.inputs.push_back(std::move(reference));
      return absl::OkStatus();
    }
    if (value.is_array()) {
      for (const Json& element : value) PENSTOCK_RETURN_IF_ERROR(AddArgument(element, call));
      return absl::OkStatus();
    }
    if (!value.is_object()) {
      call.numbers.emplace_back(call.inputs.size(), value);
      return absl::OkStatus();
    }
    const std::string kind = value.value("class_name", "");
    if (kind == "__keras_tensor__") {
      PENSTOCK_ASSIGN_OR_RETURN(Reference reference,
                                ReadReference(value.at("config").at("keras_history")));
      call.inputs.push_back(std::move(reference));
      return absl::OkStatus();
    }
    if (kind == "__tuple__") return AddArgument(value.at("config").at("items"), call);
    std::map<std::string, const Json*> sorted;
    for (const auto& [key, element] : value.items()) sorted[key] = &element;
    for (const auto& [key, element] : sorted) {
      PENSTOCK_RETURN_IF_ERROR(AddArgument(*element, call));
    }
    return absl::OkStatus();
  }

  // Arguments that are given by name.
  absl::Status AddNamed(const KerasLayer& layer, const nn::KerasForm& form, const Json& named,
                        Call& call) {
    std::map<std::string, Call> inputs;
    for (const auto& [key, value] : named.items()) {
      if (value.is_null() || key == "training" || key == form.true_for_floats) continue;
      Call argument;
      PENSTOCK_RETURN_IF_ERROR(AddArgument(value, argument));
      const auto& options = form.call_options;
      const auto& names = form.arguments;
      if (std::find(options.begin(), options.end(), key) != options.end()) {
        call.options[key] = value;
      } else if (key == "inputs" || key == "x" || key == "query" || key == "x1" || key == "x2" ||
                 std::find(names.begin(), names.end(), key) != names.end()) {
        inputs[key] = std::move(argument);
      } else {
        return Wrong(layer.name, absl::StrCat("its call has the argument '", key, "', ",
                                              Shown(value), ", which Penstock does not support"));
      }
    }
    std::vector<std::string> order = {"inputs", "x", "query", "x1", "x2"};
    order.insert(order.end(), form.arguments.begin(), form.arguments.end());
    for (const std::string& key : order) {
      for (const Reference& input : inputs[key].inputs) call.inputs.push_back(input);
      for (const auto& [place, number] : inputs[key].numbers) {
        call.numbers.emplace_back(call.inputs.size(), number);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Call> ReadCall(const KerasLayer& layer, const nn::KerasForm& form,
                                const Json& node) {
    Call call;
    if (node.is_object()) {
      PENSTOCK_RETURN_IF_ERROR(AddArgument(node.at("args"), call));
      PENSTOCK_RETURN_IF_ERROR(AddNamed(layer, form, node.at("kwargs"), call));
    } else {
      // Keras 2: a tensor or a list of them, each with the arguments by name.
      const Json inputs = IsReference(node) ? Json::array({node}) : node;
      for (const Json& input : inputs) {
        PENSTOCK_RETURN_IF_ERROR(AddArgument(input, call));
        if (!IsReference(input) || input.size() < 4 || input[3].empty()) continue;
        PENSTOCK_RETURN_IF_ERROR(AddNamed(layer, form, input[3], call));
      }
    }
    if (!call.numbers.empty() && !IsOperation(*layer.json)) {
      return Wrong(layer.name, absl::StrCat("it is called with ", Shown(call.numbers[0].second),
                                            " where Penstock takes inputs only"));
    }
    return call;
  }

  // ---- Models ----

  // A layer of the file, with its calls.
  absl::StatusOr<KerasLayer> Read(const Json& json) {
    KerasLayer layer{.json = &json, .name = "", .class_name = json.at("class_name"), .calls = {}};
    const Json& config = json.at("config");
    layer.name = json.contains("name") ? json["name"] : config.value("name", Json(""));
    const auto nodes = json.find("inbound_nodes");
    if (nodes == json.end()) return layer;
    nn::KerasForm form;
    if (layer.class_name != kInputLayer && !IsModelClass(layer.class_name) && !IsOperation(json)) {
      PENSTOCK_ASSIGN_OR_RETURN(const Defaults* defaults, DefaultsOf(layer.class_name));
      form = defaults->form;
    }
    for (const Json& node : *nodes) {
      PENSTOCK_ASSIGN_OR_RETURN(Call call, ReadCall(layer, form, node));
      layer.calls.push_back(std::move(call));
    }
    return layer;
  }

  absl::StatusOr<Json> Model(const Json& model, bool frozen) {
    const Json& config = model.at("config");
    const bool sequential = model.at("class_name") == "Sequential";
    return sequential ? Sequential(config, frozen) : Functional(config, frozen);
  }

  static absl::StatusOr<Json> InputRow(const KerasLayer& layer, const Json& shape,
                                       const Json& config) {
    std::vector<int64_t> extents;
    if (!shape.is_array() || shape.empty()) {
      return Wrong(layer.name, absl::StrCat("the shape of an input is a list, got ", Shown(shape)));
    }
    for (size_t i = 1; i < shape.size(); ++i) {
      if (!shape[i].is_number_integer() || shape[i].get<int64_t>() <= 0) {
        return Wrong(layer.name,
                     absl::StrCat("the input's shape is ", Shown(shape),
                                  ", but Penstock compiles for known extents after the batch; save "
                                  "the model with an input of a fixed shape"));
      }
      extents.push_back(shape[i].get<int64_t>());
    }
    for (const char* key : {"sparse", "ragged", "optional"}) {
      if (config.contains(key) && config[key] == true) {
        return Wrong(layer.name, absl::StrCat("the input's option '", key,
                                              "' is true, which Penstock does not support"));
      }
    }
    const std::string dtype = config.contains("dtype") && config["dtype"].is_string()
                                  ? config["dtype"].get<std::string>()
                                  : "float32";
    return Json{{"name", layer.name},
                {"class_name", kInputLayer},
                {"config", {{"shape", extents}, {"dtype", dtype}}}};
  }

  // The shape of an InputLayer, or of the first layer of a Sequential model in Keras 2.
  static Json ShapeOf(const Json& config) {
    for (const char* key : {"batch_shape", "batch_input_shape"}) {
      if (config.contains(key)) return config[key];
    }
    return Json();
  }

  absl::StatusOr<Json> Sequential(const Json& config, bool frozen) {
    // Keras 1 has the list of layers alone.
    const Json& layers = config.is_array() ? config : config.at("layers");
    Json rows = Json::array();
    for (const Json& json : layers) {
      PENSTOCK_ASSIGN_OR_RETURN(KerasLayer layer, Read(json));
      const Json& options = json.at("config");
      if (layer.class_name == kInputLayer || rows.empty()) {
        KerasLayer input = layer;
        Json shape = ShapeOf(options);
        if (shape.is_null() && config.is_object())
          shape = config.value("build_input_shape", Json());
        if (shape.is_null()) {
          return Wrong(layer.name,
                       "the Sequential model has no input shape; save it after it is built");
        }
        if (layer.class_name != kInputLayer) input.name += "_input";
        if (!rows.empty()) return Wrong(layer.name, "an InputLayer is not the first layer");
        PENSTOCK_ASSIGN_OR_RETURN(Json row, InputRow(input, shape, options));
        rows.push_back(std::move(row));
        if (layer.class_name == kInputLayer) continue;
      }
      PENSTOCK_ASSIGN_OR_RETURN(Json row, SharedLayer(layer, frozen));
      row["name"] = layer.name;
      row["inputs"] = {static_cast<int64_t>(rows.size()) - 1};
      rows.push_back(std::move(row));
    }
    if (rows.empty()) return absl::InvalidArgumentError("the Sequential model has no layers");
    const int64_t last = static_cast<int64_t>(rows.size()) - 1;
    return Json{{"name", config.is_object() ? config.value("name", "sequential") : "sequential"},
                {"layers", std::move(rows)},
                {"inputs", {0}},
                {"outputs", {last}},
                {"sequential", true}};
  }

  // The layers of a functional model while its calls are put in order.
  struct Graph {
    std::vector<KerasLayer> layers;
    std::map<std::string, size_t> by_name;
    std::vector<std::vector<int64_t>> rows;  // [layer][call]: index of its row; -1: not there yet
    // Number of the first call of each layer: Keras counts calls of a nested model from 1 in some
    // places.
    std::vector<int64_t> first_call;
  };

  absl::StatusOr<Json> RowOf(const Graph& graph, const Reference& input, int64_t first_call) const {
    const auto found = graph.by_name.find(input.layer);
    if (found == graph.by_name.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model has no layer '", input.layer, "', whose output is used"));
    }
    const std::vector<int64_t>& rows = graph.rows[found->second];
    const int64_t call = input.call - first_call;
    if (input.call < first_call || call >= static_cast<int64_t>(rows.size())) {
      return absl::InvalidArgumentError(absl::StrCat("layer '", input.layer, "' has ", rows.size(),
                                                     " calls, but call ", call, " is used"));
    }
    if (rows[call] < 0) return Json();
    return input.output == 0 ? Json(rows[call]) : Json::array({rows[call], input.output});
  }

  absl::StatusOr<Graph> ReadGraph(const Json& config) {
    Graph graph;
    for (const Json& json : config.at("layers")) {
      PENSTOCK_ASSIGN_OR_RETURN(KerasLayer layer, Read(json));
      if (!graph.by_name.emplace(layer.name, graph.layers.size()).second) {
        return Wrong(layer.name, "the model has two layers of that name");
      }
      const bool input = layer.class_name == kInputLayer;
      graph.rows.emplace_back(input ? 1 : layer.calls.size(), -1);
      graph.layers.push_back(std::move(layer));
    }
    graph.first_call.assign(graph.layers.size(), 0);
    return graph;
  }

  // Keras 2 counts the calls of a nested model from 1 if the model has a call from its own inputs.
  static void CountFromFirstUse(const Json& config, Graph& graph) {
    std::vector<int64_t> first(graph.layers.size(), INT64_MAX);
    const auto use = [&](const Reference& input) {
      const auto found = graph.by_name.find(input.layer);
      if (found != graph.by_name.end()) {
        first[found->second] = std::min(first[found->second], input.call);
      }
    };
    for (const KerasLayer& layer : graph.layers) {
      for (const Call& call : layer.calls)
        std::for_each(call.inputs.begin(), call.inputs.end(), use);
    }
    Call outputs;
    if (AddArgument(config.at("output_layers"), outputs).ok()) {
      std::for_each(outputs.inputs.begin(), outputs.inputs.end(), use);
    }
    for (size_t i = 0; i < first.size(); ++i) {
      if (IsModelClass(graph.layers[i].class_name) && first[i] == 1) graph.first_call[i] = 1;
    }
  }

  // Adds the rows of a call's inputs to `inputs`, after those that it has. Returns the layer to
  // wait for, if the row of an input is not there yet.
  absl::StatusOr<std::optional<size_t>> AddInputs(const Graph& graph, const KerasLayer& layer,
                                                  const Call& call, Json& inputs) {
    while (inputs.size() < call.inputs.size()) {
      const Reference& input = call.inputs[inputs.size()];
      const auto found = graph.by_name.find(input.layer);
      const int64_t first = found == graph.by_name.end() ? 0 : graph.first_call[found->second];
      absl::StatusOr<Json> row = RowOf(graph, input, first);
      if (!row.ok()) return Wrong(layer.name, row.status().message());
      if (row->is_null()) return found->second;
      inputs.push_back(*std::move(row));
    }
    return std::nullopt;
  }

  absl::StatusOr<Json> Described(const KerasLayer& layer, bool frozen) {
    if (layer.class_name == kInputLayer) {
      const Json& config = layer.json->at("config");
      return InputRow(layer, ShapeOf(config), config);
    }
    if (IsOperation(*layer.json)) return Operation(layer);
    PENSTOCK_ASSIGN_OR_RETURN(Json row, SharedLayer(layer, frozen));
    for (size_t i = 0; i < layer.calls.size(); ++i) {
      if (layer.calls[i].options != layer.calls[0].options) {
        return Wrong(layer.name, "its calls differ in arguments that are options in Penstock");
      }
      for (const auto& [key, value] : layer.calls[i].options) row["config"][key] = value;
    }
    return row;
  }

  absl::StatusOr<Json> Functional(const Json& config, bool frozen) {
    PENSTOCK_ASSIGN_OR_RETURN(Graph graph, ReadGraph(config));
    const bool legacy = std::any_of(graph.layers.begin(), graph.layers.end(), [](const auto& l) {
      const auto nodes = l.json->find("inbound_nodes");
      return nodes != l.json->end() && nodes->is_array() && !nodes->empty() &&
             nodes->front().is_array();
    });
    if (legacy) CountFromFirstUse(config, graph);
    PENSTOCK_ASSIGN_OR_RETURN(Json rows, Rows(graph, frozen));
    Json network = {{"name", config.value("name", "model")}, {"layers", std::move(rows)}};
    for (const char* side : {"input", "output"}) {
      Call ends;
      PENSTOCK_RETURN_IF_ERROR(AddArgument(config.at(absl::StrCat(side, "_layers")), ends));
      Json& list = network[absl::StrCat(side, "s")] = Json::array();
      for (const Reference& end : ends.inputs) {
        const auto found = graph.by_name.find(end.layer);
        // Keras 3 counts calls of a functional model from 1 here, and from 0 between layers.
        const bool from_one = !legacy && found != graph.by_name.end() &&
                              IsModelClass(graph.layers[found->second].class_name) &&
                              graph.layers[found->second].class_name != "Sequential";
        const int64_t first = found == graph.by_name.end() ? 0
                              : from_one                   ? 1
                                                           : graph.first_call[found->second];
        PENSTOCK_ASSIGN_OR_RETURN(Json row, RowOf(graph, end, first));
        list.push_back(std::move(row));
      }
    }
    return network;
  }

  // The rows of all calls, each after those of its inputs. A layer's calls keep their order.
  absl::StatusOr<Json> Rows(Graph& graph, bool frozen) {
    const size_t count = graph.layers.size();
    Json rows = Json::array();
    std::vector<size_t> next(count, 0);               // [layer]: its first call without a row
    std::vector<Json> inputs(count, Json::array());   // of that call, those that are there
    std::vector<std::vector<size_t>> waiting(count);  // [layer]: layers that wait for its rows
    std::deque<size_t> ready;
    for (size_t i = 0; i < count; ++i) ready.push_back(i);
    while (!ready.empty()) {
      const size_t i = ready.front();
      ready.pop_front();
      const KerasLayer& layer = graph.layers[i];
      while (next[i] < graph.rows[i].size()) {
        Json row = {{"name", layer.name}, {"class_name", layer.class_name}};
        if (layer.class_name != kInputLayer) {
          PENSTOCK_ASSIGN_OR_RETURN(const std::optional<size_t> waits,
                                    AddInputs(graph, layer, layer.calls[next[i]], inputs[i]));
          if (waits.has_value()) {
            waiting[*waits].push_back(i);
            break;
          }
        }
        if (next[i] == 0) {  // later calls are recognized by the name
          PENSTOCK_ASSIGN_OR_RETURN(row, Described(layer, frozen));
          row["name"] = layer.name;
        }
        if (layer.class_name != kInputLayer)
          row["inputs"] = std::exchange(inputs[i], Json::array());
        graph.rows[i][next[i]++] = static_cast<int64_t>(rows.size());
        rows.push_back(std::move(row));
        for (size_t waits : std::exchange(waiting[i], {})) ready.push_back(waits);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      if (next[i] < graph.rows[i].size()) {
        return Wrong(graph.layers[i].name, "its inputs depend on its own output");
      }
    }
    return rows;
  }

  const nn::CustomLayers& custom_;
  std::string policy_;  // of most layers
  std::map<std::string, Defaults> defaults_;
  std::map<int64_t, Json> shared_;  // rows of layers with a number, which may be at several places
};

}  // namespace

absl::StatusOr<nn::Network> NetworkFromKeras(const Json& model, const nn::CustomLayers& custom) {
  PENSTOCK_RETURN_IF_ERROR(nn::CheckJsonDepth(model));
  // The JSON library throws where a value is missing or has another type; user-defined layers may.
  return base::CatchExceptions([&]() -> absl::StatusOr<nn::Network> {
    try {
      const std::string class_name = model.at("class_name");
      if (!IsModelClass(class_name)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the model is of class '", class_name,
            "'; Penstock reads Functional and Sequential models, not the code of a subclass"));
      }
      PENSTOCK_ASSIGN_OR_RETURN(const Json network, Translator(custom).Translate(model));
      return nn::Network::FromJson(network, &custom);
    } catch (const Json::exception& e) {
      return absl::InvalidArgumentError(
          absl::StrCat("not Keras's description of a model: ", e.what()));
    }
  });
}

}  // namespace penstock::keras
