// A client's executables in the compile cache: what their keys are made of, and the way through
// PJRT's serialization and back.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/compile_cache.h"
#include "penstock/runtime/plugin.h"

struct PJRT_Client;
struct PJRT_LoadedExecutable;

namespace penstock::runtime {

// Any thread may use it. Where it cannot do its work (a plugin that cannot serialize), it finds
// nothing and keeps nothing, and says why in the plugin's log, once.
class ProgramCache {
 public:
  // options.folder is empty: no cache. `client_facts` are what a client says of itself and its
  // devices.
  ProgramCache(Plugin plugin, std::vector<std::string> client_facts, CompileCacheOptions options);

  // Empty: this program is not to be looked for.
  std::string Key(const ir::Program& program, const std::string& encoded_options);
  // nullptr: a miss. `key` may be empty; so in the next two.
  PJRT_LoadedExecutable* Load(PJRT_Client* client, const std::string& key);
  // An executable that was compiled: one that was loaded serializes without its code.
  void Keep(const std::string& key, PJRT_LoadedExecutable* executable);
  void Forget(const std::string& key);

 private:
  std::shared_ptr<CompileCache> Store();
  // What all keys of this client have in common. Found out when it is first needed: that reads the
  // whole plugin.
  absl::StatusOr<std::string> Surroundings(CompileCache& cache);
  void TurnOff(const absl::Status& why);

  const Plugin plugin_;
  const std::vector<std::string> client_facts_;
  std::mutex mutex_;                     // guards what follows
  std::shared_ptr<CompileCache> cache_;  // nullptr: turned off
  std::string surroundings_;
};

}  // namespace penstock::runtime
