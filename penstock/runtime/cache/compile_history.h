// CompileHistory: explains recompilation. A training that compiles twice should report the reason:
// the usual one, a batch of another shape, is hard to see otherwise.
//
//   CompileHistory history;
//   const std::string why = history.Add(program, options);
//   if (!why.empty()) client->Log(why);
//   // "argument 'image' changed from ui8[128,32,32,3] to ui8[100,32,32,3]"
//
// An owner of compiled programs has one and calls Add before each compile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/client.h"

namespace penstock::runtime {

// Not thread-safe.
class CompileHistory {
 public:
  // Adds the program. Returns one line that names the difference to the most similar of the last
  // few programs of the same name; empty for the first of its name.
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
