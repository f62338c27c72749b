#include "penstock/data/error_report.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace penstock::data {
namespace {

std::string Field(absl::string_view text) {
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) return std::string(text);
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

class ReportFile {
 public:
  static absl::StatusOr<std::shared_ptr<ReportFile>> Open(const std::string& path) {
    auto report = std::shared_ptr<ReportFile>(new ReportFile(path));
    report->file_ = std::fopen(path.c_str(), "ab");
    if (report->file_ == nullptr) return report->Failed("cannot be opened");
    std::fseek(report->file_, 0, SEEK_END);
    if (std::ftell(report->file_) == 0) {
      PENSTOCK_RETURN_IF_ERROR(report->Write("element,stage,error\r\n"));
    }
    return report;
  }
  ~ReportFile() {
    if (file_ != nullptr) std::fclose(file_);
  }

  // One write for a line, so that several processes may add to the same file.
  absl::Status Write(const std::string& line) {
    std::lock_guard lock(mutex_);
    if (std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0) {
      return absl::OkStatus();
    }
    return Failed("cannot be written");
  }

 private:
  explicit ReportFile(std::string path) : path_(std::move(path)) {}

  absl::Status Failed(absl::string_view what) const {
    return absl::UnavailableError(
        absl::StrCat("the report of errors ", path_, " ", what, ": ", std::strerror(errno)));
  }

  const std::string path_;
  std::mutex mutex_;
  std::FILE* file_ = nullptr;  // written with mutex_
};

}  // namespace

absl::StatusOr<OnSkipped> ErrorReport(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<ReportFile> file, ReportFile::Open(path));
  return [file](const SkippedElement& skipped) {
    return file->Write(absl::StrCat(Field(skipped.origin), ",", Field(skipped.stage), ",",
                                    Field(skipped.what), "\r\n"));
  };
}

}  // namespace penstock::data
