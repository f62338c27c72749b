#include "penstock/train/progress.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <unistd.h>

#include "penstock/train/live_training.h"

namespace penstock::train {
namespace {

// Writes "compiling NAME... 12 s" every second until it is destroyed. It has a thread of its own
// because the one that compiles is inside the compiler for that whole time.
class CompileTicker {
 public:
  CompileTicker(std::FILE* out, bool terminal, base::Clock* clock, std::string program)
      : out_(out),
        terminal_(terminal),
        clock_(clock),
        program_(std::move(program)),
        began_(clock->Seconds()) {
    try {
      thread_ = std::thread([this] { Tick(); });
    } catch (const std::system_error&) {
      // No thread could be started: the program compiles without progress messages.
    }
  }
  ~CompileTicker() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    const double seconds = clock_->Seconds() - began_;
    if (terminal_) {
      std::fprintf(out_, "\r\033[K");
    } else if (seconds >= kQuiet) {
      std::fprintf(out_, "compiled %s in %.1f s\n", program_.c_str(), seconds);
    }
    std::fflush(out_);
  }

 private:
  static constexpr double kQuiet = 1;   // shorter compiles are not worth a line of a log
  static constexpr int kLogEvery = 10;  // seconds, without a terminal

  void Tick() {
    std::unique_lock lock(mutex_);
    for (int seconds = 0; !done_; ++seconds) {
      const bool log_line = seconds == 1 || seconds % kLogEvery == 0;
      if (terminal_) {
        std::fprintf(out_, "\r\033[Kcompiling %s... %d s", program_.c_str(), seconds);
      } else if (seconds > 0 && log_line) {
        std::fprintf(out_, "compiling %s... %d s\n", program_.c_str(), seconds);
      }
      std::fflush(out_);
      wake_.wait_for(lock, std::chrono::seconds(1), [this] { return done_; });
    }
  }

  std::FILE* out_;
  bool terminal_;
  base::Clock* clock_;
  std::string program_;
  double began_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

std::string FormatMetric(double value) {
  if (!std::isfinite(value)) return absl::StrCat(value);
  const double magnitude = std::abs(value);
  if (magnitude != 0 && (magnitude < 1e-3 || magnitude >= 1e5))
    return absl::StrFormat("%.3e", value);
  return absl::StrFormat("%.4f", value);
}

// "  2104 img/s", or "" if it is not known yet.
std::string FormatSpeed(int64_t examples, double seconds) {
  if (seconds <= 0 || examples <= 0) return "";
  const double rate = static_cast<double>(examples) / seconds;
  return absl::StrFormat("  %.*f img/s", rate < 100 ? 1 : 0, rate);
}

// "  ETA 0:02:11": the time that `left` steps take if `done` took `seconds`.
std::string FormatTimeLeft(double seconds, int64_t done, int64_t left) {
  return absl::StrCat(
      "  ETA ", FormatDuration(seconds / static_cast<double>(done) * static_cast<double>(left)));
}

std::string FormatLogs(const Logs& logs) {
  std::string text;
  for (const auto& [name, value] : logs) {
    absl::StrAppend(&text, "  ", name, " ", FormatMetric(value));
  }
  return text;
}

// "  lr 0.0125": the learning rate of the next step, if a schedule changes it.
std::string FormatRate(const TrainingContext& context) {
  const LiveTraining* live = context.live();
  if (live == nullptr || context.learning_rate_is_constant()) return "";
  const std::optional<double> rate = live->NextLearningRate();
  return rate.has_value() ? absl::StrFormat("  lr %.3g", *rate) : "";
}

class ProgressLineCallback : public Callback {
 public:
  explicit ProgressLineCallback(const ProgressOptions& options) : options_(options) {
    terminal_ =
        options.style == ProgressOptions::Style::kTerminal ||
        (options.style == ProgressOptions::Style::kAuto && isatty(fileno(options.out)) == 1);
  }

  bool ObservesBatchBegin() const override { return false; }
  std::string name() const override { return "ProgressLine"; }

  void Recompiling(absl::string_view program, absl::string_view why) override {
    Show(absl::StrCat(program, " is compiled again: ", why), /*final=*/true);
  }

  void Compiling(absl::string_view program, bool begin) override {
    const double now = options_.clock->Seconds();
    if (begin) {
      compile_began_ = now;
      ticker_ = std::make_unique<CompileTicker>(options_.out, terminal_, options_.clock,
                                                std::string(program));
    } else {
      ticker_.reset();
      began_ += now - compile_began_;  // a compilation does not count in the speed
    }
  }

  bool ShowsNotes() const override { return true; }
  void Note(absl::string_view text) override {
    std::fprintf(options_.out, "%snote: %.*s\n", open_ ? "\n" : "", static_cast<int>(text.size()),
                 text.data());
    open_ = false;
  }

  absl::Status EpochBegin(TrainingContext&, const Position& position) override {
    Begin();
    first_step_ = position.step;
    return absl::OkStatus();
  }
  absl::Status BatchEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    if (IsDue()) Show(EpochText(context, position, logs, /*done=*/false), /*final=*/!terminal_);
    return absl::OkStatus();
  }
  absl::Status EpochEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    Show(EpochText(context, position, logs, /*done=*/true), /*final=*/true);
    return absl::OkStatus();
  }
  absl::Status TrainEnd(TrainingContext&) override {
    Close();
    return absl::OkStatus();
  }

  absl::Status TestBegin(InferenceContext& context) override {
    if (context.training() == nullptr) Begin();
    return absl::OkStatus();
  }
  absl::Status TestBatchEnd(InferenceContext& context, int64_t batch, const Logs& logs) override {
    if (context.training() == nullptr) ShowBatch("Evaluate", context, batch, logs);
    return absl::OkStatus();
  }
  absl::Status TestEnd(InferenceContext& context, const Logs& logs) override {
    if (context.training() == nullptr) ShowEnd("Evaluate", context, logs);
    return absl::OkStatus();
  }

  absl::Status PredictBegin(InferenceContext&) override {
    Begin();
    return absl::OkStatus();
  }
  absl::Status PredictBatchEnd(InferenceContext& context, int64_t batch,
                               absl::Span<const base::Array>) override {
    ShowBatch("Predict", context, batch, {});
    return absl::OkStatus();
  }
  absl::Status PredictEnd(InferenceContext& context) override {
    ShowEnd("Predict", context, {});
    return absl::OkStatus();
  }

 private:
  // A speed and a time are measured from here.
  void Begin() {
    began_ = last_shown_ = options_.clock->Seconds();
    batches_ = 0;
  }

  bool IsDue() {
    const double now = options_.clock->Seconds();
    const double pause = terminal_ ? 0.1 : options_.seconds_between_lines;
    if (now - last_shown_ < pause) return false;
    last_shown_ = now;
    return true;
  }

  std::string EpochText(TrainingContext& context, const Position& position, const Logs& logs,
                        bool done) const {
    const double seconds = options_.clock->Seconds() - began_;
    const int64_t steps = position.step - first_step_;
    std::string text =
        absl::StrFormat("Epoch %d/%d  %d", position.epoch + 1, context.epochs(), position.step);
    if (context.steps_per_epoch() > 0) absl::StrAppend(&text, "/", context.steps_per_epoch());
    absl::StrAppend(&text, FormatSpeed(steps * context.examples_per_step(), seconds),
                    FormatLogs(logs), FormatRate(context));
    if (done) {
      absl::StrAppend(&text, "  ", FormatDuration(seconds));
      const std::string idle = context.stats().IdleToString();
      if (!idle.empty()) absl::StrAppend(&text, "  ", idle);
    } else if (context.steps_per_epoch() > 0 && steps > 0) {
      text += FormatTimeLeft(seconds, steps, context.steps_per_epoch() - position.step);
    }
    return text;
  }

  void ShowBatch(const char* what, InferenceContext& context, int64_t batch, const Logs& logs) {
    batches_ = batch + 1;
    if (!IsDue()) return;
    const double seconds = options_.clock->Seconds() - began_;
    std::string text = InferenceText(what, context, seconds, logs);
    if (context.num_batches() > 0) {
      text += FormatTimeLeft(seconds, batches_, context.num_batches() - batches_);
    }
    Show(text, /*final=*/!terminal_);
  }

  void ShowEnd(const char* what, InferenceContext& context, const Logs& logs) {
    if (context.failed()) return Close();
    const double seconds = options_.clock->Seconds() - began_;
    Show(absl::StrCat(InferenceText(what, context, seconds, logs), "  ", FormatDuration(seconds)),
         /*final=*/true);
  }

  std::string InferenceText(const char* what, InferenceContext& context, double seconds,
                            const Logs& logs) const {
    std::string text = absl::StrCat(what, "  ", batches_);
    if (context.num_batches() > 0) absl::StrAppend(&text, "/", context.num_batches());
    absl::StrAppend(&text, FormatSpeed(context.examples(), seconds), FormatLogs(logs));
    return text;
  }

  void Show(const std::string& text, bool final) {
    std::fprintf(options_.out, "%s%s%s", terminal_ ? "\r\033[K" : "", text.c_str(),
                 final ? "\n" : "");
    std::fflush(options_.out);
    open_ = !final;
  }

  // Leaves the last line to be read.
  void Close() {
    ticker_.reset();  // after an exception in the compiler
    if (open_) std::fprintf(options_.out, "\n");
    open_ = false;
  }

  ProgressOptions options_;
  bool terminal_;
  bool open_ = false;  // the line on the terminal has no end yet
  double began_ = 0, last_shown_ = 0, compile_began_ = 0;
  int64_t first_step_ = 0;  // of the epoch, in this run
  int64_t batches_ = 0;     // completed, of an evaluation or prediction
  std::unique_ptr<CompileTicker> ticker_;
};

}  // namespace

std::unique_ptr<Callback> ProgressLine(const ProgressOptions& options) {
  return std::make_unique<ProgressLineCallback>(options);
}

std::vector<std::shared_ptr<Callback>> WithProgressLine(
    std::vector<std::shared_ptr<Callback>> callbacks, int verbose) {
  if (verbose != 0) callbacks.push_back(ProgressLine());
  return callbacks;
}

std::string FormatDuration(double seconds) {
  const int64_t total = std::max<int64_t>(0, std::llround(seconds));
  const int64_t days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60;
  return absl::StrCat(days > 0 ? absl::StrCat(days, " d ") : "",
                      absl::StrFormat("%d:%02d:%02d", hours, minutes, total % 60));
}

}  // namespace penstock::train
