// What `penstock --version` prints. Internal to room cli.
#pragma once

#include <string>

namespace penstock::cli {

// Three lines: version, commit, and the plugins that are found.
std::string Version();

}  // namespace penstock::cli
