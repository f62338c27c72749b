// ProgramCache: a client's executables in the compile cache: their keys, and PJRT's serialization.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/stablehlo.h"
#include "penstock/runtime/cache/compile_cache.h"
#include "penstock/runtime/pjrt/plugin.h"

struct PJRT_Client;
struct PJRT_LoadedExecutable;

namespace penstock::runtime {

// Thread-safe. If it cannot work (a plugin that does not support serialization), every lookup
// misses and nothing is stored; the plugin's log says why, once.
class ProgramCache {
 public:
  // An empty options.folder disables the cache. `client_facts` describe the client and its devices.
  ProgramCache(Plugin plugin, std::vector<std::string> client_facts, CompileCacheOptions options);

  // Key of a program; empty if the program must not be cached.
  std::string Key(const ir::Program& program, const std::string& encoded_options);
  // Loads an executable; nullptr is a miss. `key` may be empty, here and in the next two functions.
  PJRT_LoadedExecutable* Load(PJRT_Client* client, const std::string& key);
  // Stores an executable that was compiled: one that was loaded serializes without its code.
  void Store(const std::string& key, PJRT_LoadedExecutable* executable);
  void Remove(const std::string& key);

 private:
  std::shared_ptr<CompileCache> EnabledCache();
  // Common part of all keys of this client. Computed on first use, because that reads the whole
  // plugin.
  absl::StatusOr<std::string> EnvironmentKey(CompileCache& cache);
  void Disable(const absl::Status& why);

  const Plugin plugin_;
  const std::vector<std::string> client_facts_;
  std::mutex mutex_;                     // guards the members below
  std::shared_ptr<CompileCache> cache_;  // nullptr: disabled
  std::string surroundings_;
};

}  // namespace penstock::runtime
