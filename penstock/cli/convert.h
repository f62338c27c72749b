// A RecordSource into a folder of shards: in parallel, in an order that a seed decides, the same
// bytes whatever the number of threads, and going on where an earlier run was stopped.
//
//   ConvertOptions options;
//   options.Describe(options);
//   ...
//   PENSTOCK_ASSIGN_OR_RETURN(const ShardPlan made, Convert(*fs, source, options, stderr));
//   return PrintConversion(made, source, options, "packed");
//
// Beside the shards stand classes.txt (where the labels are known), unreadable.csv (where inputs
// could not be read) and the plan (shard_plan.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/cli/options.h"
#include "penstock/cli/record_source.h"
#include "penstock/cli/shard_plan.h"
#include "penstock/io/file_system.h"

namespace penstock::cli {

inline constexpr char kUnreadableFile[] = "unreadable.csv";
inline constexpr char kClassesFile[] = "classes.txt";

struct ConvertOptions {
  std::string out = {};
  int64_t shards = 0;                 // so many, of as many inputs each; 0: by shard_bytes
  int64_t shard_bytes = 100'000'000;  // at most, of a shard's file
  uint64_t seed = 0;
  bool keep_order = false;
  int threads = 0;  // 0: one for each core; at least 32 when the inputs are in object storage
  bool overwrite = false;
  bool skip_unreadable = false;
  bool json = false;

  void Describe(Options& options);
};

// Checks that shards can be written to options.out, before the inputs are listed. A folder that an
// earlier run completed is rejected.
absl::Status CheckOut(io::FileSystem& fs, const ConvertOptions& options);

// Progress and what the user should know on the way go to `log`.
absl::StatusOr<ShardPlan> Convert(io::FileSystem& fs, const RecordSource& source,
                                  const ConvertOptions& options, std::FILE* log);

// Prints what was made to stdout. Unreadable inputs are an error unless options.skip_unreadable.
absl::Status PrintConversion(const ShardPlan& made, const RecordSource& source,
                             const ConvertOptions& options, absl::string_view verb);

}  // namespace penstock::cli
