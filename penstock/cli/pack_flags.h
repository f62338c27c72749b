// Options and output shared by `penstock pack` and `penstock reshard`.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/cli/options.h"
#include "penstock/pack/pack.h"

namespace penstock::cli {

// --size, --quality.
struct RecompressFlags {
  std::vector<int> size = {};  // {height, width}, or empty
  int quality = 0;

  void Describe(Options& options);
  pack::RecompressOptions Value() const;
};

// --out, --shards, --shard-size, --seed, --keep-order, --threads, --overwrite, --skip-unreadable,
// --json.
struct PackFlags {
  pack::PackOptions options = {};
  bool skip_unreadable = false;
  bool json = false;

  void Describe(Options& described);
};

// Calls `pack` with the options of `flags`, prints progress and messages to stderr and the result
// to stdout. Unreadable inputs are an error unless flags.skip_unreadable. `verb` starts the result:
// "packed".
absl::Status RunPacking(
    const PackFlags& flags, absl::string_view verb,
    const std::function<absl::StatusOr<pack::Packed>(const pack::PackOptions&)>& pack);

}  // namespace penstock::cli
