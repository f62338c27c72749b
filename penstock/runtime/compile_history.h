// Why a program is compiled again. A training that compiles twice should say so: the usual cause, a
// batch of another shape, is not to be seen otherwise.
//
//   CompileHistory history;
//   const std::string why = history.Add(program, options);
//   if (!why.empty()) ...   // "argument 'image' changed from ui8[128,32,32,3] to ui8[100,32,32,3]"
//
// Whoever compiles step programs keeps one and asks it before each compile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/client.h"

namespace penstock::runtime {

// For one thread.
class CompileHistory {
 public:
  // Remembers the program. One line that says what is different from the program of the same name
  // that is most like it, of the last few; empty for the first of its name.
  std::string Add(const ir::Program& program, const CompileOptions& options = {});

 private:
  struct Entry {
    std::vector<TensorType> parameters;
    std::vector<std::string> parameter_names;
    int num_replicas;
    CompileOptions options;
    std::vector<uint64_t> lines;  // a hash of each, without its location
  };
  struct Difference;
  static Difference Compare(const Entry& before, const Entry& now, const ir::Program& program);

  std::map<std::string, std::vector<Entry>> entries_;  // by name, the oldest first
};

}  // namespace penstock::runtime
