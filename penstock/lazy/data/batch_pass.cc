#include "penstock/lazy/data/batch_pass.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/lazy/random.h"
#include "penstock/lazy/replicas.h"

namespace penstock::lazy::utils::data {
namespace {

// Reads batches in worker threads, or in Next if there are none. Worker threads take the batches in
// order and put them into `done_`, from which Next takes them in order.
class BatchPass : public BatchIterator {
 public:
  explicit BatchPass(BatchPassOptions options)
      : options_(std::move(options)), cancel_([this](const absl::Status& s) { Cancel(s); }) {}
  ~BatchPass() override {
    Cancel(absl::CancelledError("the loader's pass was abandoned"));
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Start();
  absl::StatusOr<bool> Next(Sample* batch) override;
  void Cancel(const absl::Status& status) override;

 private:
  int64_t size() const { return static_cast<int64_t>(options_.batches.size()); }
  // Number of batches that may be in work or done before the reader takes the first of them.
  int64_t Window() const {
    return static_cast<int64_t>(options_.num_workers) * options_.prefetch_factor;
  }
  void Work();
  absl::StatusOr<Sample> Read(const std::vector<int64_t>& indices);
  absl::StatusOr<Sample> Get(int64_t index) const;
  absl::Status cancelled() {
    const std::lock_guard lock(mutex_);
    return end_;
  }

  const BatchPassOptions options_;
  const uint64_t seed_ = internal::NextLoaderSeed();  // of the workers' generators
  std::vector<std::thread> threads_;
  std::mutex mutex_;  // guards the following
  std::condition_variable changed_;
  int64_t next_taken_ = 0;  // number of batches that workers have begun
  int64_t next_read_ = 0;   // number of batches that Next has returned
  std::map<int64_t, absl::StatusOr<Sample>> done_;
  absl::Status end_;              // the error that ended the pass
  const CancelOnFailure cancel_;  // destroyed first
};

absl::Status BatchPass::Start() {
  for (int i = 0; i < options_.num_workers; ++i) {
    try {
      threads_.emplace_back([this, i] {
        manual_seed(base::MixSeeds(seed_, i));
        Work();
      });
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot start worker thread ", i, " of the DataLoader: ", error.what()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Sample> BatchPass::Get(int64_t index) const {
  PENSTOCK_ASSIGN_OR_RETURN(
      const int64_t size,
      base::CatchExceptions([&]() -> absl::StatusOr<int64_t> { return options_.dataset->size(); }));
  if (index < 0 || index >= size) {
    return absl::OutOfRangeError(absl::StrCat(
        "the sampler's index ", index, " is not in the dataset, which has ", size, " examples"));
  }
  absl::StatusOr<Sample> sample =
      base::CatchExceptions([&] { return options_.dataset->get(index); });
  if (sample.ok()) return sample;
  return base::WithContext(sample.status(), absl::StrCat("dataset, get(", index, ")"));
}

absl::StatusOr<Sample> BatchPass::Read(const std::vector<int64_t>& indices) {
  if (options_.collate == nullptr) return Get(indices.at(0));
  std::vector<Sample> examples;
  examples.reserve(indices.size());
  for (const int64_t index : indices) {
    PENSTOCK_RETURN_IF_ERROR(cancelled());
    PENSTOCK_ASSIGN_OR_RETURN(Sample example, Get(index));
    examples.push_back(std::move(example));
  }
  absl::StatusOr<Sample> batch =
      base::CatchExceptions([&] { return options_.collate(std::move(examples)); });
  if (batch.ok() || indices.empty()) return batch;
  return base::WithContext(batch.status(), absl::StrCat("batch of the examples ", indices.front(),
                                                        " to ", indices.back(), ", collate_fn"));
}

void BatchPass::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] {
      return !end_.ok() || next_taken_ >= size() || next_taken_ < next_read_ + Window();
    });
    if (!end_.ok() || next_taken_ >= size()) return;
    const int64_t batch = next_taken_++;
    lock.unlock();
    absl::StatusOr<Sample> result = Read(options_.batches[batch]);
    lock.lock();
    done_.emplace(batch, std::move(result));
    changed_.notify_all();
  }
}

absl::StatusOr<bool> BatchPass::Next(Sample* batch) {
  std::unique_lock lock(mutex_);
  if (!end_.ok()) return end_;
  if (next_read_ >= size()) return false;
  absl::StatusOr<Sample> result;
  if (threads_.empty()) {
    lock.unlock();
    result = Read(options_.batches[next_read_]);
    lock.lock();
  } else {
    changed_.wait(lock, [&] { return !end_.ok() || done_.count(next_read_) > 0; });
    if (!end_.ok()) return end_;
    result = std::move(done_.extract(next_read_).mapped());
  }
  if (!result.ok()) {
    if (end_.ok()) end_ = result.status();
    changed_.notify_all();
    return end_;
  }
  ++next_read_;
  changed_.notify_all();
  *batch = *std::move(result);
  return true;
}

void BatchPass::Cancel(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (end_.ok()) end_ = status;
  changed_.notify_all();
}

// Next of the pipeline's iterator is not interrupted: Cancel takes effect when it returns.
class PipelinePass : public BatchIterator {
 public:
  explicit PipelinePass(std::unique_ptr<::penstock::data::Iterator> iterator)
      : iterator_(std::move(iterator)), cancel_([this](const absl::Status& s) { Cancel(s); }) {}

  absl::StatusOr<bool> Next(Sample* batch) override {
    PENSTOCK_RETURN_IF_ERROR(end());
    absl::StatusOr<bool> more = iterator_->Next(batch);
    PENSTOCK_RETURN_IF_ERROR(end());
    return more;
  }
  void Cancel(const absl::Status& status) override {
    const std::lock_guard lock(mutex_);
    if (end_.ok()) end_ = status;
  }

 private:
  absl::Status end() {
    const std::lock_guard lock(mutex_);
    return end_;
  }

  std::unique_ptr<::penstock::data::Iterator> iterator_;
  std::mutex mutex_;  // guards end_
  absl::Status end_;
  const CancelOnFailure cancel_;  // destroyed first
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchIterator>> MakeBatchPass(BatchPassOptions options) {
  auto pass = std::make_unique<BatchPass>(std::move(options));
  PENSTOCK_RETURN_IF_ERROR(pass->Start());
  return pass;
}

std::unique_ptr<BatchIterator> MakePipelinePass(
    std::unique_ptr<::penstock::data::Iterator> iterator) {
  return std::make_unique<PipelinePass>(std::move(iterator));
}

}  // namespace penstock::lazy::utils::data
