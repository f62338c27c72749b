// TensorBoard's event files: TFRecords of tensorflow.Event protocol buffers, of which these fields
// are written (tensorflow/core/util/event.proto, framework/summary.proto):
//   Event   { 1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary summary }
//   Summary { 1: repeated Value { 1: string tag, 2: float simple_value } }
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
#include "penstock/io/uri.h"
#include "penstock/record/tfrecord.h"
#include "penstock/train/callbacks.h"
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

std::string Event(int64_t step) {
  std::string event;
  AppendFixed(event, 1, base::Clock::Real()->UnixSeconds());
  AppendVarint(event, 2 << 3);
  AppendVarint(event, static_cast<uint64_t>(step));
  return event;
}

std::string ScalarEvent(int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    AppendBytes(value, 1, tag);
    AppendFixed(value, 2, static_cast<float>(number));
    AppendBytes(summary, 1, value);
  }
  std::string event = Event(step);
  AppendBytes(event, 5, summary);
  return event;
}

class TensorBoardCallback : public Callback {
 public:
  explicit TensorBoardCallback(const TensorBoardOptions& options) : options_(options) {
    profile_.folder = options.folder;
    std::tie(profile_.first_step, profile_.last_step) = options.profile_steps;
    profile_.operations = false;
    profile_.out = nullptr;
  }

  const ProfileOptions* profile() const override {
    return options_.profile_steps.second > 0 ? &profile_ : nullptr;
  }

  absl::Status EpochBegin(Run&, const Position& position) override {
    steps_ = position.total_steps;
    return absl::OkStatus();
  }

  absl::Status BatchEnd(Run&, const Position& position, const Logs& logs) override {
    if (options_.update_every_steps == 0) return absl::OkStatus();
    // With several steps in an execution not every step is seen.
    const int64_t periods = position.total_steps / options_.update_every_steps;
    if (std::exchange(steps_, position.total_steps) / options_.update_every_steps == periods) {
      return absl::OkStatus();
    }
    std::vector<std::pair<std::string, double>> scalars;
    for (const auto& [name, value] : logs)
      scalars.emplace_back(absl::StrCat("batch_", name), value);
    return Write(train_, "train", ScalarEvent(position.total_steps, scalars));
  }

  absl::Status EpochEnd(Run&, const Position& position, const Logs& logs) override {
    std::vector<std::pair<std::string, double>> train, validation;
    for (const auto& [name, value] : logs) {
      absl::string_view bare = name;
      const bool validates = absl::ConsumePrefix(&bare, "val_");
      (validates ? validation : train).emplace_back(absl::StrCat("epoch_", bare), value);
    }
    PENSTOCK_RETURN_IF_ERROR(Write(train_, "train", ScalarEvent(position.epoch, train)));
    if (validation.empty()) return absl::OkStatus();
    return Write(validation_, "validation", ScalarEvent(position.epoch, validation));
  }

  absl::Status TrainEnd(Run&) override {
    train_ = {};
    validation_ = {};
    return absl::OkStatus();
  }

 private:
  // Event files grow while they are read, so they are written in place and flushed after each
  // event; the streams of room io would show them only at the end.
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
  struct Events {
    std::unique_ptr<record::TfRecordWriter> writer;
    GrowingFile* file = nullptr;  // the writer's
  };

  absl::Status Open(Events& events, const char* run) {
    const std::string folder = io::JoinPath(options_.folder, run);
    PENSTOCK_RETURN_IF_ERROR(io::FileSystem::Default()->CreateFolder(folder));
    // The name is unique: TensorBoard joins the files of a folder.
    const std::string path =
        absl::StrFormat("%s/events.out.tfevents.%010d.penstock.%d.v2", folder,
                        static_cast<int64_t>(base::Clock::Real()->UnixSeconds()), getpid());
    std::FILE* opened = std::fopen(path.c_str(), "a");
    if (opened == nullptr) return Failed(path);
    auto file = std::make_unique<GrowingFile>(path, opened);
    events.file = file.get();
    PENSTOCK_ASSIGN_OR_RETURN(events.writer, record::TfRecordWriter::FromStream(std::move(file)));
    std::string version = Event(0);
    AppendBytes(version, 3, "brain.Event:2");
    return events.writer->Append(version);
  }

  absl::Status Write(Events& events, const char* run, const std::string& event) {
    if (events.writer == nullptr) PENSTOCK_RETURN_IF_ERROR(Open(events, run));
    PENSTOCK_RETURN_IF_ERROR(events.writer->Append(event));
    return events.file->Flush();
  }

  static absl::Status Failed(absl::string_view path) {
    return absl::UnavailableError(
        absl::StrCat("TensorBoard: ", path, " cannot be written: ", std::strerror(errno)));
  }

  TensorBoardOptions options_;
  ProfileOptions profile_;
  int64_t steps_ = 0;  // that have been seen
  Events train_, validation_;
};

}  // namespace

std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options) {
  return std::make_shared<TensorBoardCallback>(options);
}

}  // namespace penstock::train
