#include "penstock/lazy/data/data_loader.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/lazy/data/batch_pass.h"

namespace penstock::lazy::utils::data {
namespace {

// The batches of a loader by its options; each example is a batch if batch_size is 0.
std::shared_ptr<BatchSamplerBase> BatchesOf(const DatasetPtr& dataset,
                                            const DataLoaderOptions& options) {
  if (options.batch_sampler != nullptr || dataset == nullptr) return options.batch_sampler;
  std::shared_ptr<Sampler> sampler = options.sampler;
  if (sampler == nullptr && options.shuffle) {
    sampler = std::make_shared<RandomSampler>(dataset, RandomSamplerOptions{.seed = options.seed});
  } else if (sampler == nullptr) {
    sampler = std::make_shared<SequentialSampler>(dataset);
  }
  const int64_t batch_size = options.batch_size == 0 ? 1 : options.batch_size;
  return std::make_shared<BatchSampler>(std::move(sampler), batch_size, options.drop_last);
}

}  // namespace

DataLoader::DataLoader(DatasetPtr dataset, Options options)
    : dataset_(std::move(dataset)),
      options_(std::move(options)),
      batches_(BatchesOf(dataset_, options_)) {}

DataLoader::DataLoader(::penstock::data::Dataset pipeline,
                       ::penstock::data::IteratorOptions options)
    : pipeline_(std::move(pipeline)), pipeline_options_(std::move(options)) {
  // All passes have one seed, and differ by their epochs.
  if (!pipeline_options_.seed.has_value()) pipeline_options_.seed = base::EntropySeed();
}

absl::Status DataLoader::CheckOptions() const {
  const auto error = [](auto&&... text) {
    return absl::InvalidArgumentError(absl::StrCat("DataLoader: ", text...));
  };
  const Options& o = options_;
  if (dataset_ == nullptr) return error("the dataset is null");
  if (o.batch_size < 0) return error("batch_size is ", o.batch_size, "; it is at least 1, or 0");
  if (o.num_workers < 0) return error("num_workers is ", o.num_workers, ", below 0");
  if (o.prefetch_factor < 1) return error("prefetch_factor is ", o.prefetch_factor, ", below 1");
  if (o.shuffle && o.sampler != nullptr) return error("sampler and shuffle exclude each other");
  if (o.batch_sampler != nullptr &&
      (o.batch_size != 1 || o.shuffle || o.sampler != nullptr || o.drop_last)) {
    return error("batch_sampler excludes batch_size, shuffle, sampler and drop_last");
  }
  if (o.collate_fn == nullptr) return error("collate_fn is empty; its default is default_collate");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BatchIterator>> DataLoader::MakeIterator() {
  if (pipeline_.has_value()) {
    PENSTOCK_ASSIGN_OR_RETURN(auto iterator, pipeline_->MakeIterator(pipeline_options_));
    ++pipeline_options_.epoch;
    return MakePipelinePass(std::move(iterator));
  }
  PENSTOCK_RETURN_IF_ERROR(CheckOptions());
  PENSTOCK_ASSIGN_OR_RETURN(auto batches,
                            base::CatchExceptions([&] { return batches_->batches(); }));
  return MakeBatchPass({.dataset = dataset_,
                        .batches = std::move(batches),
                        .collate = options_.batch_size == 0 ? nullptr : options_.collate_fn,
                        .num_workers = options_.num_workers,
                        .prefetch_factor = options_.prefetch_factor});
}

int64_t DataLoader::size() const {
  if (!pipeline_.has_value()) return batches_ == nullptr ? 0 : batches_->size();
  const absl::StatusOr<int64_t> size = pipeline_->Cardinality(pipeline_options_);
  return size.ok() && *size >= 0 ? *size : kUnknownSize;
}

BatchCursor<DataLoader, Sample> DataLoader::begin() {
  pass_.reset();
  auto pass = MakeIterator();
  status_ = pass.status();
  if (pass.ok()) pass_ = *std::move(pass);
  return BatchCursor<DataLoader, Sample>(this);
}

bool DataLoader::Read(Sample* batch) {
  if (pass_ == nullptr) return false;
  const absl::StatusOr<bool> more = pass_->Next(batch);
  status_ = more.status();
  if (more.ok() && *more) return true;
  pass_.reset();
  return false;
}

}  // namespace penstock::lazy::utils::data
