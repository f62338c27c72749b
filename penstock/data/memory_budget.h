// MemoryBudget: what one iterator may hold. Everything that waits somewhere in a pipeline is
// charged against it, to the account of the stage that holds it: what sources have read ahead, what
// a shuffle buffer pins, batches under way. There are two kinds of holding:
//
//   room     what a stage holds to work ahead. It takes it only as long as there is some left.
//   need     the least with which a stage works: a shuffle buffer, one batch, one block of each
//            file. It is taken in any case; when all needs together exceed the budget, the pipeline
//            cannot run in it, and the error names the stage that needs most.
//
//   MemoryAccount* account = budget->Open("Shuffle(2048)", "a smaller buffer");
//   MemoryCharge charge(account, block_bytes);            // until it goes, or MoveTo
//   PENSTOCK_RETURN_IF_ERROR(need.Set(account->charged()));
//
// Charging is a few atomic additions, done for each block or batch and never for an element.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace penstock::data {

class MemoryAccount;

// Any thread, but for Open.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  // `limited_by` says in errors where the number comes from.
  static std::shared_ptr<MemoryBudget> Make(int64_t bytes, std::string limited_by);
  // 0: half of what this process can still take.
  static std::shared_ptr<MemoryBudget> MakeDefault(int64_t bytes);

  // An account for a stage, which lives as long as the budget. `advice` says what would make it
  // need less. All are opened before the first charge.
  MemoryAccount* Open(std::string stage, std::string advice = "");

  int64_t bytes() const { return bytes_; }
  int64_t charged() const { return charged_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t needed() const { return needed_.load(std::memory_order_relaxed); }
  // Whether `more` bytes can be held to work ahead: what stages need is left free for them.
  bool HasRoom(int64_t more) const;
  // ResourceExhausted when what stages need exceeds the budget.
  absl::Status Check() const;

 private:
  friend class MemoryAccount;
  friend class MemoryNeed;
  MemoryBudget(int64_t bytes, std::string limited_by)
      : bytes_(bytes), limited_by_(std::move(limited_by)) {}

  const int64_t bytes_;
  const std::string limited_by_;
  std::deque<MemoryAccount> accounts_;
  std::atomic<int64_t> charged_ = 0;
  std::atomic<int64_t> needed_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

class MemoryAccount {
 public:
  MemoryAccount(MemoryBudget& budget, std::string stage, std::string advice)
      : budget_(budget), stage_(std::move(stage)), advice_(std::move(advice)) {}

  MemoryBudget& budget() const { return budget_; }
  int64_t charged() const { return charged_.load(std::memory_order_relaxed); }
  int64_t needed() const { return needed_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  bool HasRoom(int64_t more) const { return budget_.HasRoom(more); }

 private:
  friend class MemoryBudget;
  friend class MemoryCharge;
  friend class MemoryNeed;
  void Charge(int64_t bytes, bool in_budget);
  void Need(int64_t more);
  void NeedCharged(int64_t bytes);

  MemoryBudget& budget_;
  const std::string stage_;
  const std::string advice_;
  std::atomic<int64_t> charged_ = 0;
  std::atomic<int64_t> needed_ = 0;
  std::atomic<int64_t> peak_ = 0;
  // Accessed only by the thread that drives the nodes.
  int num_needs_of_charged_ = 0;
  int64_t needed_of_charged_ = 0;
};

// Bytes that are held until it goes. It may outlive the iterator. One thread at a time.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryAccount* account, int64_t bytes)
      : budget_(account->budget().shared_from_this()), account_(account), bytes_(bytes) {
    account_->Charge(bytes_, true);
  }
  MemoryCharge(MemoryCharge&& other) noexcept { *this = std::move(other); }
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
    std::swap(kept_, other.kept_);
    return *this;
  }
  ~MemoryCharge() {
    if (account_ != nullptr) account_->Charge(-bytes_, true);
  }

  int64_t bytes() const { return bytes_; }
  void Set(int64_t bytes) {
    account_->Charge(bytes - bytes_, true);
    bytes_ = bytes;
  }
  // Another stage holds it now. Nothing where nothing is charged (arrays that are the user's), to
  // the same account, to another iterator's, or where it is kept.
  void MoveTo(MemoryAccount* account) {
    if (account_ == account || account_ == nullptr || kept_ || account == nullptr) return;
    if (&account->budget() != budget_.get()) return;
    account_->Charge(-bytes_, false);
    account_ = account;
    account_->Charge(bytes_, false);
  }
  // It stays in its account from now on (Cache), and may be shared by threads.
  void Keep() { kept_ = true; }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  MemoryAccount* account_ = nullptr;
  int64_t bytes_ = 0;
  bool kept_ = false;
};

// A node's minimum working set, for its lifetime. Nodes of one account (several passes, the
// datasets of an Interleave) add up. Used by the thread that drives the nodes.
class MemoryNeed {
 public:
  explicit MemoryNeed(MemoryAccount* account) : account_(account) {}
  ~MemoryNeed() { Clear(); }
  MemoryNeed(const MemoryNeed&) = delete;
  MemoryNeed& operator=(const MemoryNeed&) = delete;

  int64_t bytes() const { return bytes_; }
  // An error when all needs no longer fit.
  absl::Status Set(int64_t bytes) {
    if (bytes == bytes_) return absl::OkStatus();
    account_->Need(bytes - bytes_);
    bytes_ = bytes;
    return account_->budget().Check();
  }
  // As Set, for a node that needs everything charged to its account (a shuffle buffer). Nodes of
  // one account share that amount: it counts once.
  absl::Status SetToCharged();
  void Clear();

 private:
  MemoryAccount* const account_;
  int64_t bytes_ = 0;
  bool of_charged_ = false;
};

}  // namespace penstock::data
