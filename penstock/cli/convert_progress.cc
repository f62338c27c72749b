#include "penstock/cli/convert_progress.h"

#include <utility>

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

ConvertProgress::ConvertProgress(std::string what, int64_t done, int64_t total,
                                 const ConvertProgressOptions& options)
    : what_(std::move(what)),
      out_(options.out),
      terminal_(IsTerminal(options)),
      clock_(options.clock),
      began_(clock_->Seconds()),
      before_(done),
      total_(total),
      done_(done),
      next_print_(began_ + (terminal_ ? kTerminalSeconds : kLogSeconds)) {}

ConvertProgress::~ConvertProgress() {
  if (terminal_ && printed_) std::fputs("\r\033[K", out_);
  std::fflush(out_);
}

void ConvertProgress::Add(int64_t bytes, bool unreadable) {
  ++done_;
  bytes_ += bytes;
  unreadable_ += unreadable;
  const double now = clock_->Seconds();
  if (now < next_print_) return;
  next_print_ = now + (terminal_ ? kTerminalSeconds : kLogSeconds);
  Print(now - began_);
}

void ConvertProgress::Print(double seconds) {
  const double rate = static_cast<double>(done_ - before_) / seconds;
  std::string line = absl::StrFormat("%d/%d %s, %d %s, %.*f %s/s, %.1f MB/s", done_, total_, what_,
                                     shards_, shards_ == 1 ? "shard" : "shards", rate < 10 ? 1 : 0,
                                     rate, what_, static_cast<double>(bytes_) / 1e6 / seconds);
  if (unreadable_ > 0) absl::StrAppend(&line, ", ", unreadable_, " unreadable");
  absl::StrAppend(&line, ", ETA ",
                  train::FormatDuration(static_cast<double>(total_ - done_) / rate));
  std::fprintf(out_, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(out_);
  printed_ = true;
}

}  // namespace penstock::cli
