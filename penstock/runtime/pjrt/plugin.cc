#include "penstock/runtime/pjrt/plugin.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <dlfcn.h>
#include <glob.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/runtime/cache/cache_key.h"
#include "penstock/runtime/folder/folder.h"
#include "penstock/runtime/pjrt/pjrt_api.h"
#include "penstock/runtime/pjrt/plugin_log.h"

namespace penstock::runtime {
namespace {

struct PluginRow {
  const char* device;
  std::vector<const char*> platforms;  // names of the platform by its plugins
  const char* variable;
  const char* installed;  // beside Penstock's own library
  std::vector<const char*> site_packages;
  const char* how_to_get;
};

const std::vector<PluginRow>& Table() {
  static const auto& table = *new std::vector<PluginRow>{
      {"cpu",
       {"cpu"},
       "PENSTOCK_CPU_PLUGIN",
       "xla_cpu_pjrt.so",
       {"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"},
       "tools/setup in the source tree, or: pip install xla-cpu-pjrt"},
      {"tpu",
       {"tpu"},
       "PENSTOCK_TPU_PLUGIN",
       "libtpu.so",
       {"libtpu/libtpu.so"},
       "tools/setup tpu in the source tree, or: pip install libtpu"},
      {"gpu",
       {"cuda", "rocm", "sycl", "gpu"},
       "PENSTOCK_GPU_PLUGIN",
       "xla_cuda_plugin.so",
       {"jax_plugins/xla_cuda13/xla_cuda_plugin.so", "jax_plugins/xla_cuda12/xla_cuda_plugin.so"},
       "pip install 'jax-cuda13-plugin[with-cuda]' (brings jax-cuda13-pjrt and the CUDA "
       "libraries)"},
  };
  return table;
}

absl::StatusOr<const PluginRow*> FindRow(absl::string_view device) {
  for (const PluginRow& row : Table()) {
    if (device == row.device) return &row;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no device is named '", device, "'; there are ", KnownDevices()));
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Search paths of a library; entries may contain * (Python's version).
std::vector<std::string> Candidates(const PluginRow& row) {
  std::vector<std::string> out;
  if (const std::string folder = PenstockLibraryFolder(); !folder.empty()) {
    out.push_back(absl::StrCat(folder, "/", row.installed));
  }
  std::vector<std::string> packages;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = Environment(variable);
    if (!prefix.empty()) packages.push_back(prefix + "/lib/python3*/site-packages");
  }
  if (const std::string home = Environment("HOME"); !home.empty()) {
    packages.push_back(home + "/.local/lib/python3*/site-packages");
  }
  packages.push_back("/usr/local/lib/python3*/dist-packages");
  for (const std::string& folder : packages) {
    for (const char* file : row.site_packages) out.push_back(absl::StrCat(folder, "/", file));
  }
  return out;
}

// The first file that matches the pattern; empty if there is none. A dangling link does not count.
std::string FirstMatch(const std::string& pattern) {
  // The folder that Penstock is installed in may have '[' in its name.
  if (::access(pattern.c_str(), F_OK) == 0) return pattern;
  glob_t found;
  std::string path;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc && path.empty(); ++i) {
      if (::access(found.gl_pathv[i], F_OK) == 0) path = found.gl_pathv[i];
    }
  }
  ::globfree(&found);
  return path;
}

absl::Status CheckExists(const std::string& path, absl::string_view asked_by,
                         const PluginRow& row) {
  if (::access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the plugin for device '", row.device, "' that ",
                                          asked_by, " names cannot be read: ", path));
}

// All search paths but ClientOptions::plugin_path.
absl::StatusOr<std::string> Search(const PluginRow& row) {
  if (std::string path = Environment(row.variable); !path.empty()) {
    PENSTOCK_RETURN_IF_ERROR(
        CheckExists(path, absl::StrCat("the environment variable ", row.variable), row));
    return path;
  }
  const std::vector<std::string> candidates = Candidates(row);
  for (const std::string& candidate : candidates) {
    if (std::string path = FirstMatch(candidate); !path.empty()) return path;
  }
  return absl::NotFoundError(absl::StrCat(
      "device '", row.device, "' needs a plugin (a shared library), and none was found. Searched:",
      "\n  ", absl::StrJoin(candidates, "\n  "), "\nTo install it: ", row.how_to_get, "; or set ",
      row.variable, " to its path."));
}

// Before 0.57 the table of functions had another order.
constexpr int kOldestMinor = 57;

// Environment variables that plugins read once, when they load. Only variables that the user has
// not set. Writing the environment is a race with getenv in another thread, so it happens once,
// before the first plugin loads.
void PrepareEnvironment() {
  static const bool prepared = [] {
    ::setenv("TF_CPP_MIN_LOG_LEVEL", "2", /*overwrite=*/0);  // errors only
    // Outside Google's machines libtpu queries a metadata server that does not exist, for minutes.
    std::ifstream product("/sys/class/dmi/id/product_name");  // containers may have none
    std::string name;
    std::getline(product, name);
    if (!absl::StrContains(name, "Google")) {
      ::setenv("TPU_SKIP_MDS_QUERY", "1", /*overwrite=*/0);
    }
    return true;
  }();
  static_cast<void>(prepared);
}

absl::StatusOr<const PJRT_Api*> Open(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("cannot load the plugin: ", ::dlerror()));
  }
  auto get = reinterpret_cast<const PJRT_Api* (*)()>(::dlsym(library, "GetPjrtApi"));
  const PJRT_Api* api = get == nullptr ? nullptr : get();
  if (api == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a PJRT plugin: it has no GetPjrtApi"));
  }
  if (api->pjrt_api_version.major_version != PJRT_API_MAJOR ||
      api->pjrt_api_version.minor_version < kOldestMinor) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " supports PJRT API ", ApiVersion(api), "; Penstock needs ",
                     PJRT_API_MAJOR, ".", kOldestMinor, " or a later ", PJRT_API_MAJOR, ".x"));
  }
  PENSTOCK_PJRT_ARGS(PJRT_Plugin_Initialize_Args, args);
  PENSTOCK_RETURN_IF_ERROR(PENSTOCK_PJRT_CALL(api, PJRT_Plugin_Initialize, args));
  return api;
}

// A library's state is process-wide, so loaded plugins are remembered for the process.
struct Library {
  const PJRT_Api* api = nullptr;
  std::string identity;
};

struct Loaded {
  std::mutex mutex;
  std::map<std::string, Library> by_path;
};

Loaded& TheLoaded() {
  static auto& loaded = *new Loaded;
  return loaded;
}

}  // namespace

std::string KnownDevices() {
  return absl::StrJoin(Table(), ", ",
                       [](std::string* out, const PluginRow& row) { out->append(row.device); });
}

absl::Status CheckPlatform(const Plugin& plugin, absl::string_view platform) {
  PENSTOCK_ASSIGN_OR_RETURN(const PluginRow* row, FindRow(plugin.device));
  for (const char* known : row->platforms) {
    if (platform == known) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("device '", plugin.device,
                                                 "' was requested, but the plugin ", plugin.path,
                                                 " drives '", platform, "'"));
}

std::string FoundPlugins() {
  std::string found;
  for (const PluginRow& row : Table()) {
    const absl::StatusOr<std::string> path = Search(row);
    if (!path.ok()) continue;
    absl::StrAppend(&found, found.empty() ? "" : ", ", row.device, " (", *path, ")");
  }
  return absl::StrCat("There are plugins for: ", found.empty() ? "no device" : found);
}

absl::StatusOr<std::string> FindPlugin(absl::string_view device, absl::string_view plugin_path) {
  PENSTOCK_ASSIGN_OR_RETURN(const PluginRow* row, FindRow(device));
  if (!plugin_path.empty()) {
    std::string path(plugin_path);
    PENSTOCK_RETURN_IF_ERROR(CheckExists(path, "the option plugin_path", *row));
    return path;
  }
  absl::StatusOr<std::string> path = Search(*row);
  if (!absl::IsNotFound(path.status())) return path;
  return absl::NotFoundError(absl::StrCat(path.status().message(), "\n", FoundPlugins()));
}

absl::StatusOr<Plugin> LoadPlugin(absl::string_view device, const std::string& path,
                                  const std::string& log_path) {
  Loaded& loaded = TheLoaded();
  const std::lock_guard<std::mutex> lock(loaded.mutex);
  Library& library = loaded.by_path[path];
  if (library.api == nullptr) {
    PrepareEnvironment();
    const StderrToLog redirected(log_path);
    library.identity = FileIdentity(path);  // before loading: the file may be replaced later
    PENSTOCK_ASSIGN_OR_RETURN(library.api, Open(path));
  }
  return Plugin{.device = std::string(device),
                .path = path,
                .identity = library.identity,
                .log_path = log_path,
                .api = library.api};
}

}  // namespace penstock::runtime
