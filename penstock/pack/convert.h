// A RecordSource into a folder of shards: in parallel, in an order that a seed decides, the same
// bytes whatever the number of threads, resuming where an earlier run was stopped. pack.h calls it.
//
//   PENSTOCK_RETURN_IF_ERROR(CheckOut(*fs, options));     // before the inputs are listed
//   PENSTOCK_ASSIGN_OR_RETURN(const ShardPlan made, Convert(*fs, source, options));
//
// Beside the shards stand classes.txt (where the labels are known), unreadable.csv (where inputs
// could not be read) and the plan (shard_plan.h).
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/io/file_system.h"
#include "penstock/pack/pack_options.h"
#include "penstock/pack/record_source.h"
#include "penstock/pack/shard_plan.h"

namespace penstock::pack {

inline constexpr char kUnreadableFile[] = "unreadable.csv";
inline constexpr char kClassesFile[] = "classes.txt";

// Checks the options, and that shards can be written to options.out. A folder that an earlier run
// completed is fine: Convert compares it.
absl::Status CheckOut(io::FileSystem& fs, const PackOptions& options);

// `fs` is used instead of options.file_system.
absl::StatusOr<ShardPlan> Convert(io::FileSystem& fs, const RecordSource& source,
                                  const PackOptions& options);

}  // namespace penstock::pack
