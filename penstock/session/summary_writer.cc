// FileWriter: summaries and graphs into event files. Images of summaries are raw pixels, which it
// encodes as PNG.
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/image/encode.h"
#include "penstock/session/summary.h"
#include "penstock/train/callbacks/event_writer.h"

namespace penstock::session::summary {
namespace {

using ::penstock::train::AppendBytesField;
using ::penstock::train::AppendVarintField;

// Reads the fields of a protocol buffer, of the wire types that a Summary has.
class Fields {
 public:
  explicit Fields(absl::string_view bytes) : rest_(bytes) {}

  // The next field; false at the end or after an error.
  bool Next() {
    begin_ = rest_;
    uint64_t tag = 0;
    if (rest_.empty() || !Varint(tag)) return false;
    number = static_cast<int>(tag >> 3);
    bytes = {};
    varint = 0;
    switch (tag & 7) {
      case 0:
        return Varint(varint);
      case 1:
        return Take(8);
      case 5:
        return Take(4);
      case 2: {
        uint64_t size = 0;
        return Varint(size) && Take(size);
      }
      default:
        failed_ = true;
        return false;
    }
  }
  bool failed() const { return failed_; }
  // The field with its tag.
  absl::string_view whole() const { return begin_.substr(0, begin_.size() - rest_.size()); }

  int number = 0;
  absl::string_view bytes;
  uint64_t varint = 0;

 private:
  bool Varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    failed_ = true;
    return false;
  }
  bool Take(uint64_t size) {
    failed_ = failed_ || size > rest_.size();
    if (failed_) return false;
    bytes = rest_.substr(0, static_cast<size_t>(size));
    rest_.remove_prefix(static_cast<size_t>(size));
    return true;
  }

  absl::string_view rest_, begin_;
  bool failed_ = false;
};

constexpr absl::string_view kPngSignature = "\x89PNG";

// An Image with encoded pixels; as it is if they are encoded already.
absl::StatusOr<std::string> EncodedImage(absl::string_view message) {
  uint64_t size[3] = {0, 0, 0};  // height, width, channels
  absl::string_view pixels;
  Fields fields(message);
  while (fields.Next()) {
    if (fields.number >= 1 && fields.number <= 3) size[fields.number - 1] = fields.varint;
    if (fields.number == 4) pixels = fields.bytes;
  }
  constexpr uint64_t kMax = 1 << 16;
  const bool raw = size[0] > 0 && size[1] > 0 && size[2] > 0 && size[0] <= kMax &&
                   size[1] <= kMax && size[2] <= 4 &&
                   size[0] * size[1] * size[2] == pixels.size() &&
                   pixels.substr(0, kPngSignature.size()) != kPngSignature;
  if (!raw) return std::string(message);
  const Array array = Array::View(
      DType::kU8,
      {static_cast<int64_t>(size[0]), static_cast<int64_t>(size[1]), static_cast<int64_t>(size[2])},
      pixels.data(), nullptr);
  PENSTOCK_ASSIGN_OR_RETURN(const image::ImageView view, image::ViewOf(array));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string png, image::EncodePng(view));
  std::string out;
  for (int i = 0; i < 3; ++i) AppendVarintField(out, i + 1, size[i]);
  AppendBytesField(out, 4, png);
  return out;
}

// The summary with encoded images.
absl::StatusOr<std::string> WithEncodedImages(absl::string_view summary) {
  std::string out;
  Fields values(summary);
  while (values.Next()) {
    if (values.number != 1) {
      absl::StrAppend(&out, values.whole());
      continue;
    }
    std::string value;
    Fields fields(values.bytes);
    while (fields.Next()) {
      if (fields.number != 4) {
        absl::StrAppend(&value, fields.whole());
        continue;
      }
      PENSTOCK_ASSIGN_OR_RETURN(const std::string image, EncodedImage(fields.bytes));
      AppendBytesField(value, 4, image);
    }
    if (fields.failed()) break;
    AppendBytesField(out, 1, value);
  }
  if (values.failed()) {
    return absl::InvalidArgumentError(
        "FileWriter: the array is not the value of a summary (summary::Scalar, Merge, ...)");
  }
  return out;
}

// tensorflow.GraphDef { 1: repeated NodeDef, 4: VersionDef { 1: producer } }, where
// NodeDef is { 1: name, 2: op, 3: repeated input }.
std::string GraphDefOf(const Graph& graph) {
  std::string def;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = *graph.node(id);
    std::string bytes;
    AppendBytesField(bytes, 1, node.name);
    AppendBytesField(bytes, 2, node.type);
    for (const Tensor& input : node.inputs) {
      const std::string& name = input.node()->name;
      AppendBytesField(bytes, 3,
                       input.index() == 0 ? name : absl::StrCat(name, ":", input.index()));
    }
    for (const Node* before : node.control_inputs) {
      AppendBytesField(bytes, 3, absl::StrCat("^", before->name));
    }
    AppendBytesField(def, 1, bytes);
  }
  std::string version;
  AppendVarintField(version, 1, 134);  // TensorFlow 1.15's
  AppendBytesField(def, 4, version);
  return def;
}

}  // namespace

class FileWriter::Impl {
 public:
  Impl(absl::string_view logdir, const FileWriterOptions& options) : options_(options) {
    auto opened = ::penstock::train::EventWriter::Open({.folder = std::string(logdir),
                                                        .suffix = options.filename_suffix,
                                                        .file_system = options.file_system,
                                                        .clock = options.clock});
    status_ = base::WithContext(opened.status(), "FileWriter");
    if (opened.ok()) events_ = *std::move(opened);
    flushed_ = options.clock->Seconds();
    if (options.graph != nullptr && status_.ok()) {
      status_ = AddField(0, 4, GraphDefOf(*options.graph));
    }
  }
  ~Impl() { Close().IgnoreError(); }

  const absl::Status& status() const { return status_; }

  // Appends a field of tensorflow.Event.
  absl::Status AddField(int64_t step, int field, absl::string_view bytes) {
    PENSTOCK_RETURN_IF_ERROR(status_);
    if (events_ == nullptr) return absl::FailedPreconditionError("FileWriter: it is closed");
    PENSTOCK_RETURN_IF_ERROR(events_->AppendField(step, field, bytes));
    const double now = options_.clock->Seconds();
    if (!events_->flushes_cheaply() && now - flushed_ < options_.flush_secs) {
      return absl::OkStatus();
    }
    return Flush();
  }
  absl::Status Flush() {
    PENSTOCK_RETURN_IF_ERROR(status_);
    if (events_ == nullptr) return absl::OkStatus();
    flushed_ = options_.clock->Seconds();
    return events_->Flush();
  }
  absl::Status Close() {
    const absl::Status status = Flush();
    events_ = nullptr;
    return status;
  }

 private:
  const FileWriterOptions options_;
  absl::Status status_;
  std::unique_ptr<::penstock::train::EventWriter> events_;  // nullptr: closed
  double flushed_ = 0;
};

FileWriter::FileWriter(absl::string_view logdir, const FileWriterOptions& options)
    : impl_(std::make_unique<Impl>(logdir, options)) {}
FileWriter::~FileWriter() = default;
FileWriter::FileWriter(FileWriter&&) noexcept = default;
FileWriter& FileWriter::operator=(FileWriter&&) noexcept = default;

const absl::Status& FileWriter::status() const { return impl_->status(); }

absl::Status FileWriter::AddSummary(const Array& summary, int64_t global_step) {
  if (summary.dtype() != DType::kU8 || summary.rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("FileWriter: ", summary.TypeString(),
                     " is not the value of a summary; pass the result of a Run that fetches one"));
  }
  const absl::string_view bytes(static_cast<const char*>(summary.raw()),
                                static_cast<size_t>(summary.num_elements()));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string encoded, WithEncodedImages(bytes));
  return impl_->AddField(global_step, 5, encoded);
}

absl::Status FileWriter::AddScalar(absl::string_view tag, double value, int64_t global_step) {
  return impl_->AddField(global_step, 5,
                         ::penstock::train::ScalarSummary({{std::string(tag), value}}));
}

absl::Status FileWriter::AddGraph(const Graph& graph, int64_t global_step) {
  return impl_->AddField(global_step, 4, GraphDefOf(graph));
}

absl::Status FileWriter::Flush() { return impl_->Flush(); }
absl::Status FileWriter::Close() { return impl_->Close(); }

}  // namespace penstock::session::summary
