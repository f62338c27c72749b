// The variables of a graph, and the extra data of the operations that use them. Internal to room
// session; Graph::Extension<VariableTable>() is the table of a graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "penstock/session/variable.h"

namespace penstock::session {

struct VariableTable {
  std::vector<std::unique_ptr<VariableDef>> all;  // by index
  absl::flat_hash_map<std::string, const VariableDef*> by_name;
  // Those that GetVariable made, by name: the ones that it may reuse.
  absl::flat_hash_map<std::string, const VariableDef*> shared;
  // Variable scopes that are open.
  struct Scope {
    std::string name;
    Reuse reuse = Reuse::kNone;
    Initializer initializer;
  };
  std::vector<Scope> scopes;
  // "<scope>/" of the innermost scope; empty at the top level.
  std::string ScopePrefix() const;
  // Forgets how often scopes within the innermost one were entered.
  void ForgetCountsWithin();
  // The line of GetVariable, for errors of the initializer that it calls.
  SourceLocation initializer_where;
  // How often a scope was entered since the one around it was, by full name.
  absl::flat_hash_map<std::string, int> scope_counts;
};

// The operations that initialize these variables, for errors: "GlobalVariablesInitializer()".
std::string InitializersOf(const std::vector<const VariableDef*>& variables);

// An array as the initial value of a variable. The host transfers it when an initializer runs:
// large weights do not become part of a program's text, and initializers need no program.
Tensor InitialArray(const Array& value, absl::string_view name, SourceLocation where);

// Moves the variable by what `after` differs from `before`, its value of which `after` was computed:
// several such updates in one Run add up, as of a layer that is called twice. The first one gives
// `after` exactly.
Tensor AssignMoved(const Variable& variable, const Tensor& before, const Tensor& after,
                   absl::string_view name, SourceLocation where);

// Extra of operations that read or assign one variable.
struct VariableUse : NodeExtra {
  explicit VariableUse(const VariableDef* used, bool stands_alone = false)
      : variable(used), is_own_tensor(stands_alone) {}
  const VariableDef* variable;
  // Made by ReadValue: Gradients takes it as a tensor, not as the variable.
  bool is_own_tensor;
};

}  // namespace penstock::session
