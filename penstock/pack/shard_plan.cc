#include "penstock/pack/shard_plan.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/json_dump.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/pack/read_input.h"

namespace penstock::pack {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// Throws nlohmann::json's exceptions if a value is missing or of the wrong type.
absl::StatusOr<ShardPlan> FromJson(const Json& json) {
  if (json.at("penstock_plan") != kVersion)
    return absl::InvalidArgumentError("unsupported version");
  ShardPlan plan;
  for (const auto& [name, value] : json.at("job").items()) {
    plan.job.emplace_back(name, value.get<std::string>());
  }
  for (const Json& s : json.at("shards")) {
    const int64_t before = plan.next();
    plan.shards.push_back(
        {.shard = {.file = s.at("file"), .records = s.at("records"), .bytes = s.at("bytes")},
         .end = s.at("end")});
    const Shard& shard = plan.shards.back().shard;
    if (!IsShardName(shard.file) || plan.next() <= before || shard.records <= 0 ||
        shard.records > plan.next() - before)
      return absl::InvalidArgumentError("a shard has an invalid name, no inputs or no records");
  }
  for (const Json& u : json.at("unreadable")) {
    plan.unreadable.push_back(
        {.position = u.at("position"), .name = u.at("name"), .why = u.at("why")});
  }
  plan.finished = json.at("finished");
  int64_t unreadable = 0;
  for (const UnreadableInput& u : plan.unreadable) unreadable += u.position < plan.next();
  if (plan.records() + unreadable != plan.next())
    return absl::InvalidArgumentError("inconsistent numbers of records");
  return plan;
}

Json ToJson(const ShardPlan& plan) {
  Json json{{"penstock_plan", kVersion}, {"finished", plan.finished}};
  json["job"] = Json::object();
  for (const auto& [name, value] : plan.job) json["job"][name] = value;
  json["shards"] = Json::array();
  for (const PlannedShard& s : plan.shards) {
    json["shards"].push_back({{"file", s.shard.file},
                              {"records", s.shard.records},
                              {"bytes", s.shard.bytes},
                              {"end", s.end}});
  }
  json["unreadable"] = Json::array();
  for (const UnreadableInput& u : plan.unreadable) {
    json["unreadable"].push_back({{"position", u.position}, {"name", u.name}, {"why", u.why}});
  }
  return json;
}

std::string TextOf(const ShardPlan& plan) { return base::DumpJson(ToJson(plan), 1) + "\n"; }

std::string PlanUri(absl::string_view folder) { return io::JoinPath(folder, kShardPlanFile); }

const std::string* Find(const Job& job, absl::string_view name) {
  for (const auto& [key, value] : job) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace

int64_t ShardPlan::records() const {
  int64_t sum = 0;
  for (const PlannedShard& s : shards) sum += s.shard.records;
  return sum;
}

void ShardPlan::KeepShards(size_t count) {
  shards.resize(std::min(count, shards.size()));
  std::erase_if(unreadable, [&](const UnreadableInput& u) { return u.position >= next(); });
  finished = false;
}

absl::StatusOr<std::optional<ShardPlan>> ReadShardPlan(io::FileSystem& fs,
                                                       absl::string_view folder) {
  const std::string uri = PlanUri(folder);
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<std::string> text, ReadOptional(fs, uri));
  if (!text) return std::nullopt;
  std::string why;
  try {
    absl::StatusOr<ShardPlan> plan = FromJson(Json::parse(*text));
    if (plan.ok()) return *std::move(plan);
    why = std::string(plan.status().message());
  } catch (const Json::exception& e) {
    why = e.what();
  }
  return absl::DataLossError(absl::StrCat(io::DisplayName(uri), " is corrupt (", why,
                                          "); remove it, or start over with the overwrite option"));
}

absl::Status WriteShardPlan(io::FileSystem& fs, absl::string_view folder, const ShardPlan& plan) {
  return io::WriteFile(fs, PlanUri(folder), TextOf(plan));
}

absl::StatusOr<bool> IsShardPlan(io::FileSystem& fs, absl::string_view folder,
                                 const ShardPlan& plan) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                            ReadOptional(fs, PlanUri(folder)));
  if (!text) {
    return absl::UnavailableError(
        absl::StrCat(io::DisplayName(PlanUri(folder)),
                     " was written but no longer exists; check its disk or network, and whether "
                     "another process writes shards to this folder"));
  }
  return *text == TextOf(plan);
}

absl::StatusOr<std::string> KeepIntactShards(io::FileSystem& fs, absl::string_view folder,
                                             ShardPlan& plan) {
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    const Shard& shard = plan.shards[i].shard;
    const absl::StatusOr<io::FileInfo> info = fs.Stat(io::JoinPath(folder, shard.file));
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    if (!info.ok() || info->is_directory || info->size != shard.bytes) {
      const std::string file = shard.file;
      plan.KeepShards(i);
      return file;
    }
  }
  return "";
}

namespace {

absl::Status CheckFinished(absl::string_view folder, const ShardPlan& plan) {
  if (plan.finished) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the shards in ", io::DisplayName(folder),
      " are incomplete: the conversion that writes them was stopped after ", plan.shards.size(),
      " shards with ", plan.records(), " records, or is still running (according to ",
      kShardPlanFile, "). Run the conversion again to resume it"));
}

// Lists the folder once, whatever the number of shards.
absl::Status CheckSizes(io::FileSystem& fs, const std::string& folder, const ShardPlan& plan,
                        const std::set<std::string>& shards) {
  std::map<absl::string_view, int64_t> written;
  for (const PlannedShard& planned : plan.shards) {
    written[planned.shard.file] = planned.shard.bytes;
  }
  const auto files = fs.List(folder);
  if (absl::IsPermissionDenied(files.status()))
    return absl::OkStatus();  // read access to files only
  PENSTOCK_RETURN_IF_ERROR(files.status());
  for (const io::FileInfo& file : *files) {
    const std::string name = io::Basename(file.uri);
    const auto found = written.find(name);
    if (found == written.end() || file.size == found->second || shards.count(name) == 0) continue;
    return absl::DataLossError(absl::StrCat(
        io::DisplayName(file.uri), " has ", file.size, " bytes, but was written with ",
        found->second, " (according to ", kShardPlanFile,
        "): it was truncated or replaced. Copy it again, or run the conversion again, which "
        "rewrites this shard; if you replaced the file intentionally, remove ",
        kShardPlanFile));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckShardsComplete(io::FileSystem& fs, absl::Span<const std::string> shards) {
  std::map<std::string, std::set<std::string>> folders;
  for (const std::string& shard : shards) {
    const std::string name = io::Basename(shard);
    if (IsShardName(name)) folders[io::Dirname(shard)].insert(name);
  }
  for (const auto& [folder, names] : folders) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::optional<ShardPlan> plan, ReadShardPlan(fs, folder));
    if (!plan) continue;
    PENSTOCK_RETURN_IF_ERROR(CheckFinished(folder, *plan));
    PENSTOCK_RETURN_IF_ERROR(CheckSizes(fs, folder, *plan, names));
  }
  return absl::OkStatus();
}

std::string JobDifference(const Job& before, const Job& now) {
  // Plans name options as the command does: "--shard-size" is shown as "shard size".
  const auto shown = [](absl::string_view name) {
    return absl::ConsumePrefix(&name, "--") ? absl::StrReplaceAll(name, {{"-", " "}})
                                            : std::string(name);
  };
  std::vector<std::string> differences;
  for (const auto& [name, value] : now) {
    const std::string* earlier = Find(before, name);
    if (earlier == nullptr) {
      differences.push_back(absl::StrCat(shown(name), " is new (", value, ")"));
    } else if (*earlier != value) {
      differences.push_back(absl::StrCat(shown(name), " was ", *earlier, " and is now ", value));
    }
  }
  for (const auto& [name, value] : before) {
    if (Find(now, name) == nullptr)
      differences.push_back(absl::StrCat(shown(name), " was ", value, " and is no longer set"));
  }
  return absl::StrJoin(differences, "; ");
}

void Fingerprint::Add(absl::string_view bytes) {
  Add(static_cast<int64_t>(bytes.size()));
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    state_ = base::MixSeeds(state_, word);
  }
}

void Fingerprint::Add(int64_t number) {
  state_ = base::MixSeeds(state_, static_cast<uint64_t>(number));
}

std::string Fingerprint::ToString() const { return absl::StrFormat("%016x", state_); }

}  // namespace penstock::pack
