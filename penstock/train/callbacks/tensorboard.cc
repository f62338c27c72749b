// TensorBoard's event files: TFRecords of tensorflow.Event protocol buffers, of which these fields
// are written (tensorflow/core/util/event.proto, framework/summary.proto):
//   Event   { 1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary summary }
//   Summary { 1: repeated Value { 1: string tag, 2: float simple_value } }
#include "penstock/train/callbacks/tensorboard.h"

#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/record/tfrecord.h"
#include "penstock/train/callbacks/option_checks.h"
#include "penstock/train/profile_options.h"

namespace penstock::train {
namespace {

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}
void AppendBytes(std::string& out, int field, absl::string_view bytes) {
  AppendVarint(out, field << 3 | 2);
  AppendVarint(out, bytes.size());
  out.append(bytes.data(), bytes.size());
}
template <typename T>  // double or float
void AppendFixed(std::string& out, int field, T value) {
  AppendVarint(out, field << 3 | (sizeof(T) == 8 ? 1 : 5));
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

std::string Event(base::Clock& clock, int64_t step) {
  std::string event;
  AppendFixed(event, 1, clock.UnixSeconds());
  AppendVarint(event, 2 << 3);
  AppendVarint(event, static_cast<uint64_t>(step));
  return event;
}

std::string ScalarEvent(base::Clock& clock, int64_t step,
                        const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    AppendBytes(value, 1, tag);
    AppendFixed(value, 2, static_cast<float>(number));
    AppendBytes(summary, 1, value);
  }
  std::string event = Event(clock, step);
  AppendBytes(event, 5, summary);
  return event;
}

// A run's event file, to which events are appended.
class EventFile {
 public:
  virtual ~EventFile() = default;
  virtual absl::Status Append(absl::string_view event) = 0;
  // Makes the appended events visible to readers of the file.
  virtual absl::Status Flush() = 0;
};

// Writes in place: event files are read while they grow, and streams of room io publish only at the
// end.
class LocalEventFile : public EventFile {
 public:
  static absl::StatusOr<std::unique_ptr<EventFile>> Open(const std::string& path) {
    std::FILE* opened = std::fopen(path.c_str(), "a");
    if (opened == nullptr) return Failed(path);
    auto file = std::make_unique<LocalEventFile>();
    auto stream = std::make_unique<GrowingFile>(path, opened);
    file->stream_ = stream.get();
    PENSTOCK_ASSIGN_OR_RETURN(file->writer_, record::TfRecordWriter::FromStream(std::move(stream)));
    return file;
  }
  absl::Status Append(absl::string_view event) override { return writer_->Append(event); }
  absl::Status Flush() override { return stream_->Flush(); }

 private:
  class GrowingFile : public io::OutputStream {
   public:
    GrowingFile(std::string path, std::FILE* file) : OutputStream(std::move(path)), file_(file) {}
    ~GrowingFile() override { std::fclose(file_); }
    absl::Status Append(absl::string_view bytes) override {
      return std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size() ? absl::OkStatus()
                                                                               : Failed(uri());
    }
    absl::Status Close() override { return Flush(); }
    absl::Status Flush() { return std::fflush(file_) == 0 ? absl::OkStatus() : Failed(uri()); }

   private:
    std::FILE* file_;
  };

  static absl::Status Failed(absl::string_view path) {
    return absl::UnavailableError(
        absl::StrCat("TensorBoard: ", path, " cannot be written: ", std::strerror(errno)));
  }

  std::unique_ptr<record::TfRecordWriter> writer_;
  GrowingFile* stream_ = nullptr;  // owned by the writer
};

// An object cannot grow: Flush rewrites it, so it is kept small and followed by others. Names sort
// by their number, the order in which TensorBoard reads a folder.
class ObjectEventFile : public EventFile {
 public:
  ObjectEventFile(io::FileSystem& fs, std::string name, std::string version)
      : fs_(fs), name_(std::move(name)), version_(std::move(version)) {}

  absl::Status Append(absl::string_view event) override {
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
    const std::string uri = io::AppendToName(name_, absl::StrFormat(".%05d.v2", part_));
    PENSTOCK_ASSIGN_OR_RETURN(auto stream, fs_.Create(uri));
    PENSTOCK_ASSIGN_OR_RETURN(auto writer, record::TfRecordWriter::FromStream(std::move(stream)));
    PENSTOCK_RETURN_IF_ERROR(writer->Append(version_));
    for (const std::string& event : events_) PENSTOCK_RETURN_IF_ERROR(writer->Append(event));
    return base::WithContext(writer->Close(), "TensorBoard");
  }

 private:
  static constexpr size_t kMaxBytes = 256 << 10;

  io::FileSystem& fs_;
  const std::string name_, version_;
  std::vector<std::string> events_;
  size_t bytes_ = 0;
  int part_ = 0;
};

class TensorBoardCallback : public Callback {
 public:
  explicit TensorBoardCallback(const TensorBoardOptions& options)
      : options_(options),
        fs_(options.file_system != nullptr ? options.file_system : io::FileSystem::Default()) {
    profile_.folder = options.folder;
    std::tie(profile_.first_step, profile_.last_step) = options.profile_steps;
    profile_.operations = false;
    profile_.out = nullptr;
  }

  const ProfileOptions* profile() const override {
    return options_.profile_steps.second > 0 ? &profile_ : nullptr;
  }

  bool IsLog() const override { return true; }

  absl::Status Check(const TrainingContext&) const override {
    constexpr absl::string_view kWho = "TensorBoard";
    PENSTOCK_RETURN_IF_ERROR(CheckNotEmpty(kWho, "folder", options_.folder));
    PENSTOCK_RETURN_IF_ERROR(
        CheckNotNegative(kWho, "update_every_steps", options_.update_every_steps));
    const auto [first, last] = options_.profile_steps;
    if (first < 0 || last < first || (last > 0 && first < 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          kWho, "'s profile_steps must be the first and the last step of the profile, ",
          "from 1, or {0, 0}; got {", first, ", ", last, "}"));
    }
    return base::WithContext(io::CheckWritableFolder(*fs_, options_.folder), kWho);
  }

  absl::Status EpochBegin(TrainingContext&, const Position& position) override {
    steps_ = position.total_steps;
    return absl::OkStatus();
  }

  absl::Status BatchEnd(TrainingContext&, const Position& position, const Logs& logs) override {
    if (options_.update_every_steps == 0) return absl::OkStatus();
    // With several steps in an execution not every step is seen.
    const int64_t periods = position.total_steps / options_.update_every_steps;
    if (std::exchange(steps_, position.total_steps) / options_.update_every_steps == periods) {
      return absl::OkStatus();
    }
    std::vector<std::pair<std::string, double>> scalars;
    for (const auto& [name, value] : logs)
      scalars.emplace_back(absl::StrCat("batch_", name), value);
    return Write(train_, "train", ScalarEvent(*options_.clock, position.total_steps, scalars),
                 /*flush=*/false);
  }

  absl::Status EpochEnd(TrainingContext&, const Position& position, const Logs& logs) override {
    std::vector<std::pair<std::string, double>> train, validation;
    for (const auto& [name, value] : logs) {
      absl::string_view bare = name;
      const bool validates = absl::ConsumePrefix(&bare, "val_");
      (validates ? validation : train).emplace_back(absl::StrCat("epoch_", bare), value);
    }
    PENSTOCK_RETURN_IF_ERROR(Write(
        train_, "train", ScalarEvent(*options_.clock, position.epoch, train), /*flush=*/true));
    if (validation.empty()) return absl::OkStatus();
    return Write(validation_, "validation",
                 ScalarEvent(*options_.clock, position.epoch, validation), /*flush=*/true);
  }

  absl::Status TrainEnd(TrainingContext&) override {
    absl::Status status;
    for (std::unique_ptr<EventFile>* file : {&train_, &validation_}) {
      if (*file != nullptr) status.Update((*file)->Flush());
      file->reset();
    }
    return status;
  }

 private:
  absl::StatusOr<std::unique_ptr<EventFile>> Open(const char* subfolder) {
    const std::string folder = io::JoinPath(options_.folder, subfolder);
    PENSTOCK_RETURN_IF_ERROR(fs_->CreateFolder(folder));
    PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(folder));
    // A unique name: TensorBoard joins the files of a folder.
    const std::string name =
        absl::StrFormat("events.out.tfevents.%010d.penstock.%d",
                        static_cast<int64_t>(options_.clock->UnixSeconds()), getpid());
    std::string version = Event(*options_.clock, 0);
    AppendBytes(version, 3, "brain.Event:2");
    if (!uri.is_local()) {
      return std::make_unique<ObjectEventFile>(*fs_, io::JoinPath(folder, name),
                                               std::move(version));
    }
    PENSTOCK_ASSIGN_OR_RETURN(
        auto file, LocalEventFile::Open(io::JoinPath(uri.path, absl::StrCat(name, ".v2"))));
    PENSTOCK_RETURN_IF_ERROR(file->Append(version));
    shows_at_once_ = true;
    return file;
  }

  absl::Status Write(std::unique_ptr<EventFile>& file, const char* subfolder,
                     const std::string& event, bool flush) {
    constexpr double kFlushSeconds = 30;
    if (file == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(file, Open(subfolder));
    }
    PENSTOCK_RETURN_IF_ERROR(file->Append(event));
    const double now = options_.clock->Seconds();
    if (!flush && !shows_at_once_ && now - flushed_ < kFlushSeconds) return absl::OkStatus();
    flushed_ = now;
    return file->Flush();
  }

  const TensorBoardOptions options_;
  const std::shared_ptr<io::FileSystem> fs_;
  ProfileOptions profile_;
  int64_t steps_ = 0;  // that have been seen
  bool shows_at_once_ = false;
  double flushed_ = 0;
  std::unique_ptr<EventFile> train_, validation_;
};

}  // namespace

std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options) {
  return std::make_shared<TensorBoardCallback>(options);
}

}  // namespace penstock::train
