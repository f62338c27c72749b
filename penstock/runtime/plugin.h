// Finding and loading a PJRT plugin: the shared library that drives one kind of device.
//
// Where it is looked for, first hit wins:
//   1. ClientOptions::plugin_path
//   2. the environment variable PENSTOCK_CPU_PLUGIN, PENSTOCK_TPU_PLUGIN or PENSTOCK_GPU_PLUGIN
//   3. ../lib/penstock/ beside the running program's folder (an installed Penstock)
//   4. third_party/unpacked/ of the source tree this was built from
//   5. the site-packages of an active Python environment (VIRTUAL_ENV, CONDA_PREFIX), then of the
//      user and of the system, where pip puts the plugins' wheels
// 1 and 2 are final: a path that was asked for and does not load is an error.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct PJRT_Api;

namespace penstock::runtime {

struct Plugin {
  std::string device;  // "cpu", "tpu" or "gpu"
  std::string path;
  std::string identity;  // of the file that was loaded (FileIdentity in cache_key.h)
  std::string log_path;  // empty: the log could not be opened, messages go to stderr
  const PJRT_Api* api = nullptr;
};

// "cpu, tpu, gpu"
std::string KnownDevices();

// Whether the plugin that was loaded for `device` drives such devices: a CPU plugin named for "gpu"
// would otherwise be a silent fallback. `platform` is what the plugin calls itself.
absl::Status CheckPlatform(const Plugin& plugin, absl::string_view platform);

// "There are plugins for: cpu (/path), gpu (/path)": for the error when another one was asked for.
std::string FoundPlugins();

// The path of the plugin for `device`; the error says where it was looked for and how to get it.
absl::StatusOr<std::string> FindPlugin(absl::string_view device, absl::string_view plugin_path);

// Loads and initialises the library, once for each path in a process; it is never unloaded (plugins
// keep threads and static state). Thread-safe. What the plugin prints meanwhile goes to the log.
absl::StatusOr<Plugin> LoadPlugin(absl::string_view device, const std::string& path,
                                  const std::string& log_path);

}  // namespace penstock::runtime
