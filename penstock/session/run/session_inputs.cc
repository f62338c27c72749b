#include "penstock/session/run/session_inputs.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"

namespace penstock::session {
namespace {

// Rows of axis 0 that replica `replica` gets.
std::pair<int64_t, int64_t> RowsOf(const Array& array, int replica, int replicas) {
  const int64_t rows = array.dim(0) / replicas;
  return {replica * rows, (replica + 1) * rows};
}

absl::Status CheckSlices(const InputSlot& slot, const Array& array, int replicas) {
  if (!slot.sliced) return absl::OkStatus();
  if (array.rank() > 0 && array.dim(0) % replicas == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the batch of '", slot.name, "' is ", array.TypeString(), ", whose rows ", replicas,
      " shards do not divide; batch a multiple of ", replicas, " rows with drop_remainder"));
}

ir::TensorType TypeOf(const Array& array) { return {array.dtype(), array.shape()}; }

}  // namespace

absl::StatusOr<SessionInputs::Queue*> SessionInputs::Open(HostInputSource& source) {
  std::unique_ptr<Queue>& queue = queues_[&source];
  if (queue == nullptr) queue = std::make_unique<Queue>();
  if (queue->input == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(queue->input, base::CatchExceptions([&] {
                                return source.OpenFor(devices_, seeds_[&source]);
                              }));
  }
  return queue.get();
}

void SessionInputs::Fill(Queue& queue, int64_t count) {
  while (static_cast<int64_t>(queue.elements.size()) < count && queue.end.ok()) {
    std::string position = queue.input->Position();
    // An initial value may not fit into memory.
    absl::StatusOr<std::vector<Array>> element =
        base::CatchExceptions([&] { return queue.input->Next(); });
    if (!element.ok()) {
      queue.end = element.status();
      return;
    }
    queue.elements.push_back({*std::move(element), std::move(position)});
  }
}

absl::StatusOr<const std::vector<Array>*> SessionInputs::Peek(HostInputSource& source,
                                                              int64_t element) {
  PENSTOCK_ASSIGN_OR_RETURN(Queue* const queue, Open(source));
  Fill(*queue, element + 1);
  if (static_cast<int64_t>(queue->elements.size()) <= element) return queue->end;
  return &queue->elements[element].arrays;
}

absl::StatusOr<int64_t> SessionInputs::AvailableSteps(const InputPlan& plan, int64_t max_steps) {
  int64_t steps = max_steps;
  for (const InputPlan::Use& use : plan.uses) {
    PENSTOCK_ASSIGN_OR_RETURN(Queue* const queue, Open(*use.source));
    Fill(*queue, use.elements * max_steps);
    const int64_t available = static_cast<int64_t>(queue->elements.size()) / use.elements;
    if (available == 0) return queue->end;
    steps = std::min(steps, available);
  }
  return steps;
}

const Array& SessionInputs::ArrayOf(const InputPlan& plan, const InputSlot& slot, int64_t step) {
  const auto use = std::find_if(plan.uses.begin(), plan.uses.end(),
                                [&](const auto& u) { return u.source == slot.source; });
  return queues_.at(slot.source)->elements[step * use->elements + slot.element].arrays[slot.output];
}

int64_t SessionInputs::StepsOfOneType(const InputPlan& plan, int64_t steps) {
  for (const InputSlot& slot : plan.slots) {
    const ir::TensorType first = TypeOf(ArrayOf(plan, slot, 0));
    for (int64_t step = 1; step < steps; ++step) {
      if (!(TypeOf(ArrayOf(plan, slot, step)) == first)) steps = step;
    }
  }
  return steps;
}

absl::StatusOr<Array> SessionInputs::StackOf(const InputPlan& plan, const InputSlot& slot,
                                             int64_t depth, int64_t steps, int replica,
                                             int replicas) {
  const auto part = [&](int64_t step) {
    const Array& array = ArrayOf(plan, slot, step);
    if (!slot.sliced) return array;
    const auto [begin, end] = RowsOf(array, replica, replicas);
    return array.Slice(begin, end);
  };
  if (depth == 1) return part(0);
  const Array first = part(0);
  if (first.rank() == base::kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "RunLoop stacks the batches of '", slot.name, "', which are ", first.TypeString(),
        "; a stack would have more than ", base::kMaxRank, " axes"));
  }
  Array stack = memory_->Allocate(first.dtype(), first.shape().Prepend(depth));
  const size_t bytes = static_cast<size_t>(first.num_bytes());
  for (int64_t step = 0; step < steps && bytes > 0; ++step) {
    char* const to = static_cast<char*>(stack.mutable_raw()) + step * static_cast<int64_t>(bytes);
    std::memcpy(to, part(step).raw(), bytes);
  }
  return stack;
}

absl::StatusOr<StagedInputs> SessionInputs::Transfer(const InputPlan& plan, int64_t depth,
                                                     int64_t max_steps, runtime::Client& client,
                                                     absl::Span<const runtime::Device> devices) {
  StagedInputs out;
  PENSTOCK_ASSIGN_OR_RETURN(out.steps, AvailableSteps(plan, max_steps));
  out.steps = StepsOfOneType(plan, out.steps);
  const int replicas = static_cast<int>(devices.size());
  for (const InputSlot& slot : plan.slots) {
    const Array& first = ArrayOf(plan, slot, 0);
    PENSTOCK_RETURN_IF_ERROR(CheckSlices(slot, first, replicas));
    out.types.push_back(TypeOf(first));
  }
  out.buffers.resize(replicas);
  std::vector<Array> whole(plan.slots.size());  // stacks that all replicas share
  for (int r = 0; r < replicas; ++r) {
    std::vector<Array> arrays;
    for (size_t i = 0; i < plan.slots.size(); ++i) {
      Array array = whole[i];
      if (!array.valid()) {
        PENSTOCK_ASSIGN_OR_RETURN(array,
                                  StackOf(plan, plan.slots[i], depth, out.steps, r, replicas));
      }
      if (!plan.slots[i].sliced) whole[i] = array;
      arrays.push_back(std::move(array));
    }
    PENSTOCK_ASSIGN_OR_RETURN(out.buffers[r], client.PutAll(arrays, devices[r]));
  }
  return out;
}

absl::StatusOr<const StagedInputs*> SessionInputs::Stage(
    const InputPlan& plan, int64_t depth, int64_t max_steps, runtime::Client& client,
    absl::Span<const runtime::Device> devices) {
  const auto ready = std::find_if(staged_.begin(), staged_.end(), [&](const Staged& staged) {
    return staged.depth == depth && staged.inputs.buffers.size() == devices.size() &&
           staged.plan == plan;
  });
  if (ready != staged_.end()) {
    std::rotate(ready, ready + 1, staged_.end());
    return &staged_.back().inputs;
  }
  PENSTOCK_ASSIGN_OR_RETURN(StagedInputs inputs, Transfer(plan, depth, max_steps, client, devices));
  if (staged_.size() == kMaxStaged) staged_.erase(staged_.begin());
  staged_.push_back({plan, depth, std::move(inputs)});
  return &staged_.back().inputs;
}

StagedInputs SessionInputs::Take(int64_t steps) {
  Staged taken = std::move(staged_.back());
  staged_.pop_back();
  for (const InputPlan::Use& use : taken.plan.uses) {
    std::deque<Queued>& elements = queues_.at(use.source)->elements;
    elements.erase(elements.begin(), elements.begin() + use.elements * steps);
    Drop(use.source);
  }
  return std::move(taken.inputs);
}

void SessionInputs::Drop(const HostInputSource* source) {
  const auto uses = [&](const Staged& staged) {
    return std::any_of(staged.plan.uses.begin(), staged.plan.uses.end(),
                       [&](const InputPlan::Use& use) { return use.source == source; });
  };
  staged_.erase(std::remove_if(staged_.begin(), staged_.end(), uses), staged_.end());
}

void SessionInputs::StageAhead(const InputPlan& plan, int64_t depth, runtime::Client& client,
                               absl::Span<const runtime::Device> devices) {
  for (const InputPlan::Use& use : plan.uses) {
    if (!queues_.at(use.source)->input->reads_ahead()) return;
  }
  // An error stays in its queue, or occurs again.
  Stage(plan, depth, depth, client, devices).IgnoreError();
}

void SessionInputs::Set(const HostInputSource& source, std::unique_ptr<HostInput> input) {
  std::unique_ptr<Queue>& queue = queues_[&source];
  queue = std::make_unique<Queue>();
  queue->input = std::move(input);
  Drop(&source);
}

const HostInput* SessionInputs::Find(const HostInputSource& source) const {
  const auto found = queues_.find(&source);
  return found == queues_.end() ? nullptr : found->second->input.get();
}

absl::StatusOr<std::string> SessionInputs::Position(HostInputSource& source) {
  PENSTOCK_ASSIGN_OR_RETURN(Queue* const queue, Open(source));
  if (!queue->elements.empty()) return queue->elements.front().position_before;
  return queue->input->Position();
}

}  // namespace penstock::session
