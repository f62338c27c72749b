// ShardPlan: the inputs, options and progress of a conversion, stored in a file beside the shards.
// With it an interrupted conversion is resumed, and a conversion with different inputs or options
// is detected.
//
//   PENSTOCK_ASSIGN_OR_RETURN(std::optional<ShardPlan> plan, ReadShardPlan(fs, folder));
//   if (plan && !JobDifference(plan->job, job).empty()) return Rejected();  // another conversion
//   PENSTOCK_RETURN_IF_ERROR(KeepIntactShards(fs, folder, *plan).status());
//   for (int64_t i = plan->next(); i < inputs; ++i) Pack(i);                // resumes here
//
// The file is replaced atomically after each shard. A conversion that is killed between publishing
// a shard and replacing the plan rewrites that shard: the same inputs give the same name and bytes.
//
// Two conversions in one folder would replace each other's shards, which have the same names. In a
// local folder the second one is rejected (io/local/folder_lock.h). In an object store each conversion reads
// the plan before it replaces it; if it finds the plan of another conversion, it writes a plan
// without shards and fails. So both fail, and no folder with shards of both is marked as finished.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/io/file_system.h"
#include "penstock/pack/shard_writer.h"

namespace penstock::pack {

inline constexpr char kShardPlanFile[] = "pack-plan.json";

// Everything that the bytes of the shards depend on, as pairs of name and value: ("--seed", "5").
// The names are stored in the plan.
using Job = std::vector<std::pair<std::string, std::string>>;

struct PlannedShard {
  Shard shard = {};
  int64_t end = 0;  // it holds the readable inputs of [end of the previous shard, end)
};

struct UnreadableInput {
  int64_t position = 0;  // position in the order of the inputs
  std::string name = {};
  std::string why = {};
};

struct ShardPlan {
  Job job = {};
  std::vector<PlannedShard> shards = {};
  std::vector<UnreadableInput> unreadable = {};  // those before next(); all if finished
  bool finished = false;

  // Position of the first input that is not in a shard.
  int64_t next() const { return shards.empty() ? 0 : shards.back().end; }
  // Number of records in all shards.
  int64_t records() const;
  // Removes all shards but the first `count`.
  void KeepShards(size_t count);
};

// Returns nullopt if there is no plan, DataLoss if it is corrupt (invalid JSON, inconsistent).
absl::StatusOr<std::optional<ShardPlan>> ReadShardPlan(io::FileSystem& fs,
                                                       absl::string_view folder);
absl::Status WriteShardPlan(io::FileSystem& fs, absl::string_view folder, const ShardPlan& plan);

// Returns true if the plan in `folder` is the one that WriteShardPlan wrote for `plan`; UNAVAILABLE
// if there is none.
absl::StatusOr<bool> IsShardPlan(io::FileSystem& fs, absl::string_view folder,
                                 const ShardPlan& plan);

// Truncates the plan before the first shard that is missing or has a different size than when it
// was written. Returns the file name of that shard, or "".
absl::StatusOr<std::string> KeepIntactShards(io::FileSystem& fs, absl::string_view folder,
                                             ShardPlan& plan);

// Check for readers of data sets. FailedPrecondition if one of `shards` is in the folder of an
// unfinished conversion: each shard is complete, but others are missing. DataLoss if a shard has a
// different size than when it was written: a copy that is truncated between two records is a valid
// file.
absl::Status CheckShardsComplete(io::FileSystem& fs, absl::Span<const std::string> shards);

// Describes the differences: "seed was 5 and is now 6; images was 1000 (8a..) and is now 1001
// (3c..)". Returns "" if the jobs are equal.
std::string JobDifference(const Job& before, const Job& now);

// Order-dependent hash of everything that is added.
class Fingerprint {
 public:
  void Add(absl::string_view bytes);
  void Add(int64_t number);
  std::string ToString() const;  // 16 hexadecimal digits

 private:
  uint64_t state_ = 0;
};

}  // namespace penstock::pack
