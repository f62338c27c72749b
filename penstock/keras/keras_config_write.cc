// Keras's description of a network, from that of nn::Network.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/keras/keras_config.h"
#include "penstock/keras/keras_functions.h"
#include "penstock/nn/config.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/names.h"

namespace penstock::keras {
namespace {

using Json = nlohmann::ordered_json;

std::vector<int64_t> Extents(const nn::TensorType& type) {
  return {type.shape.begin(), type.shape.end()};
}

// A shape with null as batch size.
Json BatchShape(const nn::TensorType& type) {
  Json shape = Extents(type);
  if (!shape.empty()) shape[0] = nullptr;
  return shape;
}

bool IsOperation(const nn::Layer& layer) {
  return layer.body().keras_form().module == nn::kKerasOperations;
}

bool IsUnaryOperation(const nn::Layer& layer) {
  return !layer.body().keras_form().operation_options.empty();
}

bool HasCounterpart(const nn::Layer& layer) {
  const std::vector<std::string> known = nn::LayerClassNames();
  return !layer.body().keras_form().module.empty() &&
         std::find(known.begin(), known.end(), layer.class_name()) != known.end();
}

// The layers among a layer's options.
std::vector<nn::Layer> InnerLayers(const nn::Layer& layer) {
  std::vector<nn::Layer> inner;
  nn::Config lister = nn::Config::Lister(inner);
  layer.body().Fields(lister);
  std::erase_if(inner, [](const nn::Layer& one) { return !one.valid(); });
  return inner;
}

// Adds "class 'Foo' (layer 'bar')" for each layer that Keras does not have.
void FindUnknown(const nn::Layer& layer, const std::string& name,
                 std::vector<std::string>& unknown) {
  if (!HasCounterpart(layer)) {
    unknown.push_back(absl::StrCat(layer.class_name(), " (layer '", name, "')"));
  }
  if (const nn::Network* network = layer.body().network(); network != nullptr) {
    for (const nn::Network::Use& use : network->uses()) {
      if (use.layer.valid()) FindUnknown(use.layer, absl::StrCat(name, "/", use.name), unknown);
    }
    return;
  }
  for (const nn::Layer& inner : InnerLayers(layer)) FindUnknown(inner, name, unknown);
}

class Writer {
 public:
  // `ours`: the network's JSON, in which layers at several places have a number.
  absl::StatusOr<Json> Model(const nn::Network& network, const Json& ours,
                             const nn::Policy& outer_policy, bool frozen) {
    const nn::Policy policy = ours.contains("dtype") ? network.policy() : outer_policy;
    PENSTOCK_ASSIGN_OR_RETURN(Json layers, Layers(network, ours, policy, frozen));
    Json config = {{"name", network.name()}, {"trainable", true}};
    if (network.sequential()) {
      PENSTOCK_RETURN_IF_ERROR(CheckSequential(network));
      for (Json& layer : layers) {
        layer.erase("name");
        layer.erase("inbound_nodes");
      }
      config["dtype"] = policy.ToJson();
      config["layers"] = std::move(layers);
      config["build_input_shape"] = BatchShape(network.inputs()[0].type);
      return KerasObject("keras", "Sequential", std::move(config));
    }
    config["layers"] = std::move(layers);
    config["input_layers"] = Ends(network, ours.at("inputs"));
    config["output_layers"] = Ends(network, ours.at("outputs"));
    Json model = KerasObject("keras.src.models.functional", "Functional", std::move(config));
    model["registered_name"] = "Functional";
    return model;
  }

 private:
  // Keras's Sequential models contain layers only.
  static absl::Status CheckSequential(const nn::Network& network) {
    for (const nn::Network::Use& use : network.uses()) {
      if (!use.layer.valid() || !IsOperation(use.layer)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "layer '", use.name, "': ", use.layer.class_name(),
          " is an operation in Keras, which a Sequential model cannot contain; make a functional "
          "model, of symbols"));
    }
    return absl::OkStatus();
  }

  // [use] or [use, output] of our JSON.
  static nn::Network::Use::From FromOf(const Json& from) {
    if (!from.is_array()) return {.use = from.get<int>()};
    return {.use = from.at(0).get<int>(), .output = from.at(1).get<int>()};
  }

  // The number of calls of the same layer before this one.
  static int CallNumber(const nn::Network& network, int use) {
    int number = 0;
    for (int i = 0; i < use; ++i) {
      number += network.uses()[i].name == network.uses()[use].name ? 1 : 0;
    }
    return number;
  }

  static bool IsFunctional(const nn::Layer& layer) {
    return layer.valid() && layer.class_name() == "Functional";
  }

  // [layer, call, output], a list of them if there are several. Here Keras counts the calls of a
  // functional model from 1.
  static Json Ends(const nn::Network& network, const Json& ours) {
    Json ends = Json::array();
    for (const Json& one : ours) {
      const auto from = FromOf(one);
      const nn::Network::Use& use = network.uses()[from.use];
      const int number = CallNumber(network, from.use) + (IsFunctional(use.layer) ? 1 : 0);
      ends.push_back({use.name, number, from.output});
    }
    return ends.size() == 1 ? ends[0] : ends;
  }

  static Json Tensor(const nn::Network& network, const nn::Network::Use::From& from) {
    const nn::Network::Use& use = network.uses()[from.use];
    const nn::TensorType& type = use.types[from.output];
    return {{"class_name", "__keras_tensor__"},
            {"config",
             {{"shape", BatchShape(type)},
              {"dtype", std::string(base::DTypeName(type.dtype))},
              {"keras_history", {use.name, CallNumber(network, from.use), from.output}}}}};
  }

  // The arguments of a call: inputs and options.
  static Json Node(const nn::Network& network, const nn::Network::Use& use, const Json& options) {
    const nn::KerasForm form = use.layer.body().keras_form();
    Json args = Json::array(), named = Json::object();
    const bool apart = IsOperation(use.layer);
    const bool as_list = form.arguments.empty() && use.inputs.size() > 1 && !apart;
    Json list = Json::array();
    for (size_t i = 0; i < use.inputs.size(); ++i) {
      const auto& from = use.inputs[i];
      Json tensor = Tensor(network, from);
      if (as_list) {
        list.push_back(std::move(tensor));
      } else if (i == 0 || apart) {
        args.push_back(std::move(tensor));
      } else {
        const bool is_float = base::IsFloat(network.uses()[from.use].types[from.output].dtype);
        const size_t last = form.arguments.size() - 1;
        const size_t place = is_float ? std::min(i - 1, last) : last;
        Json& argument = named[form.arguments[place]];
        if (argument.is_null()) {
          argument = std::move(tensor);
        } else if (argument.is_array()) {
          argument.push_back(std::move(tensor));
        } else {
          argument = Json::array({std::move(argument), std::move(tensor)});
        }
      }
    }
    if (as_list) args.push_back(std::move(list));
    if (options.contains("constant")) args.push_back(options["constant"]);
    for (const std::string& key : form.call_options) {
      if (options.contains(key) && options[key] == true) named[key] = true;
    }
    if (!form.true_for_floats.empty() &&
        base::IsFloat(network.uses()[use.inputs[0].use].types[use.inputs[0].output].dtype)) {
      named[form.true_for_floats] = true;
    }
    return {{"args", std::move(args)}, {"kwargs", std::move(named)}};
  }

  static Json InputLayer(const nn::Network::Use& use) {
    return KerasObject("keras.layers", "InputLayer",
                       {{"batch_shape", BatchShape(use.type())},
                        {"dtype", std::string(base::DTypeName(use.type().dtype))},
                        {"sparse", false},
                        {"ragged", false},
                        {"name", use.name}});
  }

  // The layers in the order of the network, each with all of its calls.
  absl::StatusOr<Json> Layers(const nn::Network& network, const Json& ours,
                              const nn::Policy& policy, bool frozen) {
    Json layers = Json::array();
    std::map<std::string, size_t> places;
    const Json& rows = ours.at("layers");
    for (size_t i = 0; i < network.uses().size(); ++i) {
      const nn::Network::Use& use = network.uses()[i];
      const Json& row = rows.at(i);
      const auto [place, first] = places.try_emplace(use.name, layers.size());
      if (first && !use.layer.valid()) {
        layers.push_back(InputLayer(use));
      } else if (first) {
        PENSTOCK_ASSIGN_OR_RETURN(Json layer, Layer(use.layer, use.name, row, policy, frozen));
        const auto& from = use.inputs.at(0);
        NestAlongAxes(use.layer, network.uses()[from.use].types[from.output], layer);
        layers.push_back(std::move(layer));
      }
      Json& layer = layers[place->second];
      layer["name"] = use.name;
      if (first) layer["inbound_nodes"] = Json::array();
      if (use.layer.valid()) {
        layer["inbound_nodes"].push_back(Node(network, use, rows.at(i).at("config")));
      }
    }
    return layers;
  }

  // Nests the lists of KerasForm::along_axes, of a layer with an input of this type.
  static void NestAlongAxes(const nn::Layer& layer, const nn::TensorType& input, Json& keras) {
    for (const std::string& key : layer.body().keras_form().along_axes) {
      Json& list = keras["config"][key];
      const Json& axes = keras["config"]["axis"];
      if (!list.is_array() || !axes.is_array()) continue;
      for (size_t i = axes.size(); i-- > 1;) {
        const int64_t axis = axes[i].get<int64_t>();
        const auto extent = static_cast<size_t>(
            input.shape.dim(static_cast<int>(axis < 0 ? axis + input.shape.rank() : axis)));
        if (extent == 0) break;
        Json nested = Json::array();
        for (size_t k = 0; k + extent <= list.size(); k += extent) {
          nested.emplace_back(Json::array());
          for (size_t j = 0; j < extent; ++j) nested.back().push_back(list[k + j]);
        }
        list = std::move(nested);
      }
    }
  }

  // `row`: {"class_name", "config"} of our JSON.
  absl::StatusOr<Json> Layer(const nn::Layer& layer, const std::string& name, const Json& row,
                             const nn::Policy& policy, bool frozen) {
    const Json& ours = row.at("config");
    frozen = !layer.given_trainable().value_or(!frozen);
    Json keras;
    if (const nn::Network* network = layer.body().network(); network != nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(keras, Model(*network, ours.at("network"), policy, frozen));
      keras["config"]["name"] = name;
    } else if (IsUnaryOperation(layer)) {
      keras = KerasObject(nn::kKerasOperations, std::string(layer.class_name()), {{"name", name}});
      keras["registered_name"] = std::string(layer.class_name());
      for (const std::string& key : layer.body().keras_form().operation_options) {
        keras["config"][key] = ours.at(key);
      }
    } else if (IsOperation(layer)) {
      if (row.at("inputs").size() + (ours.contains("constant") ? 1 : 0) != 2) {
        return NotTwo(layer, name);
      }
      keras = KerasObject(nn::kKerasOperations, std::string(layer.class_name()), {{"name", name}});
      keras["registered_name"] = std::string(layer.class_name());
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(keras, BuiltIn(layer, name, ours, policy, frozen));
    }
    if (row.contains("shared")) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer '", name,
                       "' is at several places of the model, in an outer and a nested model or "
                       "in another layer; Keras counts the calls of such a layer wrongly when it "
                       "loads the file"));
    }
    return keras;
  }

  static absl::Status NotTwo(const nn::Layer& layer, const std::string& name) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", name, "': in Keras, an operation ", layer.class_name(),
                     " has two arguments; use one layer for the inputs, and one for the constant"));
  }

  absl::StatusOr<Json> BuiltIn(const nn::Layer& layer, const std::string& name, const Json& ours,
                               const nn::Policy& policy, bool frozen) {
    const nn::KerasForm form = layer.body().keras_form();
    Json config = {{"name", name}, {"dtype", policy.ToJson()}};
    if (frozen) config["trainable"] = false;  // some classes do not take true
    const std::vector<nn::Layer> inner = InnerLayers(layer);
    size_t next_inner = 0;
    for (const auto& [key, value] : ours.items()) {
      const auto& call_options = form.call_options;
      const bool of_call =
          std::find(call_options.begin(), call_options.end(), key) != call_options.end();
      if (of_call || key == "remat" || key == "trainable" || key == "use_masks") continue;
      if (value.is_object() && value.contains("config") && next_inner < inner.size() &&
          key != "dtype") {
        const nn::Layer& one = inner[next_inner++];
        PENSTOCK_ASSIGN_OR_RETURN(
            config[key],
            Layer(one, value.at("config").value("name", nn::SnakeCase(one.class_name())), value,
                  policy, frozen));
        continue;
      }
      absl::StatusOr<Json> option = KerasOption(key, value);
      if (!option.ok())
        return base::WithContext(option.status(), absl::StrCat("layer '", name, "'"));
      config[key] = *std::move(option);
    }
    for (const std::string& key : form.numbers) {
      if (config[key].is_array() && config[key].size() == 1) config[key] = Json(config[key][0]);
    }
    for (const std::string& key : form.symmetric_ranges) {
      const Json range = config[key];
      if (range.is_array() && range[0] == -range[1].get<double>()) config[key] = range[1];
    }
    const std::string class_name =
        form.class_name.empty() ? std::string(layer.class_name()) : form.class_name;
    Json keras = KerasObject(form.module.c_str(), class_name, std::move(config));
    // Keras finds classes of other modules by their registered names.
    if (form.module != "keras.layers") keras["registered_name"] = class_name;
    return keras;
  }
};

}  // namespace

Json KerasObject(const char* module, const std::string& class_name, Json config) {
  return {{"module", module},
          {"class_name", class_name},
          {"config", std::move(config)},
          {"registered_name", nullptr}};
}

absl::StatusOr<Json> NetworkToKeras(const nn::Network& network) {
  PENSTOCK_RETURN_IF_ERROR(network.status());
  std::vector<std::string> unknown;
  for (const nn::Network::Use& use : network.uses()) {
    if (use.layer.valid()) FindUnknown(use.layer, use.name, unknown);
  }
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Keras has no counterpart of these layers: ", absl::StrJoin(unknown, ", "),
                     "; save the model as .safetensors"));
  }
  PENSTOCK_RETURN_IF_ERROR(network.CheckSerializable());
  return Writer().Model(network, network.ToJson(), network.policy(), false);
}

}  // namespace penstock::keras
