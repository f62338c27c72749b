// The operations of random graphs by the names of operations.py and shapes.py.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "nlohmann/json.hpp"

#include "penstock/session/tensorflow.h"

namespace penstock::tests::session_graphs {

namespace tf = ::penstock::session;
using base::DType;

// "float32", as in NumPy.
DType TypeNamed(const std::string& name);

using Operation = std::function<tf::Tensors(const tf::Tensors& x, const nlohmann::json& arguments)>;
const std::map<std::string, Operation>& Operations();

}  // namespace penstock::tests::session_graphs
