#include "penstock/data/engine/memory_budget.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/available_memory.h"

namespace penstock::data {
namespace {

void RaiseTo(std::atomic<int64_t>& maximum, int64_t value) {
  int64_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

std::shared_ptr<MemoryBudget> MemoryBudget::Make(int64_t bytes, std::string limited_by) {
  return std::shared_ptr<MemoryBudget>(new MemoryBudget(bytes, std::move(limited_by)));
}

std::shared_ptr<MemoryBudget> MemoryBudget::MakeDefault(int64_t bytes) {
  if (bytes > 0) return Make(bytes, "IteratorOptions.memory_bytes");
  const base::MemoryHeadroom room = base::AvailableMemory();
  return Make(room.bytes / 2,
              absl::StrCat("half of the memory available to this process, limited by ",
                           room.limited_by.empty() ? "default" : room.limited_by));
}

MemoryAccount* MemoryBudget::Open(std::string stage, std::string advice) {
  return &accounts_.emplace_back(*this, std::move(stage), std::move(advice));
}

bool MemoryBudget::CanReadAhead(int64_t more) const {
  // The sum is at most that of charges and reservations, which nearly always suffices to answer
  // yes.
  if (charged() + reserved_.load(std::memory_order_relaxed) + more <= bytes_) return true;
  int64_t taken = 0;
  for (const MemoryAccount& account : accounts_) {
    taken += std::max(account.charged(), account.reserved());
  }
  return taken + more <= bytes_;
}

absl::Status MemoryBudget::Check() const {
  const int64_t needed = reserved_.load(std::memory_order_relaxed);
  if (needed <= bytes_) return absl::OkStatus();
  std::vector<const MemoryAccount*> by_reserved;
  for (const MemoryAccount& account : accounts_) {
    if (account.reserved() > 0) by_reserved.push_back(&account);
  }
  if (by_reserved.empty()) return absl::OkStatus();  // released by another thread meanwhile
  std::stable_sort(by_reserved.begin(), by_reserved.end(),
                   [](const auto* a, const auto* b) { return a->reserved() > b->reserved(); });
  const MemoryAccount& first = *by_reserved[0];
  std::string others;
  if (by_reserved.size() > 1) {
    others =
        absl::StrCat(", and all stages together reserve at least ", base::PrintBytes(needed), " (",
                     absl::StrJoin(by_reserved, ", ",
                                   [](std::string* out, const MemoryAccount* account) {
                                     absl::StrAppend(out, account->stage_, ": ",
                                                     base::PrintBytes(account->reserved()));
                                   }),
                     ")");
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      first.stage_, " needs at least ", base::PrintBytes(first.reserved()), " of memory", others,
      ", but this iterator's memory budget is ", base::PrintBytes(bytes_), " (", limited_by_, "). ",
      first.advice_.empty() ? "" : absl::StrCat("What helps: ", first.advice_, "; or "),
      first.advice_.empty() ? "Give it more" : "more", " IteratorOptions.memory_bytes"));
}

void MemoryAccount::Charge(int64_t bytes, bool in_budget) {
  const int64_t now = charged_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (bytes > 0) RaiseTo(peak_, now);
  if (!in_budget) return;
  const int64_t all = budget_.charged_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (bytes > 0) RaiseTo(budget_.peak_, all);
}

void MemoryAccount::Reserve(int64_t more) {
  reserved_.fetch_add(more, std::memory_order_relaxed);
  budget_.reserved_.fetch_add(more, std::memory_order_relaxed);
}

void MemoryAccount::ReserveCharged(int64_t bytes) {
  Reserve(bytes - reserved_of_charged_);
  reserved_of_charged_ = bytes;
}

absl::Status MemoryReservation::SetToCharged() {
  if (!std::exchange(of_charged_, true)) ++account_->num_reserving_charged_;
  account_->ReserveCharged(account_->charged());
  return account_->budget().Check();
}

void MemoryReservation::Clear() {
  account_->Reserve(-std::exchange(bytes_, 0));
  if (std::exchange(of_charged_, false) && --account_->num_reserving_charged_ == 0) {
    account_->ReserveCharged(0);
  }
}

}  // namespace penstock::data
