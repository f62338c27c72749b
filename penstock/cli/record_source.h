// What is converted into shards: a list of inputs, each of which gives one record. pack, reshard
// and the readers of other formats are each one of these; convert.h does the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/cli/shard_plan.h"
#include "penstock/io/file_system.h"

namespace penstock::cli {

class RecordSource {
 public:
  virtual ~RecordSource() = default;

  virtual int64_t size() const = 0;
  // Input i as the report of unreadable ones names it.
  virtual std::string Name(int64_t i) const = 0;
  // The bytes of input i's record, the same each time; called once for each, from any thread.
  //   INVALID_ARGUMENT, DATA_LOSS  the input itself is bad: it is left out and listed
  //   every other code             nothing is known of the input (a service that does not answer, a
  //                                full disk): the conversion stops, and can be resumed
  // ReadInput and ContentError give errors of storage and of contents these codes.
  virtual absl::StatusOr<std::string> Make(int64_t i) const = 0;
  // Everything that the records depend on, the list of inputs included.
  virtual Job job() const = 0;

  // The labels in the order of their numbers, for classes.txt; empty when they are not known.
  virtual std::vector<std::string> classes() const { return {}; }
  // What the inputs are, for messages: "images".
  virtual const char* noun() const { return "images"; }
  // Whether reading means waiting for a network, so that more threads than cores pay.
  virtual bool waits_for_network() const { return false; }
};

// Whether an error of Make is about the input itself.
bool IsBadInput(const absl::Status& status);

// An error of reading an input, which is never about its contents: INVALID_ARGUMENT (EINVAL of a
// disk, ...) becomes UNAVAILABLE.
absl::Status StorageError(const absl::Status& status);

// An error of decoding bytes that were read whole. An image over the limits or of an unsupported
// kind (RESOURCE_EXHAUSTED, UNIMPLEMENTED) is as bad at the next attempt: INVALID_ARGUMENT.
absl::Status ContentError(const absl::Status& status);

// The bytes of a file that was listed, with StorageError's codes. A file that does not exist is
// INVALID_ARGUMENT only if a second look confirms that it is missing and its folder is not; so an
// unmounted disk stops a conversion.
absl::StatusOr<std::string> ReadInput(io::FileSystem& fs, const std::string& uri);

// The bytes of a file that need not exist (names of classes): nothing when two looks agree that it
// does not.
absl::StatusOr<std::optional<std::string>> ReadOptional(io::FileSystem& fs, const std::string& uri);

// Whether a file lies in object storage.
bool IsRemote(absl::string_view uri);

}  // namespace penstock::cli
