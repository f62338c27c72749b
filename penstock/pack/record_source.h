// What is converted into shards: a list of inputs, each of which gives one record. pack, reshard
// and the readers of other formats are each one of these; convert.h does the rest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/pack/shard_plan.h"

namespace penstock::pack {

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
  // ReadInput and ContentError (read_input.h) give errors of storage and of contents these codes.
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

}  // namespace penstock::pack
