// Convert: converts a RecordSource to a folder of shards. It runs in parallel and shuffles with a
// seed; the bytes do not depend on the number of threads, and an interrupted run is resumed. Used
// by pack.h.
//
//   PENSTOCK_RETURN_IF_ERROR(CheckOut(*fs, options));     // before the inputs are listed
//   PENSTOCK_ASSIGN_OR_RETURN(const ShardPlan made, Convert(*fs, source, options));
//
// The folder also gets classes.txt (if the class names are known), unreadable.csv (if inputs were
// unreadable) and the plan (shard_plan.h).
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

// Checks the options, and that options.out is writable. A folder that an earlier run completed
// passes; Convert compares its plan.
absl::Status CheckOut(io::FileSystem& fs, const PackOptions& options);

// Writes to `fs`; options.file_system is ignored.
absl::StatusOr<ShardPlan> Convert(io::FileSystem& fs, const RecordSource& source,
                                  const PackOptions& options);

}  // namespace penstock::pack
