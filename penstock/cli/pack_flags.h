// Options that `penstock pack` and `penstock reshard` have in common, and what they print.
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
  std::vector<int> size = {};  // height and width, or empty
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

// Calls `pack` with the options of `flags`, with progress and messages on stderr, and prints to
// stdout what was made. Inputs that cannot be read are an error unless flags.skip_unreadable.
// `verb`: "packed".
absl::Status RunPacking(
    const PackFlags& flags, absl::string_view verb,
    const std::function<absl::StatusOr<pack::Packed>(const pack::PackOptions&)>& pack);

}  // namespace penstock::cli
