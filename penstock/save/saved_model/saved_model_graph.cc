#include "penstock/save/saved_model/saved_model_graph.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/save/quoted.h"
#include "penstock/save/saved_model.pb.h"
#include "penstock/save/tensor_bundle.pb.h"
#include "penstock/save/tensor_bundle_format.h"

namespace penstock::save::savedmodel {
namespace {

using tensor_bundle::kTensorFlowResource;
using tensor_bundle::kTensorFlowString;

// Functions of the library: the module; the function of the signature, which calls it.
constexpr char kServe[] = "__inference_serve", kServingDefault[] = "__inference_serving_default";
// Any version of TensorFlow 2 reads graphs of this one.
constexpr int kGraphVersion = 1882;
constexpr int kSaverVersion = 2;

// A tensor of the signature, with what TensorFlow needs to know of it.
struct Port {
  std::string name;  // in the signature
  std::string id;    // name of a node or of a Python argument
  int dtype = 0;
  Shape shape = {};
};

Shape ShapeOf(const base::Shape& dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.add_dim()->set_size(dim);
  return shape;
}

// An identifier of Python that no other port has.
std::string Identifier(absl::string_view name, absl::flat_hash_set<std::string>& used) {
  std::string id;
  for (const char c : name) {
    id += absl::ascii_isalnum(static_cast<unsigned char>(c)) ? absl::ascii_tolower(c) : '_';
  }
  if (id.empty() || !absl::ascii_isalpha(static_cast<unsigned char>(id[0]))) id.insert(0, "x_");
  std::string unique = id;
  for (int i = 1; !used.insert(unique).second; ++i) unique = absl::StrCat(id, "_", i);
  return unique;
}

absl::StatusOr<std::vector<Port>> PortsOf(const std::vector<ServingTensor>& tensors,
                                          absl::string_view what) {
  std::vector<Port> ports;
  absl::flat_hash_set<std::string> names, ids;
  for (const ServingTensor& tensor : tensors) {
    if (tensor.name.empty() || !names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two ", what, "s have the name ", Quoted(tensor.name), ", or it is empty"));
    }
    Port port{.name = tensor.name, .id = Identifier(tensor.name, ids)};
    const absl::StatusOr<int> dtype = tensor_bundle::TensorFlowDType(tensor.dtype);
    if (!dtype.ok()) {
      return base::WithContext(dtype.status(), absl::StrCat(what, " ", Quoted(tensor.name)));
    }
    port.dtype = *dtype;
    port.shape = ShapeOf(tensor.shape);
    ports.push_back(std::move(port));
  }
  return ports;
}

std::vector<Port> Sorted(std::vector<Port> ports) {
  std::sort(ports.begin(), ports.end(),
            [](const Port& a, const Port& b) { return a.name < b.name; });
  return ports;
}

// ---- Nodes ----

void SetType(Attr& attr, int type) { attr.mutable_value()->set_type(type); }

Attr& AddAttr(Node& node, absl::string_view key) {
  Attr& attr = *node.add_attr();
  attr.set_key(std::string(key));
  return attr;
}

Node MakeNode(absl::string_view name, absl::string_view op,
              const std::vector<std::string>& inputs = {}) {
  Node node;
  node.set_name(std::string(name));
  node.set_op(std::string(op));
  for (const std::string& input : inputs) node.add_input(input);
  return node;
}

Node Placeholder(absl::string_view name, int dtype, const Shape& shape) {
  Node node = MakeNode(name, "Placeholder");
  SetType(AddAttr(node, "dtype"), dtype);
  *AddAttr(node, "shape").mutable_value()->mutable_shape() = shape;
  return node;
}

Node Identity(absl::string_view name, const std::vector<std::string>& inputs, int dtype) {
  Node node = MakeNode(name, "Identity", inputs);
  SetType(AddAttr(node, "T"), dtype);
  return node;
}

Node ConstantTexts(absl::string_view name, const std::vector<std::string>& texts, bool scalar) {
  Node node = MakeNode(name, "Const");
  SetType(AddAttr(node, "dtype"), kTensorFlowString);
  Tensor& tensor = *AddAttr(node, "value").mutable_value()->mutable_tensor();
  tensor.set_dtype(kTensorFlowString);
  tensor.mutable_tensor_shape();
  if (!scalar)
    tensor.mutable_tensor_shape()->add_dim()->set_size(static_cast<int64_t>(texts.size()));
  for (const std::string& text : texts) tensor.add_string_val(text);
  return node;
}

// ---- The whole ----

class Builder {
 public:
  explicit Builder(const SavedModelContents& contents) : contents_(contents) {}

  absl::StatusOr<Messages> Make() {
    PENSTOCK_ASSIGN_OR_RETURN(inputs_, PortsOf(contents_.function.inputs, "input"));
    PENSTOCK_ASSIGN_OR_RETURN(outputs_, PortsOf(contents_.function.outputs, "output"));
    sorted_inputs_ = Sorted(inputs_);
    sorted_outputs_ = Sorted(outputs_);
    for (const SavedModelContents::Variable& variable : contents_.variables) {
      const absl::StatusOr<int> dtype = tensor_bundle::TensorFlowDType(variable.value.dtype());
      if (!dtype.ok()) {
        return base::WithContext(dtype.status(), absl::StrCat("variable ", Quoted(variable.name)));
      }
      variables_.push_back({.name = variable.name,
                            .id = absl::StrCat("variable_", variables_.size()),
                            .dtype = *dtype,
                            .shape = ShapeOf(variable.value.shape())});
    }
    MetaGraph& meta = *model_.add_meta_graphs();
    model_.set_saved_model_schema_version(1);
    meta.mutable_meta_info_def()->add_tags("serve");
    meta.mutable_meta_info_def()->set_stripped_default_attrs(true);
    graph_ = meta.mutable_graph_def();
    graph_->mutable_versions()->set_producer(kGraphVersion);
    AddServe();
    AddServingDefault();
    AddNodesOfSignature();
    AddSaver(*meta.mutable_saver_def());
    NamedSignatureDef& signature = *meta.add_signature_def();
    signature.set_key("serving_default");
    AddSignature(*signature.mutable_value());
    Messages messages;
    AddObjects(*meta.mutable_object_graph_def());
    messages.object_graph = checkpoint_.SerializeAsString();
    if (model_.ByteSizeLong() > INT32_MAX) {
      return absl::InvalidArgumentError("the program is larger than 2 GiB");
    }
    messages.saved_model = model_.SerializeAsString();
    return messages;
  }

 private:
  // A function of the inputs, then the variables' handles.
  Function& AddFunction(const char* name, const std::vector<Port>& inputs,
                        const std::vector<Port>& outputs) {
    Function& function = *graph_->mutable_library()->add_function();
    Signature& signature = *function.mutable_signature();
    signature.set_name(name);
    signature.set_is_stateful(true);
    AttrValue::List shapes;
    for (const Port& input : inputs) {
      Signature::Arg& arg = *signature.add_input_arg();
      arg.set_name(absl::StrCat("input_", input.id));
      arg.set_type(input.dtype);
      *shapes.add_shape() = input.shape;
    }
    for (const Port& variable : variables_) {
      Signature::Arg& arg = *signature.add_input_arg();
      arg.set_name(variable.id);
      arg.set_type(kTensorFlowResource);
      Signature::Arg::Handle& handle = *arg.add_handle_data();
      handle.set_dtype(variable.dtype);
      *handle.mutable_shape() = variable.shape;
      shapes.add_shape();
    }
    for (const Port& output : outputs) {
      Signature::Arg& arg = *signature.add_output_arg();
      arg.set_name(absl::StrCat("output_", output.id));
      arg.set_type(output.dtype);
    }
    Attr& attr = *function.add_attr();
    attr.set_key("_input_shapes");
    *attr.mutable_value()->mutable_list() = std::move(shapes);
    return function;
  }

  // Returns the node's outputs, which are `source`:0, `source`:1, ...
  void AddReturns(Function& function, absl::string_view source) const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const std::string name = absl::StrCat("result_", i);
      *function.add_node_def() = Identity(name, {absl::StrCat(source, ":", i)}, outputs_[i].dtype);
      Text& returned = *function.add_ret();
      returned.set_key(absl::StrCat("output_", outputs_[i].id));
      returned.set_value(absl::StrCat(name, ":output:0"));
    }
  }

  // Reads the variables and calls the module.
  void AddServe() {
    Function& function = AddFunction(kServe, inputs_, outputs_);
    std::vector<std::string> operands;
    for (size_t i = 0; i < variables_.size(); ++i) {
      const std::string name = absl::StrCat("read_", i);
      Node& read = *function.add_node_def();
      read = MakeNode(name, "ReadVariableOp", {variables_[i].id});
      SetType(AddAttr(read, "dtype"), variables_[i].dtype);
      operands.push_back(name + ":value:0");
    }
    for (const Port& input : inputs_) operands.push_back(absl::StrCat("input_", input.id));
    Node& call = *function.add_node_def();
    call = MakeNode("module", "XlaCallModule", operands);
    AddAttr(call, "version").mutable_value()->set_i(contents_.function.version);
    AddAttr(call, "module").mutable_value()->set_s(contents_.function.module);
    AttrValue::List& platforms = *AddAttr(call, "platforms").mutable_value()->mutable_list();
    for (const std::string& platform : contents_.function.platforms) platforms.add_s(platform);
    AttrValue::List& shapes = *AddAttr(call, "Sout").mutable_value()->mutable_list();
    AttrValue::List& out = *AddAttr(call, "Tout").mutable_value()->mutable_list();
    for (const Port& output : outputs_) {
      *shapes.add_shape() = output.shape;
      out.add_type(output.dtype);
    }
    AttrValue::List& in = *AddAttr(call, "Tin").mutable_value()->mutable_list();
    for (const Port& variable : variables_) in.add_type(variable.dtype);
    for (const Port& input : inputs_) in.add_type(input.dtype);
    AddReturns(function, "module:output");
  }

  // Calls a function of these inputs and the variables.
  Node Call(absl::string_view name, const char* function, const std::vector<std::string>& operands,
            const std::vector<Port>& inputs, const std::vector<Port>& outputs) const {
    Node call = MakeNode(name, "StatefulPartitionedCall", operands);
    AddAttr(call, "f").mutable_value()->mutable_func()->set_name(function);
    AttrValue::List& in = *AddAttr(call, "Tin").mutable_value()->mutable_list();
    for (const Port& input : inputs) in.add_type(input.dtype);
    for (size_t i = 0; i < variables_.size(); ++i) in.add_type(kTensorFlowResource);
    AttrValue::List& out = *AddAttr(call, "Tout").mutable_value()->mutable_list();
    for (const Port& output : outputs) out.add_type(output.dtype);
    AttrValue::List& shapes = *AddAttr(call, "_output_shapes").mutable_value()->mutable_list();
    for (const Port& output : outputs) *shapes.add_shape() = output.shape;
    return call;
  }

  // The function of the signature. Its inputs and outputs are dictionaries, which TensorFlow
  // flattens in the order of their keys.
  void AddServingDefault() {
    Function& function = AddFunction(kServingDefault, sorted_inputs_, sorted_outputs_);
    std::vector<std::string> operands;
    for (const Port& input : inputs_) operands.push_back(absl::StrCat("input_", input.id));
    for (const Port& variable : variables_) operands.push_back(variable.id);
    *function.add_node_def() = Call("serve", kServe, operands, inputs_, outputs_);
    AddReturns(function, "serve:output");
  }

  // The graph that sessions run: TensorFlow Serving, saved_model_cli.
  void AddNodesOfSignature() {
    std::vector<std::string> operands;
    for (const Port& input : sorted_inputs_) {
      operands.push_back(PlaceholderName(input));
      *graph_->add_node() = Placeholder(operands.back(), input.dtype, input.shape);
    }
    for (const Port& variable : variables_) {
      operands.push_back(variable.id);
      Node& handle = *graph_->add_node();
      handle = MakeNode(variable.id, "VarHandleOp");
      SetType(AddAttr(handle, "dtype"), variable.dtype);
      *AddAttr(handle, "shape").mutable_value()->mutable_shape() = variable.shape;
      AddAttr(handle, "shared_name").mutable_value()->set_s(variable.name);
    }
    *graph_->add_node() = Call(kCall, kServingDefault, operands, sorted_inputs_, sorted_outputs_);
  }

  static std::string PlaceholderName(const Port& input) {
    return absl::StrCat("serving_default_", input.id);
  }

  void AddSaver(Saver& saver) {
    std::vector<std::string> keys, slices, assigned,
        read{"saver_filename", "saver/keys", "saver/slices"};
    for (const Port& variable : variables_) {
      keys.push_back(tensor_bundle::KeyOfName(variable.name));
      slices.emplace_back();
    }
    *graph_->add_node() = Placeholder("saver_filename", kTensorFlowString, Shape());
    *graph_->add_node() = ConstantTexts("saver/keys", keys, /*scalar=*/false);
    *graph_->add_node() = ConstantTexts("saver/slices", slices, /*scalar=*/false);
    AttrValue::List dtypes;
    for (const Port& variable : variables_) dtypes.add_type(variable.dtype);
    if (!variables_.empty()) {
      Node& restore = *graph_->add_node();
      restore = MakeNode("saver/restore", "RestoreV2", read);
      *AddAttr(restore, "dtypes").mutable_value()->mutable_list() = dtypes;
    }
    for (size_t i = 0; i < variables_.size(); ++i) {
      const Port& variable = variables_[i];
      const std::string assign = absl::StrCat("saver/assign_", i),
                        value = absl::StrCat("saver/read_", i);
      assigned.push_back("^" + assign);
      Node& node = *graph_->add_node();
      node = MakeNode(assign, "AssignVariableOp", {variable.id, absl::StrCat("saver/restore:", i)});
      SetType(AddAttr(node, "dtype"), variable.dtype);
      Node& reader = *graph_->add_node();
      reader = MakeNode(value, "ReadVariableOp", {variable.id});
      SetType(AddAttr(reader, "dtype"), variable.dtype);
      read.push_back(value);
    }
    *graph_->add_node() = MakeNode("saver/restore_all", "NoOp", assigned);
    Node& save = *graph_->add_node();
    save = MakeNode("saver/save", variables_.empty() ? "NoOp" : "SaveV2",
                    variables_.empty() ? std::vector<std::string>() : read);
    if (!variables_.empty()) *AddAttr(save, "dtypes").mutable_value()->mutable_list() = dtypes;
    *graph_->add_node() =
        Identity("saver/saved", {"saver_filename", "^saver/save"}, kTensorFlowString);
    saver.set_filename_tensor_name("saver_filename:0");
    saver.set_save_tensor_name("saver/saved:0");
    saver.set_restore_op_name("saver/restore_all");
    saver.set_version(kSaverVersion);
  }

  void AddSignature(SignatureDef& signature) const {
    const auto add = [](NamedTensorInfo& entry, const Port& port, const std::string& tensor) {
      entry.set_key(port.name);
      entry.mutable_value()->set_name(tensor);
      entry.mutable_value()->set_dtype(port.dtype);
      *entry.mutable_value()->mutable_tensor_shape() = port.shape;
    };
    for (const Port& input : inputs_) {
      add(*signature.add_inputs(), input, PlaceholderName(input) + ":0");
    }
    for (const Port& output : outputs_) {
      const auto place = std::find_if(sorted_outputs_.begin(), sorted_outputs_.end(),
                                      [&](const Port& other) { return other.name == output.name; });
      add(*signature.add_outputs(), output,
          absl::StrCat(kCall, ":", place - sorted_outputs_.begin()));
    }
    signature.set_method_name("tensorflow/serving/predict");
  }

  // ---- Objects, which tf.saved_model.load makes: variables and functions ----

  // Adds an object with this name in its parent, to the SavedModel and to the checkpoint, which is
  // matched with it. Returns its number.
  int AddObject(int parent, absl::string_view name, bool has_values) {
    const int id = objects_->nodes_size();
    objects_->add_nodes();
    checkpoint_.add_nodes()->mutable_has_checkpoint_values()->set_value(has_values);
    if (parent >= 0) AddChild(parent, name, id);
    return id;
  }
  void AddChild(int parent, absl::string_view name, int id) {
    SavedObject::Child& child = *objects_->mutable_nodes(parent)->add_children();
    child.set_node_id(id);
    child.set_local_name(std::string(name));
    bundle::TrackableObject::ObjectReference& reference =
        *checkpoint_.mutable_nodes(parent)->add_children();
    reference.set_node_id(id);
    reference.set_local_name(std::string(name));
  }
  void SetClass(int id, const char* identifier) {
    SavedObject::UserObject& object = *objects_->mutable_nodes(id)->mutable_user_object();
    object.set_identifier(identifier);
    object.mutable_version()->set_producer(1);
    object.mutable_version()->set_min_consumer(1);
  }

  void AddObjects(ObjectGraph& objects) {
    objects_ = &objects;
    const int root = AddObject(-1, "", true);
    SetClass(root, "_generic_user_object");
    // Lists of variables, as Keras's exports have them.
    int lists[3];
    const char* const names[] = {"variables", "trainable_variables", "non_trainable_variables"};
    for (int i = 0; i < 3; ++i) {
      lists[i] = AddObject(root, names[i], true);
      SetClass(lists[i], "trackable_list_wrapper");
    }
    const int serve = AddObject(root, "serve", false);
    const int signatures = AddObject(root, "signatures", false);
    SetClass(signatures, "signature_map");
    std::vector<int> bound;
    int places[3] = {0, 0, 0};
    for (size_t i = 0; i < variables_.size(); ++i) {
      const bool trainable = contents_.variables[i].trainable;
      bound.push_back(AddObject(lists[0], absl::StrCat(places[0]++), true));
      const int other = trainable ? 1 : 2;
      AddChild(lists[other], absl::StrCat(places[other]++), bound.back());
      AddVariable(bound.back(), variables_[i], trainable);
    }
    AddServeObject(serve);
    AddSignatureObject(AddObject(signatures, "serving_default", false));
    for (const bool is_serve : {true, false}) {
      NamedConcreteFunction& named = *objects.add_concrete_functions();
      named.set_key(is_serve ? kServe : kServingDefault);
      ConcreteFunction& function = *named.mutable_value();
      for (const int id : bound) function.add_bound_inputs(id);
      *function.mutable_canonicalized_input_signature() =
          is_serve ? ArgumentsOf({SingleOrList(inputs_)}, Structure())
                   : ArgumentsOf({}, Dictionary(inputs_));
      *function.mutable_output_signature() =
          is_serve ? SingleOrList(outputs_) : Dictionary(outputs_);
    }
  }

  void AddVariable(int id, const Port& port, bool trainable) {
    SavedObject::Variable& variable = *objects_->mutable_nodes(id)->mutable_variable();
    variable.set_dtype(port.dtype);
    *variable.mutable_shape() = port.shape;
    variable.set_trainable(trainable);
    variable.set_name(port.name);
    bundle::TrackableObject::SerializedTensor& value =
        *checkpoint_.mutable_nodes(id)->add_attributes();
    value.set_name("VARIABLE_VALUE");
    value.set_full_name(port.name);
    value.set_checkpoint_key(tensor_bundle::KeyOfName(port.name));
  }

  // `serve`, a function of one argument: the input, or a list of the inputs.
  void AddServeObject(int id) {
    SavedObject::Functions& functions = *objects_->mutable_nodes(id)->mutable_function();
    functions.add_concrete_functions(kServe);
    FunctionSpec& spec = *functions.mutable_function_spec();
    Structure inputs;
    inputs.set_string_value("inputs");
    Structure::NamedTuple& args = *spec.mutable_fullargspec()->mutable_named_tuple_value();
    args.set_name("FullArgSpec");
    const auto add = [&](const char* key) -> Structure& {
      Structure::Entry& entry = *args.add_values();
      entry.set_key(key);
      return *entry.mutable_value();
    };
    *add("args").mutable_list_value()->add_values() = inputs;
    for (const char* none : {"varargs", "varkw", "defaults"}) add(none).mutable_none_value();
    add("kwonlyargs").mutable_list_value();
    add("kwonlydefaults").mutable_none_value();
    add("annotations").mutable_dict_value();
    *spec.mutable_input_signature()->mutable_tuple_value()->add_values() = SingleOrList(inputs_);
  }

  void AddSignatureObject(int id) {
    SavedObject::BareFunction& function =
        *objects_->mutable_nodes(id)->mutable_bare_concrete_function();
    function.set_concrete_function_name(kServingDefault);
    for (const Port& input : sorted_inputs_) function.add_argument_keywords(input.name);
    function.set_allowed_positional_arguments(inputs_.size() == 1 ? 1 : 0);
  }

  // ((positional...), {keyword: ...})
  static Structure ArgumentsOf(const std::vector<Structure>& positional, Structure keywords) {
    keywords.mutable_dict_value();
    Structure arguments;
    Structure& first = *arguments.mutable_tuple_value()->add_values();
    first.mutable_tuple_value();
    for (const Structure& one : positional) *first.mutable_tuple_value()->add_values() = one;
    *arguments.mutable_tuple_value()->add_values() = std::move(keywords);
    return arguments;
  }
  static Structure SpecOf(const Port& port) {
    Structure structure;
    TensorSpec& spec = *structure.mutable_tensor_spec_value();
    spec.set_name(port.id);
    *spec.mutable_shape() = port.shape;
    spec.set_dtype(port.dtype);
    return structure;
  }
  static Structure SingleOrList(const std::vector<Port>& ports) {
    if (ports.size() == 1) return SpecOf(ports[0]);
    Structure list;
    list.mutable_list_value();
    for (const Port& port : ports) *list.mutable_list_value()->add_values() = SpecOf(port);
    return list;
  }
  static Structure Dictionary(const std::vector<Port>& ports) {
    Structure dict;
    dict.mutable_dict_value();
    for (const Port& port : ports) {
      Structure::Entry& entry = *dict.mutable_dict_value()->add_fields();
      entry.set_key(port.name);
      *entry.mutable_value() = SpecOf(port);
    }
    return dict;
  }

  static constexpr char kCall[] = "serving_default_call";

  const SavedModelContents& contents_;
  std::vector<Port> inputs_, outputs_, variables_;
  std::vector<Port> sorted_inputs_, sorted_outputs_;  // by their names
  SavedModel model_;
  Graph* graph_ = nullptr;
  ObjectGraph* objects_ = nullptr;
  bundle::TrackableObjectGraph checkpoint_;
};

}  // namespace

absl::StatusOr<Messages> MakeMessages(const SavedModelContents& contents) {
  return Builder(contents).Make();
}

}  // namespace penstock::save::savedmodel
