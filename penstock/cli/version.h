// Output of `penstock --version`. Internal to room cli.
#pragma once

#include <string>

namespace penstock::cli {

// Returns three lines: version, commit, and the plugins that were found.
std::string Version();

}  // namespace penstock::cli
