// Writer of TensorBoard's event files: TFRecords of tensorflow.Event protocol buffers. The callback
// TensorBoard and summary::FileWriter (room session) use it.
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto events, EventWriter::Open({.folder = "logs/train"}));
//   PENSTOCK_RETURN_IF_ERROR(events->Append(100, ScalarSummary({{"loss", 0.3}})));
//   PENSTOCK_RETURN_IF_ERROR(events->Flush());
//
// These fields are written (tensorflow/core/util/event.proto, framework/summary.proto):
//   Event    1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary summary
//   Summary  1: repeated Value { 1: string tag, 2: float simple_value, ... }
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/clock.h"
#include "penstock/io/file_system.h"

namespace penstock::train {

// Appends fields to the text of a protocol buffer.
void AppendVarint(std::string& out, uint64_t value);
void AppendVarintField(std::string& out, int field, uint64_t value);
void AppendBytesField(std::string& out, int field, absl::string_view bytes);
void AppendFloatField(std::string& out, int field, float value);
void AppendDoubleField(std::string& out, int field, double value);

// The serialized Summary of numbers by tag.
std::string ScalarSummary(const std::vector<std::pair<std::string, double>>& scalars);

// One event file of a folder. On a local disk events are visible to readers at each Flush. Objects
// (gs://, s3://) cannot grow: Flush rewrites the object, and after 256 KiB a new one is started.
class EventWriter {
 public:
  struct Options {
    std::string folder;  // created if it is missing
    // Appended to the file's name, as TensorFlow's filename_suffix.
    std::string suffix = "";
    std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
    base::Clock* clock = base::Clock::Real();
  };
  static absl::StatusOr<std::unique_ptr<EventWriter>> Open(const Options& options);
  virtual ~EventWriter() = default;

  // Appends an event at the clock's time. `summary`: a serialized Summary.
  absl::Status Append(int64_t step, absl::string_view summary);
  // The same of another field of Event (4: graph_def).
  absl::Status AppendField(int64_t step, int field, absl::string_view bytes);
  // Makes the appended events visible to readers of the file.
  virtual absl::Status Flush() = 0;
  // Whether Flush is cheap, so that it may follow every event.
  virtual bool flushes_cheaply() const = 0;

 protected:
  explicit EventWriter(base::Clock& clock) : clock_(clock) {}
  virtual absl::Status AppendEvent(absl::string_view event) = 0;

 private:
  base::Clock& clock_;
};

}  // namespace penstock::train
