#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/train/callbacks.h"

namespace penstock::train {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

class CsvCallback : public Callback {
 public:
  explicit CsvCallback(const CsvLoggerOptions& options) : options_(options) {}

  absl::Status TrainBegin(Run&) override {
    file_.reset(std::fopen(options_.path.c_str(), options_.append ? "a" : "w"));
    if (file_ == nullptr) return Failed("cannot be opened");
    headed_ =
        options_.append && std::fseek(file_.get(), 0, SEEK_END) == 0 && std::ftell(file_.get()) > 0;
    return absl::OkStatus();
  }

  absl::Status EpochEnd(Run&, const Position& position, const Logs& logs) override {
    std::string text;
    if (!headed_) {
      text = "epoch";
      for (const auto& [name, value] : logs) absl::StrAppend(&text, ",", name);
      text += "\n";
      headed_ = true;
    }
    absl::StrAppend(&text, position.epoch);
    for (const auto& [name, value] : logs) absl::StrAppendFormat(&text, ",%.9g", value);
    text += "\n";
    // Flushed at once: a killed run keeps its lines.
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
        std::fflush(file_.get()) != 0) {
      return Failed("cannot be written");
    }
    return absl::OkStatus();
  }

  absl::Status TrainEnd(Run&) override {
    file_.reset();
    return absl::OkStatus();
  }

 private:
  absl::Status Failed(absl::string_view what) const {
    return absl::UnavailableError(
        absl::StrCat("CsvLogger: ", options_.path, " ", what, ": ", std::strerror(errno)));
  }

  CsvLoggerOptions options_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  bool headed_ = false;
};

class TerminateOnNanCallback : public Callback {
 public:
  bool StopsOnNan() const override { return true; }
};

}  // namespace

std::shared_ptr<Callback> CsvLogger(const CsvLoggerOptions& options) {
  return std::make_shared<CsvCallback>(options);
}

std::shared_ptr<Callback> TerminateOnNan() { return std::make_shared<TerminateOnNanCallback>(); }

}  // namespace penstock::train
