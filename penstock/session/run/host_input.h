// Host inputs: operations whose outputs the host provides at each Run, as arguments of the program
// (batches of a Dataset, initial values of variables). Their node has a HostInputSource as `extra`,
// and no `lower`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/runtime/client.h"
#include "penstock/session/graph.h"

namespace penstock::session {

class SessionInputs;  // session_inputs.h

// State of one host input in one session.
class HostInput {
 public:
  virtual ~HostInput() = default;
  // The outputs of the operation for one Run that needs it; called before the program is chosen, so
  // shapes may differ from Run to Run. OUT_OF_RANGE at the end of the data. The arrays must not be
  // written afterwards.
  virtual absl::StatusOr<std::vector<Array>> Next() = 0;
  // Whether the session may call Next, and transfer what it returns, for a Run to come.
  virtual bool reads_ahead() const { return false; }
  // Position after the last element that Next returned, from which another process can resume;
  // empty if there is none.
  virtual std::string Position() const { return ""; }
};

// Several nodes may share a source: in one Run each gets an element, in the order of their ids.
class HostInputSource : public NodeExtra {
 public:
  // Called by each session when it first needs the operation. `seed`: of the session's random
  // numbers for this operation (reproducible if the graph or the operation has a seed).
  virtual absl::StatusOr<std::unique_ptr<HostInput>> Open(uint64_t seed) = 0;
  // The same for operations about the session's devices.
  virtual absl::StatusOr<std::unique_ptr<HostInput>> OpenFor(
      absl::Span<const runtime::Device> /*devices*/, uint64_t seed) {
    return Open(seed);
  }
  // The operation's own seed.
  virtual std::optional<uint64_t> op_seed() const { return std::nullopt; }
};

// NodeExtra of operations that change a session's host inputs (an iterator's initializer). They run
// on the host, before the program of the same Run. `seed`: as HostInputSource::Open.
class HostEffect : public NodeExtra {
 public:
  virtual absl::Status Run(SessionInputs& inputs, uint64_t seed) = 0;
};

}  // namespace penstock::session
