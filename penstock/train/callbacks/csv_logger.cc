#include "penstock/train/callbacks/csv_logger.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/train/callbacks/option_checks.h"

namespace penstock::train {
namespace {

std::string ContentsOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Offset at which the rows of `epoch` and later ones begin that the last training in the file
// wrote, including a row that a kill has truncated.
size_t EndOfRowsBefore(absl::string_view text, int epoch) {
  size_t end = text.rfind('\n') + 1;  // npos + 1 is 0
  int64_t later = std::numeric_limits<int64_t>::max();
  while (end > 0) {
    const size_t begin = end >= 2 ? text.rfind('\n', end - 2) + 1 : 0;
    const absl::string_view row = text.substr(begin, end - begin);
    int64_t number = 0;
    if (!absl::SimpleAtoi(row.substr(0, row.find(',')), &number)) break;  // the header
    if (number < epoch || number >= later) break;
    later = number;
    end = begin;
  }
  return end;
}

// Names of the columns: those of an epoch's numbers, and of those that only other epochs have
// (validation_freq), which are NA in this one, as in Keras.
std::vector<std::string> ColumnsOf(const TrainingContext& context, const Logs& logs) {
  std::vector<std::string> columns, validated;
  for (const auto& [name, value] : logs) {
    (absl::StartsWith(name, "val_") ? validated : columns).push_back(name);
    const std::string val_name = absl::StrCat("val_", name);
    const absl::StatusOr<MonitorInfo> info = context.FindMonitor(val_name);
    if (logs.Find(val_name) == nullptr && info.ok() && info->every_epochs > 1) {
      validated.push_back(val_name);
    }
  }
  columns.insert(columns.end(), validated.begin(), validated.end());
  return columns;
}

// The columns of the file's header, if it has all of `columns`; otherwise `columns`.
std::vector<std::string> InOrderOfHeader(absl::string_view text, std::vector<std::string> columns) {
  absl::string_view header = text.substr(0, text.find('\n'));
  if (!absl::ConsumePrefix(&header, "epoch,")) return columns;
  std::vector<std::string> existing = absl::StrSplit(header, ',');
  for (const std::string& name : columns) {
    if (std::find(existing.begin(), existing.end(), name) == existing.end()) return columns;
  }
  return existing;
}

// The file is not opened before the first epoch begins, when a resumed checkpoint has been
// accepted. Rows of epochs that are trained again are replaced.
class CsvLoggerCallback : public Callback {
 public:
  explicit CsvLoggerCallback(const CsvLoggerOptions& options) : options_(options) {}

  std::string state_name() const override { return absl::StrCat("CsvLogger(", options_.path, ")"); }

  bool ObservesBatchBegin() const override { return false; }
  bool IsLog() const override { return true; }
  absl::Status Check(const TrainingContext&) const override { return CheckCsvLog(options_.path); }

  absl::Status TrainBegin(TrainingContext&) override {
    began_ = warned_ = regular_ = false;
    end_ = 0;
    restored_.reset();
    pending_.clear();
    columns_.clear();
    header_.clear();
    PENSTOCK_RETURN_IF_ERROR(io::FileSystem::Default()->CreateFolder(io::Dirname(options_.path)));
    file_ = io::FileDescriptor(
        ::open(options_.path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
    if (!file_.valid()) return Failed("cannot be opened");
    return absl::OkStatus();
  }

  absl::Status EpochBegin(TrainingContext&, const Position& position) override {
    return began_ ? absl::OkStatus() : Begin(position);
  }

  absl::Status EpochEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    if (!began_) PENSTOCK_RETURN_IF_ERROR(Begin(position));
    if (columns_.empty()) columns_ = InOrderOfHeader(header_, ColumnsOf(context, logs));
    if (end_ == 0 && pending_.empty()) {
      pending_ = absl::StrCat("epoch,", absl::StrJoin(columns_, ","), "\n");
    }
    absl::StrAppend(&pending_, position.epoch);
    for (const std::string& name : columns_) {
      const double* const value = logs.Find(name);
      pending_ += value == nullptr ? ",NA" : absl::StrFormat(",%.9g", *value);
    }
    pending_ += "\n";
    Write();
    return absl::OkStatus();
  }

  absl::Status TrainEnd(TrainingContext&) override {
    if (!pending_.empty()) Write();
    file_ = io::FileDescriptor();
    const auto rows = std::count(pending_.begin(), pending_.end(), '\n');
    if (rows == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("CsvLogger: ", options_.path, " lacks its last ", rows,
                                            rows == 1 ? " line, which" : " lines, which",
                                            " could not be written (", std::strerror(error_), ")"));
  }

  std::string Save() const override {
    if (!regular_) return "";
    return nlohmann::ordered_json{{"bytes", end_}, {"pending", pending_}}.dump();
  }
  absl::Status Restore(absl::string_view saved) override {
    const auto json = nlohmann::ordered_json::parse(saved.begin(), saved.end(), nullptr, false);
    if (!json.is_object() || !json.contains("bytes") || !json["bytes"].is_number_integer() ||
        !json.contains("pending") || !json["pending"].is_string()) {
      return absl::DataLossError("the checkpoint does not contain CsvLogger's state");
    }
    restored_ = json["bytes"].get<int64_t>();
    pending_ = json["pending"].get<std::string>();
    return absl::OkStatus();
  }

 private:
  absl::Status Begin(const Position& position) {
    began_ = true;
    struct stat info;
    regular_ = ::fstat(file_.get(), &info) == 0 && S_ISREG(info.st_mode);
    end_ = 0;
    if (!regular_) return absl::OkStatus();
    const int64_t size = info.st_size;
    if (position.total_steps == 0) {
      end_ = options_.append ? size : 0;
    } else {
      const std::string text = ContentsOf(options_.path);
      const bool known = restored_.has_value() && *restored_ >= 0 && *restored_ <= size &&
                         (*restored_ == 0 || text[*restored_ - 1] == '\n');
      if (restored_.has_value() && !known) {
        Warn("has fewer rows than the checkpoint says; the earlier ones are lost");
      }
      end_ = known ? *restored_ : static_cast<int64_t>(EndOfRowsBefore(text, position.epoch));
      if (end_ > 0) header_ = text.substr(0, text.find('\n'));
    }
    if (end_ < size && ::ftruncate(file_.get(), end_) != 0) return Failed("cannot be truncated");
    return absl::OkStatus();
  }

  // Writes at once, so that a killed run keeps its rows. A failing log must not end the training:
  // rows that cannot be written are tried again after the next epoch.
  void Write() {
    size_t done = 0;
    while (done < pending_.size()) {
      const ssize_t n = ::write(file_.get(), pending_.data() + done, pending_.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        error_ = errno;
        if (!std::exchange(warned_, true)) {
          Warn(absl::StrCat("cannot be written (", std::strerror(error_),
                            "); training continues, and the rows are written when it works again"));
        }
        // A truncated row would be joined to the next one.
        if (regular_)
          (void)!::ftruncate(file_.get(), end_);
        else
          pending_.erase(0, done);
        return;
      }
      done += static_cast<size_t>(n);
    }
    end_ += static_cast<int64_t>(pending_.size());
    pending_.clear();
    warned_ = false;
  }

  void Warn(absl::string_view what) const {
    std::fprintf(stderr, "warning: CsvLogger: %s %s\n", options_.path.c_str(),
                 std::string(what).c_str());
  }
  absl::Status Failed(absl::string_view what) const {
    return absl::UnavailableError(
        absl::StrCat("CsvLogger: ", options_.path, " ", what, ": ", std::strerror(errno)));
  }

  CsvLoggerOptions options_;
  io::FileDescriptor file_;
  bool began_ = false;
  bool regular_ = false;              // not a terminal or a pipe
  bool warned_ = false;               // about the pending rows
  int error_ = 0;                     // errno of the last attempt to write them
  int64_t end_ = 0;                   // size of the file's rows in bytes
  std::vector<std::string> columns_;  // after "epoch"
  std::string header_;                // of the file that a resumed run continues
  std::string pending_;               // rows that could not be written yet
  std::optional<int64_t> restored_;   // end_ in the resumed checkpoint
};

}  // namespace

// Files are written in place, and so is /dev/stdout.
absl::Status CheckCsvLog(const std::string& path) {
  PENSTOCK_RETURN_IF_ERROR(CheckNotEmpty("CsvLogger", "path", path));
  PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(path));
  if (!uri.is_local()) {
    return absl::InvalidArgumentError(
        absl::StrCat("CsvLogger needs a local file; '", io::DisplayName(path), "' is not one"));
  }
  struct stat info;
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && (S_ISREG(info.st_mode) || S_ISCHR(info.st_mode))) {
    if (::access(path.c_str(), W_OK) == 0) {
      if (!S_ISREG(info.st_mode)) return absl::OkStatus();
      return base::WithContext(io::CheckIsNotBinary(*io::FileSystem::Default(), path), "CsvLogger");
    }
    return absl::PermissionDeniedError(
        absl::StrCat("CsvLogger: ", path, " cannot be written: ", std::strerror(errno)));
  }
  return base::WithContext(io::CheckWritableFile(*io::FileSystem::Default(), path), "CsvLogger");
}

std::shared_ptr<Callback> CsvLogger(const CsvLoggerOptions& options) {
  return std::make_shared<CsvLoggerCallback>(options);
}

}  // namespace penstock::train
