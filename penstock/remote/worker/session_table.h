// SessionTable: who uses which devices of a worker, and who may.
//
//   SessionTable table({.platform = "tpu", .address = "10.0.0.2:8470", .devices = 8});
//   PENSTOCK_ASSIGN_OR_RETURN(auto admitted, table.Admit({.host = "laptop", .user = "ada",
//                                                         .owner = "certificate ada"}));
//   if (!admitted.ends.empty()) { ... end these sessions, which Remove them; then Admit again }
//   ... admitted.id, admitted.devices ...
//   table.Remove(admitted.id);
//
// By default one session has all devices. With `share`, every session gets devices of its own, and one
// that asks for no number gets all that are free. A session keeps its devices until it is removed: when
// its client ended it, when its lease ended, or when its owner takes over.
//
// It decides and remembers, without network, threads or devices. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"

namespace penstock::remote {

struct SessionTableOptions {
  std::string platform = "cpu";
  std::string address = {};  // of the worker, for messages
  int devices = 1;
  bool share = false;
  int max_sessions = 64;
  base::Clock* clock = base::Clock::Real();
  // When a session has sent its last request, by `clock`; negative: unknown. Called without the table's lock.
  std::function<double(const std::string& id)> last_request = {};
};

// What a client asks for. `host` and `user` are its own words, for messages; `owner` is what its
// credentials prove.
struct SessionClaim {
  std::string host = {}, user = {};
  std::string owner = {};
  bool take_over = false;
  int devices = 0;      // number, for `share`; 0: all that are free
  std::string id = {};  // 16 bytes: the entry's, if it had one in an earlier run; empty: a new one
  bool training = false;  // a training that the worker runs
};

struct SessionEntry {
  std::string id;  // 16 random bytes
  SessionClaim claim;
  std::vector<int> devices;
  double since_unix_seconds = 0, since_seconds = 0;
  bool connected = true;
};

// The first 8 hexadecimal digits of an id: enough for people.
std::string ShortId(absl::string_view id);
// "14:02", with the date unless it is today.
std::string LegibleTime(double unix_seconds, double now_unix_seconds);
// "12 s", "3 min", "2 h".
std::string LegibleSeconds(double seconds);
// At most `limit` characters of a stranger's text, unprintable ones escaped, to stand in a terminal or a log.
std::string Printable(absl::string_view text, size_t limit = 64);

class SessionTable {
 public:
  explicit SessionTable(SessionTableOptions options);

  struct Admitted {
    std::string id;
    std::vector<int> devices;
    // Not admitted yet: sessions of the same owner to end first (take-over), then Admit again.
    std::vector<std::string> ends;
  };
  // FAILED_PRECONDITION: the devices are in use, and by whom; PERMISSION_DENIED: a take-over of another
  // owner's; RESOURCE_EXHAUSTED: fewer devices are free, or too many sessions; INVALID_ARGUMENT: the number
  // of devices.
  absl::StatusOr<Admitted> Admit(const SessionClaim& claim);
  void SetConnected(const std::string& id, bool connected);
  // The entry's devices are free. Does nothing if there is none.
  void Remove(const std::string& id);

  // Of an entry that does not exist: not connected, "session 4f3a91c2".
  bool IsConnected(const std::string& id) const;
  // "session 4f3a91c2 from HOST (user) since 14:02, idle 3 min".
  std::string Describe(const std::string& id) const;
  std::vector<SessionEntry> List() const;
  bool Contains(const std::string& id) const;
  size_t size() const;
  double IdleSeconds(const SessionEntry& entry) const;

 private:
  std::string Describe(const SessionEntry& entry) const;
  absl::StatusOr<Admitted> AdmitOwner(const SessionClaim& claim, std::vector<SessionEntry> others);
  absl::StatusOr<Admitted> AdmitSharing(const SessionClaim& claim,
                                        const std::vector<SessionEntry>& others);
  absl::StatusOr<Admitted> Add(const SessionClaim& claim, std::vector<int> devices);

  const SessionTableOptions options_;
  std::mutex admitting_;      // one Admit at a time, so that two do not get the same devices
  mutable std::mutex mutex_;  // guards entries_
  std::vector<SessionEntry> entries_;
};

}  // namespace penstock::remote
