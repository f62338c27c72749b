// Where plugins' own messages go. They print to stderr, most of it while they load and create a
// client. Two means, because neither is enough:
//   - Verbosity: XLA's libraries read TF_CPP_MIN_LOG_LEVEL once, when they load. Unless the user
//     set it, LoadPlugin makes it 2: errors only.
//   - While a plugin loads and creates its client, file descriptor 2 is the log. This takes
//     milliseconds (a TPU: seconds); what other threads print to stderr just then lands there too.
// Later errors of a plugin's still reach stderr: they come before a crash and must be seen.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock::runtime {

// `asked`, or $XDG_CACHE_HOME/penstock/plugins.log (default ~/.cache). Makes the folder.
std::string LogPath(const std::string& asked);

// Adds a line of our own; where the log cannot be opened, nothing.
void WriteToLog(const std::string& path, absl::string_view line);

// While it lives, file descriptor 2 is the log. One at a time in a process: others wait. Does
// nothing when the log cannot be opened.
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
