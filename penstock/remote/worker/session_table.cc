#include "penstock/remote/worker/session_table.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include <openssl/rand.h>

#include "penstock/base/status.h"

namespace penstock::remote {
namespace {

constexpr size_t kIdBytes = 16;
constexpr size_t kMaxWord = 64;

absl::StatusOr<std::string> RandomId() {
  std::string id(kIdBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(id.data()), static_cast<int>(id.size())) != 1) {
    return absl::InternalError("the system has no random numbers for the id of a session");
  }
  return id;
}

}  // namespace

// In the worker's time zone.
std::string LegibleTime(double unix_seconds, double now_unix_seconds) {
  const auto then = static_cast<std::time_t>(unix_seconds);
  const auto now = static_cast<std::time_t>(now_unix_seconds);
  std::tm parts = {}, today = {};
  localtime_r(&then, &parts);
  localtime_r(&now, &today);
  const std::string time = absl::StrFormat("%02d:%02d", parts.tm_hour, parts.tm_min);
  if (parts.tm_year == today.tm_year && parts.tm_yday == today.tm_yday) return time;
  return absl::StrFormat("%d-%02d-%02d %s", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                         time);
}

std::string ShortId(absl::string_view id) { return absl::BytesToHexString(id.substr(0, 4)); }

std::string LegibleSeconds(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, std::min(seconds, 1e12)));
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrCat(whole / 60, " min");
  return absl::StrCat(whole / 3600, " h");
}

std::string Printable(absl::string_view text, size_t limit) {
  if (text.empty()) return "unknown";
  std::string out = absl::CHexEscape(text.substr(0, limit));
  if (text.size() > limit) out += "...";
  return out;
}

SessionTable::SessionTable(SessionTableOptions options) : options_(std::move(options)) {}

absl::StatusOr<SessionTable::Admitted> SessionTable::Admit(const SessionClaim& claim) {
  const std::lock_guard<std::mutex> admitting(admitting_);
  if (claim.devices < 0 || claim.devices > options_.devices) {
    return absl::InvalidArgumentError(absl::StrCat("the session asks for ", claim.devices,
                                                   " devices, but the worker at ", options_.address,
                                                   " has ", options_.devices));
  }
  const std::vector<SessionEntry> others = List();
  if (options_.share) return AdmitSharing(claim, others);
  return AdmitOwner(claim, others);
}

absl::StatusOr<SessionTable::Admitted> SessionTable::AdmitOwner(const SessionClaim& claim,
                                                                std::vector<SessionEntry> others) {
  if (others.empty()) {
    std::vector<int> all(claim.devices > 0 ? claim.devices : options_.devices);
    std::iota(all.begin(), all.end(), 0);
    return Add(claim, std::move(all));
  }
  const SessionEntry& holder = others.front();
  const std::string in_use = absl::StrCat(options_.platform, " devices of ", options_.address,
                                          " are in use by ", Describe(holder));
  if (!claim.take_over) {
    return absl::FailedPreconditionError(
        absl::StrCat(in_use,
                     "; wait, or take over with --take-over / "
                     "PENSTOCK_REMOTE_TAKE_OVER=1 if it is yours"));
  }
  if (holder.claim.owner != claim.owner) {
    return absl::PermissionDeniedError(
        absl::StrCat(in_use, ", which belongs to ", Printable(holder.claim.owner), ", not to ",
                     Printable(claim.owner), ": only its owner may take over; wait until it ends"));
  }
  Admitted admitted;
  admitted.ends = {holder.id};
  return admitted;
}

absl::StatusOr<SessionTable::Admitted> SessionTable::AdmitSharing(
    const SessionClaim& claim, const std::vector<SessionEntry>& others) {
  std::vector<bool> taken(options_.devices, false);
  for (const SessionEntry& other : others) {
    for (const int device : other.devices) taken[device] = true;
  }
  std::vector<int> free;
  for (int i = 0; i < options_.devices; ++i) {
    if (!taken[i]) free.push_back(i);
  }
  const int wanted = claim.devices > 0 ? claim.devices : static_cast<int>(free.size());
  if (wanted > 0 && wanted <= static_cast<int>(free.size()) &&
      static_cast<int>(others.size()) < options_.max_sessions) {
    free.resize(wanted);
    return Add(claim, std::move(free));
  }
  // What is missing, a take-over of the owner's own sessions may free: of those whose clients are gone, if that is enough.
  std::vector<std::string> own, gone, described;
  size_t freed = 0;
  for (const SessionEntry& other : others) {
    if (described.size() < 8) described.push_back(Describe(other));
    if (other.claim.owner != claim.owner) continue;
    own.push_back(other.id);
    if (other.connected || other.claim.training) continue;
    gone.push_back(other.id);
    freed += other.devices.size();
  }
  if (claim.take_over && !own.empty()) {
    const bool enough = !gone.empty() && static_cast<size_t>(wanted) <= free.size() + freed;
    Admitted admitted;
    admitted.ends = enough ? std::move(gone) : std::move(own);
    return admitted;
  }
  if (static_cast<int>(others.size()) >= options_.max_sessions) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the worker at ", options_.address, " has ", others.size(),
                     " sessions, which is its limit (--max-sessions); wait until one ends"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      free.size(), " of ", options_.devices, " ", options_.platform, " devices of ",
      options_.address, " are free",
      claim.devices > 0 ? absl::StrCat(", but ", claim.devices, " are requested") : "",
      "; in use by ", absl::StrJoin(described, "; "),
      free.empty() ? "; wait until one ends" : "; ask for fewer",
      own.empty() ? "" : ", or take over yours with --take-over / PENSTOCK_REMOTE_TAKE_OVER=1"));
}

absl::StatusOr<SessionTable::Admitted> SessionTable::Add(const SessionClaim& claim,
                                                         std::vector<int> devices) {
  std::string id = claim.id;
  if (id.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(id, RandomId());
  }
  SessionEntry entry{.id = id,
                     .claim = claim,
                     .devices = devices,
                     .since_unix_seconds = options_.clock->UnixSeconds(),
                     .since_seconds = options_.clock->Seconds()};
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.push_back(std::move(entry));
  return Admitted{.id = std::move(id), .devices = std::move(devices), .ends = {}};
}

void SessionTable::SetConnected(const std::string& id, bool connected) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (SessionEntry& entry : entries_) {
    if (entry.id == id) entry.connected = connected;
  }
}

bool SessionTable::IsConnected(const std::string& id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const SessionEntry& entry) { return entry.id == id && entry.connected; });
}

std::string SessionTable::Describe(const std::string& id) const {
  for (const SessionEntry& entry : List()) {
    if (entry.id == id) return Describe(entry);
  }
  return absl::StrCat("session ", ShortId(id));
}

void SessionTable::Remove(const std::string& id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [&](const SessionEntry& entry) { return entry.id == id; }),
                 entries_.end());
}

std::vector<SessionEntry> SessionTable::List() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_;
}

bool SessionTable::Contains(const std::string& id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const SessionEntry& entry) { return entry.id == id; });
}

size_t SessionTable::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

double SessionTable::IdleSeconds(const SessionEntry& entry) const {
  const double last = options_.last_request ? options_.last_request(entry.id) : -1;
  return std::max(0.0, options_.clock->Seconds() - std::max(last, entry.since_seconds));
}

std::string SessionTable::Describe(const SessionEntry& entry) const {
  return absl::StrCat("session ", ShortId(entry.id), " from ", Printable(entry.claim.host), " (",
                      Printable(entry.claim.user), ") since ",
                      LegibleTime(entry.since_unix_seconds, options_.clock->UnixSeconds()),
                      ", idle ", LegibleSeconds(IdleSeconds(entry)),
                      entry.connected ? "" : ", its client is disconnected");
}

}  // namespace penstock::remote
