#include <ctime>

#include "absl/strings/str_cat.h"
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/profile/trace_files.h"
#include "penstock/record/compression.h"

namespace penstock::profile {
namespace {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 && *name != '\0' ? name : "localhost";
}

// Date in UTC, such as "2026_05_01_12_30_00": names sort chronologically.
std::string Date(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof(text), "%Y_%m_%d_%H_%M_%S", &utc));
}

absl::Status WriteCompressed(io::FileSystem& fs, const std::string& uri, absl::string_view bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(auto file, fs.Create(uri));
  PENSTOCK_ASSIGN_OR_RETURN(
      auto out, record::Deflate(std::move(file), record::Compression::kGzip, /*level=*/-1));
  PENSTOCK_RETURN_IF_ERROR(out->Append(bytes));
  return out->Close();
}

}  // namespace

absl::Status WriteTrace(const base::TraceRecording& recording, const TraceFiles& files) {
  const auto fs = files.file_system != nullptr ? files.file_system : io::FileSystem::Default();
  const std::string host = files.host.empty() ? HostName() : files.host;
  const std::string run = io::JoinPath(
      files.folder, absl::StrCat("plugins/profile/", Date(recording.began_unix_seconds)));
  PENSTOCK_RETURN_IF_ERROR(fs->CreateFolder(run));
  const std::string json = ChromeTrace(recording);
  PENSTOCK_RETURN_IF_ERROR(io::WriteFile(*fs, io::JoinPath(files.folder, "trace.json"), json));
  PENSTOCK_RETURN_IF_ERROR(
      WriteCompressed(*fs, io::JoinPath(run, absl::StrCat(host, ".trace.json.gz")), json));
  return io::WriteFile(*fs, io::JoinPath(run, absl::StrCat(host, ".xplane.pb")),
                       XSpace(recording, host));
}

}  // namespace penstock::profile
