// Estimator::Predict.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/estimator/estimator.h"
#include "penstock/estimator/model_builder.h"
#include "penstock/estimator/monitored_loop.h"

namespace penstock::estimator {
namespace {

class PredictionStream : public Predictions {
 public:
  PredictionStream(BuiltModel built, session::Session session, NamedTensors outputs,
                   std::unique_ptr<MonitoredLoop> loop, int64_t batch, bool single_examples)
      : built_(std::move(built)),
        session_(std::make_unique<session::Session>(std::move(session))),
        loop_(std::move(loop)),
        batch_(batch),
        single_examples_(single_examples) {
    for (const auto& [name, tensor] : outputs) {
      names_.push_back(name);
      fetches_.push_back(tensor);
    }
    if (built_.count.valid()) fetches_.push_back(built_.count);
  }

  absl::Status Start() { return loop_->Start(*session_, {}); }

  absl::StatusOr<bool> Next(base::NamedArrays* example) override {
    PENSTOCK_RETURN_IF_ERROR(status_);
    while (next_ >= examples_) {
      if (ended_) return false;
      absl::StatusOr<bool> more = base::CatchExceptions([&] { return NextBatch(); });
      if (!more.ok()) return status_ = more.status();
      if (!*more) return false;
    }
    *example = base::NamedArrays();
    for (size_t i = 0; i < names_.size(); ++i) {
      example->Append(names_[i], single_examples_       ? values_[i].Row(next_)
                                 : built_.count.valid() ? values_[i].Slice(0, examples_)
                                                        : values_[i]);
    }
    next_ = single_examples_ ? next_ + 1 : examples_;
    return true;
  }

 private:
  absl::StatusOr<bool> NextBatch() {
    const auto scope = built_.graph->AsDefault();
    bool more = !loop_->should_stop();
    if (more) {
      PENSTOCK_ASSIGN_OR_RETURN(more, loop_->Run(fetches_, 1, &values_));
    }
    if (!more) {
      ended_ = true;
      PENSTOCK_RETURN_IF_ERROR(loop_->End());
      return false;
    }
    next_ = 0;
    if (!single_examples_ && !built_.count.valid()) {
      examples_ = HasRows() ? 1 : 0;  // the batch as it is
      return true;
    }
    PENSTOCK_RETURN_IF_ERROR(CountExamples());
    return true;
  }

  // Whether any prediction of the batch has elements.
  bool HasRows() const {
    return std::any_of(values_.begin(), values_.end(),
                       [](const base::Array& value) { return value.num_elements() > 0; });
  }

  // Sets `examples_` to the number of rows that all predictions have, without padding.
  absl::Status CountExamples() {
    examples_ = -1;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (values_[i].rank() == 0 || (examples_ >= 0 && values_[i].dim(0) != examples_)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the prediction '", names_[i], "' is ", values_[i].TypeString(),
            ", but must have the axis of examples first, as the other predictions, because each "
            "example gets its row",
            built_.count.valid() ? "" : "; yield_single_examples = false returns whole batches"));
      }
      examples_ = values_[i].dim(0);
    }
    if (!built_.count.valid()) return absl::OkStatus();
    if (examples_ != batch_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the predictions have ", examples_, " rows for a batch of ", batch_,
                       " examples of all shards, but must have one for each example: '", names_[0],
                       "' is ", values_[0].TypeString()));
    }
    examples_ = values_.back().item<int64_t>();
    return absl::OkStatus();
  }

  BuiltModel built_;
  std::unique_ptr<session::Session> session_;  // has a fixed place, which hooks see
  std::unique_ptr<MonitoredLoop> loop_;
  const int64_t batch_;  // of all shards; 0: any
  const bool single_examples_;
  std::vector<std::string> names_;
  session::Fetches fetches_;
  std::vector<base::Array> values_;  // of the current batch
  int64_t next_ = 0, examples_ = 0;
  bool ended_ = false;
  absl::Status status_;
};

absl::StatusOr<NamedTensors> SelectPredictions(const NamedTensors& predictions,
                                               const std::vector<std::string>& keys) {
  if (keys.empty()) return predictions;
  NamedTensors selected;
  for (const std::string& key : keys) {
    const session::Tensor* tensor = predictions.Find(key);
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("predict_keys has '", key,
                                                     "', but the predictions are ",
                                                     absl::StrJoin(predictions.names(), ", ")));
    }
    selected.Set(key, *tensor);
  }
  return selected;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Predictions>> Estimator::Predict(const InputFn& input_fn,
                                                                const PredictOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(status_);
  return base::CatchExceptions([&] { return PredictOrThrow(input_fn, options); });
}

absl::StatusOr<std::unique_ptr<Predictions>> Estimator::PredictOrThrow(
    const InputFn& input_fn, const PredictOptions& options) {
  const ModelBuilder builder(*this, ModeKeys::kPredict);
  absl::StatusOr<ModelInput> input = builder.MakeInput(input_fn);
  if (!input.ok()) return input.status();
  PENSTOCK_ASSIGN_OR_RETURN(BuiltModel built,
                            builder.Build(*input, {.seed = config_.tf_random_seed}));
  PENSTOCK_ASSIGN_OR_RETURN(NamedTensors outputs,
                            SelectPredictions(built.model.spec.predictions, options.predict_keys));
  const auto scope = built.graph->AsDefault();
  Hooks hooks = options.hooks;
  const Hooks& own = built.model.spec.prediction_hooks;
  hooks.insert(hooks.end(), own.begin(), own.end());
  auto loop = std::make_unique<MonitoredLoop>(std::move(hooks), config_.log);
  PENSTOCK_RETURN_IF_ERROR(loop->Begin());
  PENSTOCK_RETURN_IF_ERROR(built.graph->status());
  PENSTOCK_ASSIGN_OR_RETURN(const auto fs, Files());
  PENSTOCK_ASSIGN_OR_RETURN(session::Session session, builder.MakeSession(*built.graph));
  PENSTOCK_RETURN_IF_ERROR(RestoreForInference(*fs, session, options.checkpoint_path));
  auto stream = std::make_unique<PredictionStream>(
      std::move(built), std::move(session), std::move(outputs), std::move(loop), input->fixed_batch,
      options.yield_single_examples);
  PENSTOCK_RETURN_IF_ERROR(stream->Start());
  return stream;
}

}  // namespace penstock::estimator
