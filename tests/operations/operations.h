// Every operation of penstock/ir/ops.h by name, for the random cases of expect.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "penstock/base/array.h"
#include "penstock/ir/ops.h"

namespace penstock::tests {

// Arguments of one call.
struct Call {
  ir::Graph& graph;
  ir::Values x;
  std::vector<base::Array> arrays;  // contents of the xs
  const nlohmann::json& options;    // named like the operation's parameters

  int64_t Int(const char* name) const { return options.at(name).get<int64_t>(); }
  double Number(const char* name) const { return options.at(name).get<double>(); }
  bool Flag(const char* name) const { return options.value(name, false); }
  std::string Text(const char* name) const { return options.at(name).get<std::string>(); }
  std::vector<int64_t> Ints(const char* name) const {
    return options.at(name).get<std::vector<int64_t>>();
  }
  base::DType Type(const char* name) const { return *base::DTypeFromName(Text(name)); }
  base::Shape ShapeOf(const char* name) const { return base::Shape(Ints(name)); }
  ir::TensorType TypeAndShape() const { return {Type("dtype"), ShapeOf("shape")}; }
};

using BuildCall = ir::Values (*)(const Call& call);
using OperationTable = std::map<std::string, BuildCall>;

// One family each, like the Python file of the same name.
OperationTable ElementwiseCalls();
OperationTable ShapeCalls();
OperationTable ContractionCalls();
OperationTable ReductionCalls();
OperationTable IndexingCalls();
OperationTable RandomNumberCalls();
OperationTable ControlFlowCalls();

}  // namespace penstock::tests
