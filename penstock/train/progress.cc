#include "penstock/train/progress.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <unistd.h>

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

class Line : public Callback {
 public:
  explicit Line(const ProgressOptions& options) : options_(options) {
    terminal_ =
        options.style == ProgressOptions::Style::kTerminal ||
        (options.style == ProgressOptions::Style::kAuto && isatty(fileno(options.out)) == 1);
  }

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
      epoch_began_ += now - compile_began_;  // a compile is not the training's speed
    }
  }

  bool ShowsNotes() const override { return true; }
  void Note(absl::string_view text) override {
    std::fprintf(options_.out, "%snote: %.*s\n", open_ ? "\n" : "", static_cast<int>(text.size()),
                 text.data());
    open_ = false;
  }

  absl::Status EpochBegin(Run&, const Position& position) override {
    epoch_began_ = last_shown_ = options_.clock->Seconds();
    first_step_ = position.step;
    return absl::OkStatus();
  }

  absl::Status BatchEnd(Run& run, const Position& position, const Logs& logs) override {
    const double now = options_.clock->Seconds();
    const double pause = terminal_ ? 0.1 : options_.seconds_between_lines;
    if (now - last_shown_ < pause) return absl::OkStatus();
    last_shown_ = now;
    Show(Text(run, position, logs, now, /*done=*/false), /*final=*/!terminal_);
    return absl::OkStatus();
  }

  absl::Status EpochEnd(Run& run, const Position& position, const Logs& logs) override {
    Show(Text(run, position, logs, options_.clock->Seconds(), /*done=*/true), /*final=*/true);
    return absl::OkStatus();
  }

  absl::Status TrainEnd(Run&) override {
    ticker_.reset();                              // after an exception in the compiler
    if (open_) std::fprintf(options_.out, "\n");  // the last numbers stay to be read
    open_ = false;
    return absl::OkStatus();
  }

 private:
  std::string Text(Run& run, const Position& position, const Logs& logs, double now,
                   bool done) const {
    const double seconds = now - epoch_began_;
    const int64_t steps = position.step - first_step_;
    std::string text =
        absl::StrFormat("Epoch %d/%d  %d", position.epoch + 1, run.epochs(), position.step);
    if (run.steps_per_epoch() > 0) absl::StrAppend(&text, "/", run.steps_per_epoch());
    if (seconds > 0 && steps > 0) {
      const double rate = static_cast<double>(steps * run.examples_per_step()) / seconds;
      absl::StrAppendFormat(&text, "  %.*f img/s", rate < 100 ? 1 : 0, rate);
    }
    for (const auto& [name, value] : logs)
      absl::StrAppend(&text, "  ", name, " ", FormatMetric(value));
    if (done) {
      absl::StrAppend(&text, "  ", FormatDuration(seconds));
      const std::string idle = run.stats().IdleToString();
      if (!idle.empty()) absl::StrAppend(&text, "  ", idle);
    } else if (run.steps_per_epoch() > 0 && steps > 0) {
      const int64_t left = run.steps_per_epoch() - position.step;
      absl::StrAppend(
          &text, "  ETA ",
          FormatDuration(seconds / static_cast<double>(steps) * static_cast<double>(left)));
    }
    return text;
  }

  void Show(const std::string& text, bool final) {
    std::fprintf(options_.out, "%s%s%s", terminal_ ? "\r\033[K" : "", text.c_str(),
                 final ? "\n" : "");
    std::fflush(options_.out);
    open_ = !final;
  }

  ProgressOptions options_;
  bool terminal_;
  bool open_ = false;  // the line on the terminal has no end yet
  double epoch_began_ = 0, last_shown_ = 0, compile_began_ = 0;
  int64_t first_step_ = 0;
  std::unique_ptr<CompileTicker> ticker_;
};

}  // namespace

std::unique_ptr<Callback> ProgressLine(const ProgressOptions& options) {
  return std::make_unique<Line>(options);
}

std::string FormatDuration(double seconds) {
  const int64_t total = std::max<int64_t>(0, std::llround(seconds));
  const int64_t days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60;
  return absl::StrCat(days > 0 ? absl::StrCat(days, " d ") : "",
                      absl::StrFormat("%d:%02d:%02d", hours, minutes, total % 60));
}

}  // namespace penstock::train
