#include "penstock/train/callbacks/tensorboard.h"

#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/train/callbacks/event_writer.h"
#include "penstock/train/callbacks/option_checks.h"
#include "penstock/train/profile_options.h"

namespace penstock::train {
namespace {

class TensorBoardCallback : public Callback {
 public:
  explicit TensorBoardCallback(const TensorBoardOptions& options)
      : options_(options),
        fs_(options.file_system != nullptr ? options.file_system : io::FileSystem::Default()) {
    profile_.folder = options.folder;
    std::tie(profile_.first_step, profile_.last_step) = options.profile_steps;
    profile_.operations = false;
    profile_.out = nullptr;
  }

  const ProfileOptions* profile() const override {
    return options_.profile_steps.second > 0 ? &profile_ : nullptr;
  }

  bool IsLog() const override { return true; }

  absl::Status Check(const TrainingContext&) const override {
    constexpr absl::string_view kWho = "TensorBoard";
    PENSTOCK_RETURN_IF_ERROR(CheckNotEmpty(kWho, "folder", options_.folder));
    PENSTOCK_RETURN_IF_ERROR(
        CheckNotNegative(kWho, "update_every_steps", options_.update_every_steps));
    const auto [first, last] = options_.profile_steps;
    if (first < 0 || last < first || (last > 0 && first < 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          kWho, "'s profile_steps must be the first and the last step of the profile, ",
          "from 1, or {0, 0}; got {", first, ", ", last, "}"));
    }
    return base::WithContext(io::CheckWritableFolder(*fs_, options_.folder), kWho);
  }

  absl::Status EpochBegin(TrainingContext&, const Position& position) override {
    steps_ = position.total_steps;
    return absl::OkStatus();
  }

  absl::Status BatchEnd(TrainingContext&, const Position& position, const Logs& logs) override {
    if (options_.update_every_steps == 0) return absl::OkStatus();
    // With several steps in an execution not every step is seen.
    const int64_t periods = position.total_steps / options_.update_every_steps;
    if (std::exchange(steps_, position.total_steps) / options_.update_every_steps == periods) {
      return absl::OkStatus();
    }
    std::vector<std::pair<std::string, double>> scalars;
    for (const auto& [name, value] : logs)
      scalars.emplace_back(absl::StrCat("batch_", name), value);
    return Write(train_, "train", position.total_steps, scalars, /*flush=*/false);
  }

  absl::Status EpochEnd(TrainingContext&, const Position& position, const Logs& logs) override {
    std::vector<std::pair<std::string, double>> train, validation;
    for (const auto& [name, value] : logs) {
      absl::string_view bare = name;
      const bool validates = absl::ConsumePrefix(&bare, "val_");
      (validates ? validation : train).emplace_back(absl::StrCat("epoch_", bare), value);
    }
    PENSTOCK_RETURN_IF_ERROR(Write(train_, "train", position.epoch, train, /*flush=*/true));
    if (validation.empty()) return absl::OkStatus();
    return Write(validation_, "validation", position.epoch, validation, /*flush=*/true);
  }

  absl::Status TrainEnd(TrainingContext&) override {
    absl::Status status;
    for (std::unique_ptr<EventWriter>* file : {&train_, &validation_}) {
      if (*file != nullptr) status.Update((*file)->Flush());
      file->reset();
    }
    return status;
  }

 private:
  absl::Status Write(std::unique_ptr<EventWriter>& events, const char* subfolder, int64_t step,
                     const std::vector<std::pair<std::string, double>>& scalars, bool flush) {
    constexpr double kFlushSeconds = 30;
    if (events == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(
          events, EventWriter::Open({.folder = io::JoinPath(options_.folder, subfolder),
                                     .file_system = fs_,
                                     .clock = options_.clock}));
    }
    PENSTOCK_RETURN_IF_ERROR(events->Append(step, ScalarSummary(scalars)));
    const double now = options_.clock->Seconds();
    if (!flush && !events->flushes_cheaply() && now - flushed_ < kFlushSeconds) {
      return absl::OkStatus();
    }
    flushed_ = now;
    return events->Flush();
  }

  const TensorBoardOptions options_;
  const std::shared_ptr<io::FileSystem> fs_;
  ProfileOptions profile_;
  int64_t steps_ = 0;  // that have been seen
  double flushed_ = 0;
  std::unique_ptr<EventWriter> train_, validation_;
};

}  // namespace

std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options) {
  return std::make_shared<TensorBoardCallback>(options);
}

}  // namespace penstock::train
