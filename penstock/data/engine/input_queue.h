// InputQueue: an input and its queue of rows that were received and not yet passed on. For nodes
// with several inputs, which must have rows of each before they return any.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/data/engine/rows.h"
#include "penstock/data/stage.h"

namespace penstock::data {

class InputQueue {
 public:
  explicit InputQueue(std::unique_ptr<Node> input) : input_(std::move(input)) {}

  // Not empty after Fill returned kReady.
  RowRefs& rows() { return rows_; }

  // Requests at most `max_rows` rows if the queue is empty.
  absl::StatusOr<Poll> Fill(int64_t max_rows) {
    if (!rows_.empty()) return Poll::kReady;
    if (!error_.ok()) return error_;
    if (input_ == nullptr) return Poll::kEnd;
    return Keep(input_->Next(max_rows, &rows_));
  }

  // As Node::Skip.
  absl::StatusOr<Poll> Skip(int64_t* rows) {
    const int64_t part = std::min(*rows, rows_.size());
    RowRefs passed;
    rows_.MoveFront(part, &passed);
    *rows -= part;
    if (*rows == 0) return Poll::kReady;
    if (!error_.ok() && !IsRecoverable(error_)) return error_;
    if (!error_.ok()) {
      error_ = absl::OkStatus();
      if (--*rows == 0) return Poll::kReady;
    }
    if (input_ == nullptr) return Poll::kEnd;
    return Keep(input_->Skip(rows));
  }

  // Removes the stored error. Fill returns it again until this is called.
  absl::Status TakeError() { return std::exchange(error_, absl::OkStatus()); }

  void Advance() {
    if (input_ != nullptr) input_->Advance();
  }

 private:
  absl::StatusOr<Poll> Keep(absl::StatusOr<Poll> poll) {
    if (!poll.ok()) error_ = poll.status();
    if (poll.ok() && *poll == Poll::kEnd) input_.reset();
    return poll;
  }

  std::unique_ptr<Node> input_;  // null after its end
  RowRefs rows_;
  absl::Status error_;
};

}  // namespace penstock::data
