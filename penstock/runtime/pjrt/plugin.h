// Finds and loads a PJRT plugin: the shared library that drives one kind of device.
//
// Search order; the first hit wins:
//   1. ClientOptions::plugin_path
//   2. the environment variable PENSTOCK_CPU_PLUGIN, PENSTOCK_TPU_PLUGIN or PENSTOCK_GPU_PLUGIN
//   3. lib/penstock/ of the installed Penstock, or of the build folder: the folder of
//      libpenstock_folder.so, which every program that trains has loaded
//   4. the site-packages of an active Python environment (VIRTUAL_ENV, CONDA_PREFIX), then of the
//      user and of the system, where pip installs the plugins' wheels
// 1 and 2 are final: a requested path that does not load is an error.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct PJRT_Api;

namespace penstock::runtime {

struct Plugin {
  std::string device;  // "cpu", "tpu" or "gpu"
  std::string path;
  std::string identity;  // identity of the loaded file (FileIdentity in cache_key.h)
  std::string log_path;  // empty: the log could not be opened, messages go to stderr
  const PJRT_Api* api = nullptr;
};

// "cpu, tpu, gpu"
std::string KnownDevices();

// Checks that the plugin that was loaded for `device` drives such devices: a CPU plugin named for
// "gpu" would otherwise be a silent fallback. `platform` is the plugin's name of itself.
absl::Status CheckPlatform(const Plugin& plugin, absl::string_view platform);

// "There are plugins for: cpu (/path), gpu (/path)": for the error when a requested plugin is not
// found.
std::string FoundPlugins();

// Path of the plugin for `device`; the error lists the paths that were searched and says how to
// install it.
absl::StatusOr<std::string> FindPlugin(absl::string_view device, absl::string_view plugin_path);

// Loads and initializes the library, once per process for each path; it is never unloaded (plugins
// have threads and static state). Thread-safe. What the plugin prints meanwhile goes to the log.
absl::StatusOr<Plugin> LoadPlugin(absl::string_view device, const std::string& path,
                                  const std::string& log_path);

}  // namespace penstock::runtime
