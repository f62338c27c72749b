#include "penstock/cli/convert_progress.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <unistd.h>

#include "penstock/train/progress.h"

namespace penstock::cli {
namespace {

constexpr double kTerminalSeconds = 0.2, kLogSeconds = 10;

bool IsTerminal(const ConvertProgressOptions& options) {
  using Style = ConvertProgressOptions::Style;
  if (options.style != Style::kAuto) return options.style == Style::kTerminal;
  return ::isatty(::fileno(options.out)) == 1;
}

}  // namespace

ConvertProgress::ConvertProgress(const ConvertProgressOptions& options)
    : out_(options.out), terminal_(IsTerminal(options)), clock_(options.clock) {}

ConvertProgress::~ConvertProgress() {
  if (terminal_ && printed_) std::fputs("\r\033[K", out_);
  std::fflush(out_);
}

void ConvertProgress::Update(const pack::Progress& progress) {
  const double now = clock_->Seconds();
  const double pause = terminal_ ? kTerminalSeconds : kLogSeconds;
  if (!began_) {
    began_ = true;
    began_at_ = now;
    next_print_ = now + pause;
  }
  if (now < next_print_) return;
  next_print_ = now + pause;
  Print(progress, now - began_at_);
}

void ConvertProgress::Print(const pack::Progress& p, double seconds) {
  const double rate = static_cast<double>(p.done - p.resumed) / seconds;
  std::string line =
      absl::StrFormat("%d/%d %s, %d %s, %.*f %s/s, %.1f MB/s", p.done, p.total, p.noun, p.shards,
                      p.shards == 1 ? "shard" : "shards", rate < 10 ? 1 : 0, rate, p.noun,
                      static_cast<double>(p.bytes) / 1e6 / seconds);
  if (p.unreadable > 0) absl::StrAppend(&line, ", ", p.unreadable, " unreadable");
  absl::StrAppend(&line, ", ETA ",
                  train::FormatDuration(static_cast<double>(p.total - p.done) / rate));
  std::fprintf(out_, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(out_);
  printed_ = true;
}

}  // namespace penstock::cli
