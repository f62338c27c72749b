// RecordSource: interface of a list of inputs that are converted to shards, one record per input.
// Every function of pack.h uses an implementation of it; convert.h does the rest.
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

  // Number of inputs.
  virtual int64_t size() const = 0;
  // Name of input i in the list of unreadable inputs.
  virtual std::string Name(int64_t i) const = 0;
  // Returns the bytes of input i's record. Must be deterministic. Called once per input, from any
  // thread. Errors:
  //   INVALID_ARGUMENT, DATA_LOSS  the input is bad: it is skipped and listed
  //   any other code               the input could not be checked (an unavailable service, a full
  //                                disk): the conversion stops and can be resumed
  // ReadInput and ContentError (read_input.h) map errors of storage and decoding to these codes.
  virtual absl::StatusOr<std::string> Make(int64_t i) const = 0;
  // Everything that the records depend on, including the list of inputs.
  virtual Job job() const = 0;

  // Label of each class index, for classes.txt; empty if unknown.
  virtual std::vector<std::string> classes() const { return {}; }
  // Plural noun for the inputs, for messages.
  virtual const char* noun() const { return "images"; }
  // Returns true if Make waits for a network, so that more threads than cores are useful.
  virtual bool waits_for_network() const { return false; }
};

}  // namespace penstock::pack
