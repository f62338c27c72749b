// PluginLog: redirects plugins' own messages to a file. Plugins print to stderr, mostly while they
// load and create a client. Two mechanisms, because neither is enough:
//   - Verbosity: XLA's libraries read TF_CPP_MIN_LOG_LEVEL once, when they load. Unless the user
//     set it, LoadPlugin sets it to 2: errors only.
//   - While a plugin loads and creates its client, file descriptor 2 is the log. This takes
//     milliseconds (a TPU: seconds); what other threads print to stderr meanwhile is logged too.
// Later errors of a plugin still reach stderr: they precede a crash and must be seen.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock::runtime {

// Path of the log: `requested`, or $XDG_CACHE_HOME/penstock/plugins.log (default ~/.cache). Creates
// the folder.
std::string LogPath(const std::string& requested);

// Appends a line; does nothing if the log cannot be opened.
void WriteToLog(const std::string& path, absl::string_view line);

// Redirects file descriptor 2 to the log during its lifetime. One at a time in a process: others
// block. Does nothing if the log cannot be opened.
class StderrToLog {
 public:
  explicit StderrToLog(const std::string& path);
  ~StderrToLog();
  StderrToLog(const StderrToLog&) = delete;
  StderrToLog& operator=(const StderrToLog&) = delete;

 private:
  int saved_ = -1;
};

}  // namespace penstock::runtime
