// InputQueue: an input, and the rows that were taken from it and not yet passed on. For nodes of
// several inputs, which have to know what each of them has before they give anything.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/data/rows.h"
#include "penstock/data/stage.h"

namespace penstock::data {

class InputQueue {
 public:
  explicit InputQueue(std::unique_ptr<Node> input) : input_(std::move(input)) {}

  // Not empty after Fill said kReady.
  Rows& rows() { return rows_; }

  // Takes at most `max_rows` when there are none.
  absl::StatusOr<Poll> Fill(int64_t max_rows) {
    if (!rows_.empty()) return Poll::kReady;
    if (!error_.ok()) return error_;
    if (input_ == nullptr) return Poll::kEnd;
    return Keep(input_->Next(max_rows, &rows_));
  }

  // As Node::Skip.
  absl::StatusOr<Poll> Skip(int64_t* rows) {
    const int64_t part = std::min(*rows, rows_.size());
    Rows passed;
    rows_.MoveFront(part, &passed);
    *rows -= part;
    if (*rows == 0) return Poll::kReady;
    if (!error_.ok() && !IsOfOneElement(error_)) return error_;
    if (!error_.ok()) {
      error_ = absl::OkStatus();
      if (--*rows == 0) return Poll::kReady;
    }
    if (input_ == nullptr) return Poll::kEnd;
    return Keep(input_->Skip(rows));
  }

  // An error comes again until its node has passed it on.
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
  Rows rows_;
  absl::Status error_;
};

}  // namespace penstock::data
