#include "penstock/data/memory_budget.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/available_memory.h"

namespace penstock::data {
namespace {

void RaiseTo(std::atomic<int64_t>& most, int64_t value) {
  int64_t seen = most.load(std::memory_order_relaxed);
  while (seen < value && !most.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

std::shared_ptr<MemoryBudget> MemoryBudget::Make(int64_t bytes, std::string limited_by) {
  return std::shared_ptr<MemoryBudget>(new MemoryBudget(bytes, std::move(limited_by)));
}

std::shared_ptr<MemoryBudget> MemoryBudget::MakeDefault(int64_t bytes) {
  if (bytes > 0) return Make(bytes, "IteratorOptions.memory_bytes");
  const base::MemoryRoom room = base::AvailableMemory();
  return Make(room.bytes / 2, absl::StrCat("half of what is available to this process, by ",
                                           room.limited_by.empty() ? "default" : room.limited_by));
}

MemoryAccount* MemoryBudget::Open(std::string stage, std::string advice) {
  return &accounts_.emplace_back(*this, std::move(stage), std::move(advice));
}

bool MemoryBudget::HasRoom(int64_t more) const {
  // The sum is at most that of charged and needed, which nearly always suffices to say yes.
  if (charged() + needed_.load(std::memory_order_relaxed) + more <= bytes_) return true;
  int64_t taken = 0;
  for (const MemoryAccount& account : accounts_) {
    taken += std::max(account.charged(), account.needed());
  }
  return taken + more <= bytes_;
}

absl::Status MemoryBudget::Check() const {
  const int64_t needed = needed_.load(std::memory_order_relaxed);
  if (needed <= bytes_) return absl::OkStatus();
  std::vector<const MemoryAccount*> by_need;
  for (const MemoryAccount& account : accounts_) {
    if (account.needed() > 0) by_need.push_back(&account);
  }
  if (by_need.empty()) return absl::OkStatus();  // somebody else's went meanwhile
  std::stable_sort(by_need.begin(), by_need.end(),
                   [](const auto* a, const auto* b) { return a->needed() > b->needed(); });
  const MemoryAccount& first = *by_need[0];
  std::string others;
  if (by_need.size() > 1) {
    others = absl::StrCat(", and all stages together at least ", base::PrintBytes(needed), " (",
                          absl::StrJoin(by_need, ", ",
                                        [](std::string* out, const MemoryAccount* account) {
                                          absl::StrAppend(out, account->stage_, ": ",
                                                          base::PrintBytes(account->needed()));
                                        }),
                          ")");
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      first.stage_, " needs at least ", base::PrintBytes(first.needed()), " of memory", others,
      ", but this iterator may hold ", base::PrintBytes(bytes_), " (", limited_by_, "). ",
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

void MemoryAccount::Need(int64_t more) {
  needed_.fetch_add(more, std::memory_order_relaxed);
  budget_.needed_.fetch_add(more, std::memory_order_relaxed);
}

void MemoryAccount::NeedCharged(int64_t bytes) {
  Need(bytes - needed_of_charged_);
  needed_of_charged_ = bytes;
}

absl::Status MemoryNeed::SetToCharged() {
  if (!std::exchange(of_charged_, true)) ++account_->num_needs_of_charged_;
  account_->NeedCharged(account_->charged());
  return account_->budget().Check();
}

void MemoryNeed::Clear() {
  account_->Need(-std::exchange(bytes_, 0));
  if (std::exchange(of_charged_, false) && --account_->num_needs_of_charged_ == 0) {
    account_->NeedCharged(0);
  }
}

}  // namespace penstock::data
