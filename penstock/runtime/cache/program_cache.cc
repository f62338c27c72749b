#include "penstock/runtime/cache/program_cache.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/runtime/cache/cache_key.h"
#include "penstock/runtime/pjrt/pjrt_api.h"
#include "penstock/runtime/pjrt/plugin_log.h"

namespace penstock::runtime {
namespace {

// Format version: changes when the meaning of entries or of keys changes.
constexpr absl::string_view kFormat = "penstock compile cache 1";

// Serializes the program that `executable` was loaded from, and passes the bytes to `use`.
template <typename Use>
absl::Status Serialize(const PJRT_Api* api, PJRT_LoadedExecutable* executable, Use use) {
  PENSTOCK_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, get);
  get.loaded_executable = executable;
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api, PJRT_LoadedExecutable_GetExecutable, get));
  PENSTOCK_PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = get.executable;
  const absl::Status status = PENSTOCK_PJRT_CALL(api, PJRT_Executable_Serialize, args);
  if (status.ok()) {
    use(absl::string_view(args.serialized_bytes, args.serialized_bytes_size));
    args.serialized_executable_deleter(args.serialized_executable);
  }
  PENSTOCK_PJRT_ARGS(PJRT_Executable_Destroy_Args, destroy);
  destroy.executable = get.executable;
  PENSTOCK_PJRT_CALL(api, PJRT_Executable_Destroy, destroy).IgnoreError();
  return status;
}

// A compiler's dump requires a compile.
bool AsksForADump(absl::string_view flags) { return absl::StrContains(flags, "xla_dump_to"); }

}  // namespace

ProgramCache::ProgramCache(Plugin plugin, std::vector<std::string> client_facts,
                           CompileCacheOptions options)
    : plugin_(std::move(plugin)), client_facts_(std::move(client_facts)) {
  if (options.folder.empty()) return;
  const absl::Status opened = [&] {
    if (!HasFunction(plugin_.api, &PJRT_Api::PJRT_Executable_Serialize) ||
        !HasFunction(plugin_.api, &PJRT_Api::PJRT_Executable_DeserializeAndLoad)) {
      return MissingFunction(plugin_.api, "serialization of executables");
    }
    absl::StatusOr<std::unique_ptr<CompileCache>> cache = CompileCache::Open(std::move(options));
    if (!cache.ok()) return cache.status();
    cache_ = *std::move(cache);
    return absl::OkStatus();
  }();
  if (!opened.ok()) Disable(opened);
}

void ProgramCache::Disable(const absl::Status& why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  cache_ = nullptr;
  WriteToLog(plugin_.log_path,
             absl::StrCat("there is no compile cache with ", plugin_.path, ": ", why.message()));
}

std::shared_ptr<CompileCache> ProgramCache::EnabledCache() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cache_;
}

absl::StatusOr<std::string> ProgramCache::EnvironmentKey(CompileCache& cache) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!surroundings_.empty()) return surroundings_;
  PENSTOCK_ASSIGN_OR_RETURN(std::string plugin, HashFile(plugin_.path, plugin_.identity, cache));
  PENSTOCK_ASSIGN_OR_RETURN(std::string processor, ProcessorFeatures());
  std::vector<std::string> parts = client_facts_;
  parts.insert(parts.end(), {std::string(kFormat), plugin_.device, std::move(plugin),
                             std::move(processor), EnvironmentFlags()});
  surroundings_ = CacheKey(parts);
  return surroundings_;
}

std::string ProgramCache::Key(const ir::Program& program, const std::string& encoded_options) {
  const std::shared_ptr<CompileCache> cache = EnabledCache();
  if (cache == nullptr || AsksForADump(encoded_options) || AsksForADump(EnvironmentFlags())) {
    return "";
  }
  const absl::StatusOr<std::string> surroundings = EnvironmentKey(*cache);
  if (!surroundings.ok()) {
    Disable(surroundings.status());
    return "";
  }
  return CacheKey({*surroundings, encoded_options, ir::TextWithoutLocations(program)});
}

PJRT_LoadedExecutable* ProgramCache::Load(PJRT_Client* client, const std::string& key) {
  const std::shared_ptr<CompileCache> cache = EnabledCache();
  if (cache == nullptr || key.empty()) return nullptr;
  const std::optional<std::string> bytes = cache->Find(key);
  if (!bytes.has_value()) return nullptr;
  PENSTOCK_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = client;
  args.serialized_executable = bytes->data();
  args.serialized_executable_size = bytes->size();
  const absl::Status status =
      PENSTOCK_PJRT_CALL(plugin_.api, PJRT_Executable_DeserializeAndLoad, args);
  if (status.ok()) return args.loaded_executable;
  cache->Remove(key);
  return nullptr;
}

void ProgramCache::Store(const std::string& key, PJRT_LoadedExecutable* executable) {
  const std::shared_ptr<CompileCache> cache = EnabledCache();
  if (cache == nullptr || key.empty()) return;
  const absl::Status status = Serialize(plugin_.api, executable,
                                        [&](absl::string_view bytes) { cache->Store(key, bytes); });
  if (!status.ok()) Disable(status);
}

void ProgramCache::Remove(const std::string& key) {
  const std::shared_ptr<CompileCache> cache = EnabledCache();
  if (cache != nullptr && !key.empty()) cache->Remove(key);
}

}  // namespace penstock::runtime
