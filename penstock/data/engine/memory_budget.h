// MemoryBudget: the memory budget of one iterator (IteratorOptions.memory_bytes). All data that
// waits in a pipeline is charged to the account of the stage that holds it: read-ahead of sources,
// blocks referenced by a shuffle buffer, batches in flight. There are two kinds of memory:
//
//   opportunistic   read-ahead and prefetch: allocated only while the budget has free memory
//                   (CanReadAhead)
//   reserved        the minimum working set of a stage (MemoryReservation): a shuffle buffer, one
//                   batch, one block of each file. It is always allocated; if all reservations
//                   together exceed the budget, the pipeline is rejected, and the error names the
//                   stage that reserves most.
//
// Example:
//
//   MemoryAccount* account = budget->Open("Shuffle(2048)", "a smaller buffer");
//   MemoryCharge charge(account, block_bytes);  // charged until it is destroyed, or MoveTo
//   MemoryReservation reservation(account);
//   PENSTOCK_RETURN_IF_ERROR(reservation.Set(account->charged()));
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

// Thread-safe, except Open.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  // `limited_by` is where the limit comes from, for errors.
  static std::shared_ptr<MemoryBudget> Make(int64_t bytes, std::string limited_by);
  // `bytes` 0: half of the memory that is available to this process.
  static std::shared_ptr<MemoryBudget> MakeDefault(int64_t bytes);

  // Opens an account for a stage, which lives as long as the budget. `advice` says how to reduce
  // its reservation. All accounts are opened before the first charge.
  MemoryAccount* Open(std::string stage, std::string advice = "");

  int64_t bytes() const { return bytes_; }
  int64_t charged() const { return charged_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  int64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  // Whether `more` bytes of opportunistic memory (read-ahead) fit into the budget besides all
  // charges and reservations.
  bool CanReadAhead(int64_t more) const;
  // ResourceExhausted if the reservations exceed the budget.
  absl::Status Check() const;

 private:
  friend class MemoryAccount;
  friend class MemoryReservation;
  MemoryBudget(int64_t bytes, std::string limited_by)
      : bytes_(bytes), limited_by_(std::move(limited_by)) {}

  const int64_t bytes_;
  const std::string limited_by_;
  std::deque<MemoryAccount> accounts_;
  std::atomic<int64_t> charged_ = 0;
  std::atomic<int64_t> reserved_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

class MemoryAccount {
 public:
  MemoryAccount(MemoryBudget& budget, std::string stage, std::string advice)
      : budget_(budget), stage_(std::move(stage)), advice_(std::move(advice)) {}

  MemoryBudget& budget() const { return budget_; }
  int64_t charged() const { return charged_.load(std::memory_order_relaxed); }
  int64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  bool CanReadAhead(int64_t more) const { return budget_.CanReadAhead(more); }

 private:
  friend class MemoryBudget;
  friend class MemoryCharge;
  friend class MemoryReservation;
  void Charge(int64_t bytes, bool in_budget);
  void Reserve(int64_t more);
  void ReserveCharged(int64_t bytes);

  MemoryBudget& budget_;
  const std::string stage_;
  const std::string advice_;
  std::atomic<int64_t> charged_ = 0;
  std::atomic<int64_t> reserved_ = 0;
  std::atomic<int64_t> peak_ = 0;
  // Accessed only by the thread that drives the nodes.
  int num_reserving_charged_ = 0;
  int64_t reserved_of_charged_ = 0;
};

// Charge of some bytes to an account until it is destroyed. It may outlive the iterator. One thread
// at a time.
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
    std::swap(pinned_, other.pinned_);
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
  // Moves the charge to the account of another stage, which holds the memory now. No effect if
  // nothing is charged (user's arrays), for the same account, for another iterator's account, or if
  // pinned.
  void MoveTo(MemoryAccount* account) {
    if (account_ == account || account_ == nullptr || pinned_ || account == nullptr) return;
    if (&account->budget() != budget_.get()) return;
    account_->Charge(-bytes_, false);
    account_ = account;
    account_->Charge(bytes_, false);
  }
  // Pins the charge to its account (Cache); it may then be shared by threads.
  void Pin() { pinned_ = true; }

 private:
  std::shared_ptr<MemoryBudget> budget_;
  MemoryAccount* account_ = nullptr;
  int64_t bytes_ = 0;
  bool pinned_ = false;
};

// Reservation of a node's minimum working set, for its lifetime. Reservations of nodes of one
// account (several passes, the datasets of an Interleave) add up. Used by the thread that drives
// the nodes.
class MemoryReservation {
 public:
  explicit MemoryReservation(MemoryAccount* account) : account_(account) {}
  ~MemoryReservation() { Clear(); }
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;

  int64_t bytes() const { return bytes_; }
  // Sets the reservation. Returns an error if the reservations exceed the budget.
  absl::Status Set(int64_t bytes) {
    if (bytes == bytes_) return absl::OkStatus();
    account_->Reserve(bytes - bytes_);
    bytes_ = bytes;
    return account_->budget().Check();
  }
  // As Set, for a node that reserves everything charged to its account (a shuffle buffer). Nodes of
  // one account share that amount: it counts once.
  absl::Status SetToCharged();
  void Clear();

 private:
  MemoryAccount* const account_;
  int64_t bytes_ = 0;
  bool of_charged_ = false;
};

}  // namespace penstock::data
