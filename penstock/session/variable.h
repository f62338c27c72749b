// Variables: state that a session keeps on its devices between calls of Run.
//
//   tf::Variable w(tf::RandomNormal({5, 3}), "w");
//   {
//     tf::VariableScope scope("dense");                       // tf.variable_scope
//     tf::Variable b = tf::GetVariable("bias", {3}, DType::kF32, tf::ZerosInitializer());
//   }                                                         // "dense/bias"
//   tf::Operation up = tf::Assign(w, w * 0.9);
//
// A Variable converts to a Tensor, which is a read of it: one read operation for each conversion,
// under the control dependencies of that place (see graph.h for what a read sees).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/session/graph.h"

namespace penstock::session {

// What a graph knows of a variable. Owned by the graph.
struct VariableDef {
  Graph* graph = nullptr;
  int index = 0;     // in creation order, unique in the graph
  std::string name;  // "dense/bias", without ":0"
  DType dtype = DType::kInvalid;
  Shape shape;  // fully known
  bool trainable = true;
  Tensor initial_value;
  Operation initializer;   // assigns initial_value
  Node* handle = nullptr;  // the node by which it is fed and fetched
  // Name of a constraint and of a regularizer, as in room nn; empty: none.
  std::string constraint = "", regularizer = "";
  SourceLocation where;
};

struct VariableOptions {
  bool trainable = true;
  DType dtype = DType::kInvalid;              // kInvalid: the initial value's
  std::vector<std::string> collections = {};  // empty: GLOBAL_VARIABLES (and TRAINABLE_VARIABLES)
  std::string constraint = "";
};

// Handle to a variable (tf.Variable); cheap to copy. Default-constructed: invalid.
class Variable {
 public:
  Variable() = default;
  explicit Variable(const VariableDef* def) : def_(def) {}
  // A variable with this initial value, whose shape must be known. In a variable scope its name
  // begins with the scope's name.
  explicit Variable(const Tensor& initial_value, absl::string_view name = "Variable",
                    const VariableOptions& options = {},
                    SourceLocation where = SourceLocation::Current());
  explicit Variable(const Array& initial_value, absl::string_view name = "Variable",
                    const VariableOptions& options = {},
                    SourceLocation where = SourceLocation::Current());

  bool valid() const { return def_ != nullptr; }
  const VariableDef* def() const { return def_; }
  std::string name() const;  // "dense/bias:0"
  DType dtype() const;
  PartialShape shape() const;
  Operation initializer() const;
  Tensor initial_value() const;
  // A read under the control dependencies of this place.
  Tensor Value(SourceLocation where = SourceLocation::Current()) const;
  operator Tensor() const { return Value(); }  // NOLINT: tf.matmul(x, w)
  // A read operation of its own, as in TensorFlow: Gradients with respect to it are those of this
  // read alone, and may stop at it. Value() stands for the variable there.
  Tensor ReadValue(SourceLocation where = SourceLocation::Current()) const;

  friend bool operator==(const Variable&, const Variable&) = default;

 private:
  const VariableDef* def_ = nullptr;
};
using Variables = std::vector<Variable>;

// Assignments; each returns the variable's value after it. The shapes must agree.
Tensor Assign(const Variable& variable, const Tensor& value, absl::string_view name = "",
              SourceLocation where = SourceLocation::Current());
Tensor AssignAdd(const Variable& variable, const Tensor& delta, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());
Tensor AssignSub(const Variable& variable, const Tensor& delta, absl::string_view name = "",
                 SourceLocation where = SourceLocation::Current());

// Initializers: functions of a shape and a type that return a tensor of the default graph
// (tf.zeros_initializer() and others). Names, defaults and formulas are TensorFlow's.
using Initializer = std::function<Tensor(const Shape& shape, DType dtype)>;
Initializer ZerosInitializer();
Initializer OnesInitializer();
Initializer ConstantInitializer(double value = 0);
Initializer ConstantInitializer(Array value);
// In [minval, maxval). maxval: 1, and required by integers. Of the other initializers, zeros, ones
// and constants are for integers, too.
Initializer RandomUniformInitializer(double minval = 0, std::optional<double> maxval = {},
                                     std::optional<uint64_t> seed = {});
Initializer RandomNormalInitializer(double mean = 0, double stddev = 1,
                                    std::optional<uint64_t> seed = {});
Initializer TruncatedNormalInitializer(double mean = 0, double stddev = 1,
                                       std::optional<uint64_t> seed = {});
struct VarianceScalingOptions {
  double scale = 1;
  std::string mode = "fan_in";                    // fan_in, fan_out, fan_avg
  std::string distribution = "truncated_normal";  // uniform, untruncated_normal
  std::optional<uint64_t> seed = {};
};
Initializer VarianceScalingInitializer(const VarianceScalingOptions& options = {});
Initializer GlorotUniformInitializer(std::optional<uint64_t> seed = {});
Initializer GlorotNormalInitializer(std::optional<uint64_t> seed = {});
Initializer OrthogonalInitializer(double gain = 1, std::optional<uint64_t> seed = {});
Initializer IdentityInitializer(double gain = 1);

// tf.AUTO_REUSE and others.
enum class Reuse { kNone, kReuse, kAuto };

// RAII: tf.variable_scope. Variables made by GetVariable are named "<scope>/..."; operations too.
// Reuse and the default initializer are inherited by scopes within.
//
// An empty name enters the scope around it again, or the top level, with names as they are:
// tf.variable_scope(tf.get_variable_scope(), ...). Towers that share their variables:
//
//   tf::VariableScope towers("");
//   for (int i = 0; i < 2; ++i) {
//     tf::NameScope names(absl::StrCat("tower_", i));
//     losses.push_back(TowerLoss(batches[i]));
//     towers.ReuseVariables();
//   }
class VariableScope {
 public:
  explicit VariableScope(absl::string_view name, Reuse reuse = Reuse::kNone,
                         Initializer initializer = nullptr);
  // The scope `default_name`, or "<default_name>_1", ..., if there was one of that name since the
  // scope around it was entered: tf.variable_scope(None, default_name).
  VariableScope(std::nullopt_t, absl::string_view default_name, Reuse reuse = Reuse::kNone,
                Initializer initializer = nullptr);
  ~VariableScope();
  VariableScope(const VariableScope&) = delete;
  VariableScope& operator=(const VariableScope&) = delete;
  // scope.reuse_variables(), also for scopes that are entered within from now on.
  void ReuseVariables();

 private:
  void Enter(Graph* graph, const std::string& name, Reuse reuse, Initializer initializer);

  struct State;
  std::unique_ptr<State> state_;
};

struct GetVariableOptions {
  bool trainable = true;
  // Names of room nn: "l2(0.0001)". The regularizer's penalty of a new variable is added to the
  // collection REGULARIZATION_LOSSES.
  std::string regularizer = "", constraint = "";
  std::vector<std::string> collections = {};
};
// The variable "<scope>/<name>": a new one, or per the scope's reuse an existing one, whose shape
// and type must agree. As in TensorFlow, a second GetVariable of a name without reuse is an error,
// and so is a reuse of a name that does not exist. Without an initializer: the scope's, else
// glorot_uniform for floats and zeros for others.
Variable GetVariable(absl::string_view name, const Shape& shape, DType dtype = DType::kF32,
                     Initializer initializer = nullptr, const GetVariableOptions& options = {},
                     SourceLocation where = SourceLocation::Current());

// Variables of the default graph whose names begin with `scope`, in creation order.
Variables GlobalVariables(absl::string_view scope = "");
Variables LocalVariables(absl::string_view scope = "");
Variables TrainableVariables(absl::string_view scope = "");
// The same of any collection: VariableOptions::collections, and variables given to
// Graph::AddToCollection (tf.get_collection, which returns variables there).
Variables GetCollectionVariables(absl::string_view collection, absl::string_view scope = "");
// Operations that initialize these variables (tf.global_variables_initializer() and others).
Operation GlobalVariablesInitializer();
Operation LocalVariablesInitializer();
Operation VariablesInitializer(const Variables& variables, absl::string_view name = "init");
// Names of the variables that have no value yet: a string tensor in TensorFlow, here a method of
// Session (UninitializedVariables).

// tf.train.get_or_create_global_step(): the variable of the collection GLOBAL_STEP, else the integer
// variable without axes that is named "global_step", else a new one of int64.
Variable GetOrCreateGlobalStep();
Variable GetGlobalStep();  // invalid if there is none

}  // namespace penstock::session
