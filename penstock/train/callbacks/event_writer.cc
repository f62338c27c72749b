#include "penstock/train/callbacks/event_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/files_elsewhere.h"
#include "penstock/io/uri.h"
#include "penstock/record/tfrecord.h"

namespace penstock::train {
namespace {

template <typename T>
void AppendRaw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

std::string BeginEvent(base::Clock& clock, int64_t step) {
  std::string event;
  AppendDoubleField(event, 1, clock.UnixSeconds());
  AppendVarintField(event, 2, static_cast<uint64_t>(step));
  return event;
}

// Writes in place: event files are read while they grow, and streams of room io publish only at the
// end.
class LocalEventWriter : public EventWriter {
 public:
  static absl::StatusOr<std::unique_ptr<EventWriter>> Open(const std::string& path,
                                                           const std::string& version,
                                                           base::Clock& clock) {
    std::FILE* opened = std::fopen(path.c_str(), "a");
    if (opened == nullptr) return CannotWrite(path);
    auto file = std::make_unique<LocalEventWriter>(clock);
    auto stream = std::make_unique<GrowingFile>(path, opened);
    file->stream_ = stream.get();
    PENSTOCK_ASSIGN_OR_RETURN(file->writer_, record::TfRecordWriter::FromStream(std::move(stream)));
    PENSTOCK_RETURN_IF_ERROR(file->writer_->Append(version));
    return file;
  }
  explicit LocalEventWriter(base::Clock& clock) : EventWriter(clock) {}

  absl::Status AppendEvent(absl::string_view event) override { return writer_->Append(event); }
  absl::Status Flush() override { return stream_->Flush(); }
  bool flushes_cheaply() const override { return true; }

 private:
  class GrowingFile : public io::OutputStream {
   public:
    GrowingFile(std::string path, std::FILE* file) : OutputStream(std::move(path)), file_(file) {}
    // A file into which nothing could be written, on a full disk, is removed: each event tries a new
    // one.
    ~GrowingFile() override {
      std::fclose(file_);
      std::error_code error;
      if (std::filesystem::file_size(uri(), error) == 0) std::filesystem::remove(uri(), error);
    }
    absl::Status Append(absl::string_view bytes) override {
      return std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size() ? absl::OkStatus()
                                                                               : CannotWrite(uri());
    }
    absl::Status Close() override { return Flush(); }
    absl::Status Flush() { return std::fflush(file_) == 0 ? absl::OkStatus() : CannotWrite(uri()); }

   private:
    std::FILE* file_;
  };

  static absl::Status CannotWrite(absl::string_view path) {
    const int reason = errno;
    return absl::UnavailableError(
        absl::StrCat("TensorBoard: ", path, " cannot be written: ", std::strerror(reason),
                     reason == ENOSPC ? "; free some space, or choose another folder" : ""));
  }

  std::unique_ptr<record::TfRecordWriter> writer_;
  GrowingFile* stream_ = nullptr;  // owned by the writer
};

// An object cannot grow: Flush rewrites it, so it is kept small and followed by others. Names sort
// by their number, the order in which TensorBoard reads a folder.
class ObjectEventWriter : public EventWriter {
 public:
  ObjectEventWriter(std::shared_ptr<io::FileSystem> fs, std::string name, std::string version,
                    base::Clock& clock)
      : EventWriter(clock),
        fs_(std::move(fs)),
        name_(std::move(name)),
        version_(std::move(version)) {}

  absl::Status AppendEvent(absl::string_view event) override {
    events_.emplace_back(event);
    bytes_ += event.size();
    if (bytes_ < kMaxBytes) return absl::OkStatus();
    PENSTOCK_RETURN_IF_ERROR(Flush());
    events_.clear();
    bytes_ = 0;
    ++part_;
    return absl::OkStatus();
  }
  absl::Status Flush() override {
    if (events_.empty()) return absl::OkStatus();
    const std::string uri = io::AppendToName(name_, PartSuffix(part_));
    PENSTOCK_ASSIGN_OR_RETURN(auto stream, fs_->Create(uri));
    PENSTOCK_ASSIGN_OR_RETURN(auto writer, record::TfRecordWriter::FromStream(std::move(stream)));
    PENSTOCK_RETURN_IF_ERROR(writer->Append(version_));
    for (const std::string& event : events_) PENSTOCK_RETURN_IF_ERROR(writer->Append(event));
    return base::WithContext(writer->Close(), "TensorBoard");
  }
  bool flushes_cheaply() const override { return false; }

  static std::string PartSuffix(int part) { return absl::StrFormat(".%05d.v2", part); }

 private:
  static constexpr size_t kMaxBytes = 256 << 10;

  const std::shared_ptr<io::FileSystem> fs_;
  const std::string name_, version_;
  std::vector<std::string> events_;
  size_t bytes_ = 0;
  int part_ = 0;
};

}  // namespace

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}
void AppendVarintField(std::string& out, int field, uint64_t value) {
  AppendVarint(out, static_cast<uint64_t>(field << 3));
  AppendVarint(out, value);
}
void AppendBytesField(std::string& out, int field, absl::string_view bytes) {
  AppendVarint(out, static_cast<uint64_t>(field << 3 | 2));
  AppendVarint(out, bytes.size());
  out.append(bytes.data(), bytes.size());
}
void AppendFloatField(std::string& out, int field, float value) {
  AppendVarint(out, static_cast<uint64_t>(field << 3 | 5));
  AppendRaw(out, value);
}
void AppendDoubleField(std::string& out, int field, double value) {
  AppendVarint(out, static_cast<uint64_t>(field << 3 | 1));
  AppendRaw(out, value);
}

std::string ScalarSummary(const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    AppendBytesField(value, 1, tag);
    AppendFloatField(value, 2, static_cast<float>(number));
    AppendBytesField(summary, 1, value);
  }
  return summary;
}

absl::StatusOr<std::unique_ptr<EventWriter>> EventWriter::Open(const Options& options) {
  const std::shared_ptr<io::FileSystem> fs =
      options.file_system != nullptr ? options.file_system : io::FileSystem::Default();
  PENSTOCK_RETURN_IF_ERROR(fs->CreateFolder(options.folder));
  PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(options.folder));
  // Only a file of this machine can grow in place.
  const bool grows = uri.is_local() && !io::IsElsewhere(*fs);
  std::string version = BeginEvent(*options.clock, 0);
  AppendBytesField(version, 3, "brain.Event:2");
  // A unique name: TensorBoard joins the files of a folder, and a process may open several within a
  // second.
  for (int number = 0;; ++number) {
    const std::string name =
        absl::StrFormat("events.out.tfevents.%010d.penstock.%d%s%s",
                        static_cast<int64_t>(options.clock->UnixSeconds()), getpid(),
                        number == 0 ? "" : absl::StrCat(".", number), options.suffix);
    const std::string file = io::JoinPath(options.folder, name);
    const std::string first =
        io::AppendToName(file, grows ? ".v2" : ObjectEventWriter::PartSuffix(0));
    PENSTOCK_ASSIGN_OR_RETURN(const bool exists, fs->Exists(first));
    if (exists) continue;
    if (!grows) {
      return std::make_unique<ObjectEventWriter>(fs, file, std::move(version), *options.clock);
    }
    return LocalEventWriter::Open(io::JoinPath(uri.path, absl::StrCat(name, ".v2")), version,
                                  *options.clock);
  }
}

absl::Status EventWriter::Append(int64_t step, absl::string_view summary) {
  return AppendField(step, 5, summary);
}

absl::Status EventWriter::AppendField(int64_t step, int field, absl::string_view bytes) {
  std::string event = BeginEvent(clock_, step);
  AppendBytesField(event, field, bytes);
  return AppendEvent(event);
}

}  // namespace penstock::train
