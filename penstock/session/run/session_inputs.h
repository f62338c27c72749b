// SessionInputs: the host inputs of one session, and what it has read of them and transferred to
// the devices ahead of the Run that needs it.
//
// A Run stages its inputs: it takes the elements that it needs from the queues of their sources and
// has a buffer for each on each device. When the program is dispatched, the elements for the next
// Run of the same program are read and their transfers started, so that it waits for neither.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/data/engine/buffer_pool.h"
#include "penstock/runtime/client.h"
#include "penstock/session/run/host_input.h"

namespace penstock::session {

// An output of a host input's node that is a parameter of a program.
struct InputSlot {
  HostInputSource* source = nullptr;
  int element = 0;        // which of the elements that one Run takes of the source
  int output = 0;         // which of the element's arrays
  bool sliced = false;    // each replica gets its part of axis 0, otherwise all of it
  std::string name = "";  // of the tensor, for errors

  friend bool operator==(const InputSlot& a, const InputSlot& b) {
    return a.source == b.source && a.element == b.element && a.output == b.output &&
           a.sliced == b.sliced;
  }
};

// The host inputs of a program.
struct InputPlan {
  // The sources, and the number of elements that one step takes of each.
  struct Use {
    HostInputSource* source = nullptr;
    int64_t elements = 1;
    friend bool operator==(const Use&, const Use&) = default;
  };
  std::vector<Use> uses;
  std::vector<InputSlot> slots;
  friend bool operator==(const InputPlan&, const InputPlan&) = default;
};

// Arguments for one execution.
struct StagedInputs {
  // [replica][slot]; of several steps: stacks with one more axis in front.
  std::vector<runtime::Buffers> buffers;
  std::vector<ir::TensorType> types;  // of the slots, for one step, not sliced
  int64_t steps = 0;                  // number of steps that there are elements for
};

// Used by one thread at a time.
class SessionInputs {
 public:
  void SetDevices(absl::Span<const runtime::Device> devices) { devices_ = devices; }
  // Tells the seed with which the source is opened when it is first needed. Only the first call for
  // a source counts.
  void Register(const HostInputSource& source, uint64_t seed) { seeds_.try_emplace(&source, seed); }

  // Reads the elements for the next `max_steps` steps, without taking them, and stacks them if
  // depth > 1, into stacks of this extent.
  // Fewer at the end of the data and before an element of other types; OUT_OF_RANGE if there is
  // none. Uses what StageAhead has done for the same slots, depth and number of devices.
  absl::StatusOr<const StagedInputs*> Stage(const InputPlan& plan, int64_t depth, int64_t max_steps,
                                            runtime::Client& client,
                                            absl::Span<const runtime::Device> devices);
  // Takes what the last call of Stage returned, for its first `steps` steps, whose elements are
  // removed from the queues.
  StagedInputs Take(int64_t steps);
  // Stages for the execution after this one, if all sources may be read ahead. Errors are returned
  // by the next Stage.
  void StageAhead(const InputPlan& plan, int64_t depth, runtime::Client& client,
                  absl::Span<const runtime::Device> devices);

  // The next element on the host, without taking it; for types before devices are chosen, and for
  // outputs that are fetched as they are.
  absl::StatusOr<const std::vector<Array>*> Peek(HostInputSource& source, int64_t element);

  // Replaces the state of a source: an initialized iterator. What was read ahead is dropped.
  void Set(const HostInputSource& source, std::unique_ptr<HostInput> input);
  // The state of a source; null if it has not been opened or set.
  const HostInput* Find(const HostInputSource& source) const;
  // Position of the next element that a Run will take (HostInput::Position).
  absl::StatusOr<std::string> Position(HostInputSource& source);

 private:
  struct Queued {
    std::vector<Array> arrays;
    std::string position_before;
  };
  struct Queue {
    std::unique_ptr<HostInput> input;
    std::deque<Queued> elements;
    absl::Status end;  // the error after `elements`; OK: not reached
  };
  // What was staged, and for which arguments.
  struct Staged {
    InputPlan plan;
    int64_t depth = 0;
    StagedInputs inputs;
  };
  // Number of programs that have staged inputs at the same time: training and evaluation alternate.
  static constexpr size_t kMaxStaged = 4;

  // Drops what was staged of the source.
  void Drop(const HostInputSource* source);
  absl::StatusOr<Queue*> Open(HostInputSource& source);
  // Reads until there are `count` elements or the data ends.
  void Fill(Queue& queue, int64_t count);
  absl::StatusOr<int64_t> AvailableSteps(const InputPlan& plan, int64_t max_steps);
  const Array& ArrayOf(const InputPlan& plan, const InputSlot& slot, int64_t step);
  // Limits `steps` to the first ones whose arrays have the types of step 0.
  int64_t StepsOfOneType(const InputPlan& plan, int64_t steps);
  absl::StatusOr<StagedInputs> Transfer(const InputPlan& plan, int64_t depth, int64_t max_steps,
                                        runtime::Client& client,
                                        absl::Span<const runtime::Device> devices);
  absl::StatusOr<Array> StackOf(const InputPlan& plan, const InputSlot& slot, int64_t depth,
                                int64_t steps, int replica, int replicas);

  absl::Span<const runtime::Device> devices_;
  absl::flat_hash_map<const HostInputSource*, uint64_t> seeds_;
  absl::flat_hash_map<const HostInputSource*, std::unique_ptr<Queue>> queues_;
  std::vector<Staged> staged_;  // the last one: of the last call of Stage
  std::shared_ptr<data::BufferPool> memory_ = data::BufferPool::Make();
};

}  // namespace penstock::session
