#include "penstock/data/error_report.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/local/open_local_file.h"

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
    // Without blocking: a named pipe without a reader is an error, not a hang.
    report->file_ = io::FileDescriptor(
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666));
    struct stat info;
    if (!report->file_.valid() || ::fstat(report->file_.get(), &info) != 0) {
      return report->Failed("cannot be opened");
    }
    PENSTOCK_RETURN_IF_ERROR(io::SetBlocking(report->file_, path));
    if (info.st_size == 0) PENSTOCK_RETURN_IF_ERROR(report->Write("element,stage,error\r\n"));
    return report;
  }

  // One write for a line, so that several processes may add to the same file.
  absl::Status Write(absl::string_view line) {
    std::lock_guard lock(mutex_);
    while (!line.empty()) {
      const ssize_t n =
          io::RetryInterrupted([&] { return ::write(file_.get(), line.data(), line.size()); });
      if (n <= 0) return Failed("cannot be written");
      line.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

 private:
  explicit ReportFile(std::string path) : path_(std::move(path)) {}

  absl::Status Failed(absl::string_view what) const {
    return absl::UnavailableError(
        absl::StrCat("the report of errors ", path_, " ", what, ": ", std::strerror(errno)));
  }

  const std::string path_;
  std::mutex mutex_;
  io::FileDescriptor file_;  // written with mutex_ held
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
