// What a conversion into shards is to make and how far it has come: a file beside the shards, so
// that one that was stopped goes on where it was, and one with other inputs or options is not taken
// for it.
//
//   PENSTOCK_ASSIGN_OR_RETURN(std::optional<ShardPlan> plan, ReadShardPlan(fs, folder));
//   if (plan && !JobDifference(plan->job, job).empty()) return Refused();  // another conversion
//   PENSTOCK_RETURN_IF_ERROR(KeepWholeShards(fs, folder, *plan).status());
//   for (int64_t i = plan->next(); i < inputs; ++i) Pack(i);               // resumes here
//
// The file is replaced, whole, after each shard. Killed between the two, the conversion makes that
// shard again: the same inputs give the same name and bytes.
//
// Two conversions into one folder would replace each other's shards, which have the same names. In
// a local folder the second one is refused (folder_lock.h). In an object store each reads the plan
// before it replaces it: one that finds another's plan leaves a plan without shards, and fails, so
// that both fail and no folder with shards of both is finished.
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

// Everything the bytes of the shards depend on, named in words a user knows: ("--seed", "5").
using Job = std::vector<std::pair<std::string, std::string>>;

struct PlannedShard {
  Shard shard = {};
  int64_t end = 0;  // inputs [end of the shard before, end) are in it, or unreadable
};

struct UnreadableInput {
  int64_t position = 0;  // in the order of the inputs
  std::string name = {};
  std::string why = {};
};

struct ShardPlan {
  Job job = {};
  std::vector<PlannedShard> shards = {};
  std::vector<UnreadableInput> unreadable = {};  // before next(), or all when finished
  bool finished = false;

  int64_t next() const { return shards.empty() ? 0 : shards.back().end; }
  int64_t records() const;
  // Forgets shard `count` and those behind it.
  void KeepShards(size_t count);
};

// Nothing when there is none; DataLoss when it is corrupt: no JSON, or it contradicts itself.
absl::StatusOr<std::optional<ShardPlan>> ReadShardPlan(io::FileSystem& fs,
                                                       absl::string_view folder);
absl::Status WriteShardPlan(io::FileSystem& fs, absl::string_view folder, const ShardPlan& plan);

// Whether the plan in `folder` is the one that WriteShardPlan wrote for `plan`; UNAVAILABLE when
// there is none.
absl::StatusOr<bool> IsShardPlan(io::FileSystem& fs, absl::string_view folder,
                                 const ShardPlan& plan);

// Lets the plan end before the first shard that is not there as it was written; the name of that
// one, or "".
absl::StatusOr<std::string> KeepWholeShards(io::FileSystem& fs, absl::string_view folder,
                                            ShardPlan& plan);

// For readers of data sets. FailedPrecondition when one of `shards` is beside the plan of a
// conversion that is not finished: each shard is whole, but others are missing. DataLoss when one
// of them has another size than it was written with: a copy that was cut off between two records
// reads like a whole file.
absl::Status RefuseIncomplete(io::FileSystem& fs, absl::Span<const std::string> shards);

// "--seed was 5 and is 6; images was 1000 (8a..) and is 1001 (3c..)"; "" when they are the same.
std::string JobDifference(const Job& then, const Job& now);

// A number of everything that was added, in order, to tell lists apart.
class Fingerprint {
 public:
  void Add(absl::string_view bytes);
  void Add(int64_t number);
  std::string ToString() const;  // 16 hexadecimal digits

 private:
  uint64_t state_ = 0;
};

}  // namespace penstock::pack
