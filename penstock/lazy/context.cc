#include "penstock/lazy/context.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/delayed_call.h"
#include "penstock/base/status.h"
#include "penstock/lazy/metrics.h"

namespace penstock::lazy {
namespace {

constexpr int kSilentSeconds = 10;

}  // namespace

std::shared_ptr<Context> Context::Of(std::shared_ptr<runtime::Client> client) {
  if (client == nullptr) return nullptr;
  static std::mutex mutex;
  // By client; never destroyed, because devices may be released while the process ends.
  static auto& contexts = *new std::map<runtime::Client*, std::weak_ptr<Context>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Context>& known = contexts[client.get()];
  std::shared_ptr<Context> context = known.lock();
  if (context == nullptr) known = context = std::make_shared<Context>(std::move(client));
  return context;
}

Context::Context(std::shared_ptr<runtime::Client> client)
    : client_(std::move(client)),
      lowering_(kernels::Lowering::For(*client_)),
      in_flight_(client_->devices().size()) {}

Context::~Context() {
  for (size_t i = 0; i < in_flight_.size(); ++i) Synchronize(static_cast<int>(i)).IgnoreError();
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> Context::Load(
    const StepProgram& program, const std::vector<int>& devices) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<Entry>& known = programs_[{program.key, devices}];
    if (known == nullptr) known = std::make_shared<Entry>();
    entry = known;
    entry->used = ++uses_;
    Evict();
  }
  const std::lock_guard<std::mutex> lock(entry->mutex);
  if (entry->executable != nullptr) {
    met::Metrics::Process().AddCounter("CachedCompile");
    return entry->executable;
  }
  PENSTOCK_ASSIGN_OR_RETURN(entry->executable, Compile(program, devices));
  return entry->executable;
}

void Context::Evict() {
  if (programs_.size() <= kMaxPrograms) return;
  programs_.erase(std::min_element(
      programs_.begin(), programs_.end(),
      [](const auto& a, const auto& b) { return a.second->used < b.second->used; }));
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> Context::Compile(
    const StepProgram& program, const std::vector<int>& devices) {
  const met::TimeSample timed("CompileTime");
  met::Metrics::Process().AddCounter("UncachedCompile");
  PENSTOCK_ASSIGN_OR_RETURN(const auto graph, program.graph());
  PENSTOCK_ASSIGN_OR_RETURN(const ir::Program printed,
                            lowering_.Print(*graph, {.donate = program.donate}));
  // Which memory a step replaces is the program's business; a copy is no mistake.
  const runtime::CompileOptions options{.devices = devices, .allow_copied_donations = true};
  std::string why;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // The same program for another device, as a replica of xmp::spawn has it, is no change.
    const auto first = programs_.lower_bound({program.key, {}});
    const bool known =
        std::next(first) != programs_.end() && std::next(first)->first.first == program.key;
    if (!known) why = WhatChanged(printed, options);
  }
  if (!why.empty()) {
    met::Metrics::Process().AddRecompilation(why);
    client_->Log(absl::StrCat("recompiling ", printed.name, ": ", why));
  }
  // So that a program does not seem to hang in its first step.
  const base::DelayedCall slow(kSilentSeconds, [&printed] {
    std::fprintf(stderr,
                 "lazy: a step with %zu inputs and %zu results is still compiling after %d s\n",
                 printed.parameters.size(), printed.results.size(), kSilentSeconds);
  });
  return client_->Compile(printed, options);
}

std::string Context::WhatChanged(const ir::Program& program,
                                 const runtime::CompileOptions& options) {
  const std::string in_general = history_.Add(program, options);
  // Usually it is the shape of an input.
  std::vector<std::string> fewest;
  for (const std::vector<ir::TensorType>& before : types_) {
    if (before.size() != program.parameters.size()) continue;
    std::vector<std::string> changes;
    for (size_t i = 0; i < before.size(); ++i) {
      const ir::TensorType &from = before[i], &to = program.parameters[i];
      if (from == to) continue;
      const bool same = from.dtype == to.dtype;
      changes.push_back(absl::StrCat("input ", i, ": ",
                                     same ? from.shape.ToString() : from.ToString(), " -> ",
                                     same ? to.shape.ToString() : to.ToString()));
    }
    if (changes.empty()) {
      fewest.clear();
      break;
    }
    if (fewest.empty() || changes.size() < fewest.size()) fewest = std::move(changes);
  }
  types_.push_back(program.parameters);
  if (types_.size() > kKeptTypes) types_.pop_front();
  if (fewest.empty()) return in_general;
  constexpr size_t kShown = 3;
  const size_t more = fewest.size() - std::min(fewest.size(), kShown);
  fewest.resize(fewest.size() - more);
  return absl::StrCat(absl::StrJoin(fewest, ", "),
                      more == 0 ? "" : absl::StrCat(" and ", more, " more inputs"));
}

absl::StatusOr<runtime::Buffer> Context::Put(const base::Array& array, int device) {
  const met::TimeSample timed("TransferToDeviceTime");
  met::Metrics::Process().AddSample("OutboundData", met::Unit::kBytes,
                                    static_cast<double>(array.num_bytes()));
  return client_->Put(array, client_->devices()[device]);
}

absl::StatusOr<base::Array> Context::Get(const runtime::Buffer& buffer) {
  const met::TimeSample timed("TransferFromDeviceTime");
  PENSTOCK_ASSIGN_OR_RETURN(base::Array array, buffer.Get());
  met::Metrics::Process().AddSample("InboundData", met::Unit::kBytes,
                                    static_cast<double>(array.num_bytes()));
  return array;
}

absl::Status Context::Dispatched(int device, const runtime::Buffer& result,
                                 runtime::Buffers donated) {
  Execution execution;
  execution.copy = base::Array::Uninitialized(result.type().dtype, result.type().shape);
  execution.donated = std::move(donated);
  PENSTOCK_ASSIGN_OR_RETURN(execution.done, result.GetAsync(execution.copy));
  Execution oldest;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::deque<Execution>& queue = in_flight_[device];
    queue.push_back(std::move(execution));
    if (queue.size() <= kMaxInFlight) return absl::OkStatus();
    oldest = std::move(queue.front());
    queue.pop_front();
  }
  return oldest.done->Await();
}

absl::Status Context::Synchronize(int device) {
  std::deque<Execution> all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    all.swap(in_flight_[device]);
  }
  absl::Status first;
  for (Execution& execution : all) first.Update(execution.done->Await());
  return first;
}

}  // namespace penstock::lazy
