#include "penstock/record/tfrecord.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/record/crc32c.h"

namespace penstock::record {
namespace {

// Maximum number of views reserved based on the size of a block's first record. Double buffering:
// one block is read while the previous one is in use.
constexpr int kOwnBuffers = 2;
constexpr int64_t kMaxReserved = 4096;

constexpr int64_t kUnknownEnd = std::numeric_limits<int64_t>::max();

template <typename T>
T Load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

template <typename T>
void Store(T value, char* p) {
  std::memcpy(p, &value, sizeof(value));
}

Compression Detect(absl::string_view start) {
  if (ReadTfRecordLength(start).has_value()) return Compression::kNone;
  if (start.size() < 2) return Compression::kNone;
  const uint32_t first = static_cast<unsigned char>(start[0]);
  const uint32_t second = static_cast<unsigned char>(start[1]);
  if (first == 0x1f && second == 0x8b) return Compression::kGzip;
  // RFC 1950: method deflate, window at most 32 kB, no dictionary, a checksum of both bytes.
  const bool zlib = (first & 0x0f) == 8 && (first >> 4) <= 7 && (second & 0x20) == 0 &&
                    (first * 256 + second) % 31 == 0;
  return zlib ? Compression::kZlib : Compression::kNone;
}

// Reads at `offset`, up to the file's size when it was opened. If fewer bytes arrive, the file was
// truncated since, perhaps between two records, and its end must not be treated as the end of the
// data.
absl::StatusOr<int64_t> ReadUpToSize(io::RandomAccessFile& file, int64_t offset,
                                     absl::Span<char> out) {
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t n, file.Read(offset, out));
  if (n == static_cast<int64_t>(out.size()) || offset + n >= file.size()) return n;
  return io::TruncatedFileError(file.uri(), file.size(), offset + n);
}

// A stream of a file from an offset. Also stores its own errors in `failed`.
class FileStream : public io::InputStream {
 public:
  FileStream(std::shared_ptr<io::RandomAccessFile> file, int64_t offset, absl::Status* failed)
      : io::InputStream(file->full_uri()),
        file_(std::move(file)),
        offset_(offset),
        failed_(failed) {}

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    const absl::StatusOr<int64_t> n = ReadUpToSize(*file_, offset_, out);
    if (!n.ok()) *failed_ = n.status();
    if (n.ok()) offset_ += *n;
    return n;
  }

 private:
  const std::shared_ptr<io::RandomAccessFile> file_;
  int64_t offset_;
  absl::Status* const failed_;
};

// A stream that also stores its own errors in `failed`.
class WatchedStream : public io::InputStream {
 public:
  WatchedStream(std::unique_ptr<io::InputStream> stream, absl::Status* failed)
      : io::InputStream(stream->full_uri()), stream_(std::move(stream)), failed_(failed) {}

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    absl::StatusOr<int64_t> n = stream_->Read(out);
    if (!n.ok()) *failed_ = n.status();
    return n;
  }

 private:
  const std::unique_ptr<io::InputStream> stream_;
  absl::Status* const failed_;
};

// A stream with its first bytes, which were already read, put back.
class PrefixedStream : public io::InputStream {
 public:
  PrefixedStream(std::string prefix, std::unique_ptr<io::InputStream> rest)
      : io::InputStream(rest->full_uri()), prefix_(std::move(prefix)), rest_(std::move(rest)) {}

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    if (used_ == prefix_.size()) {
      prefix_ = std::string();
      used_ = 0;
      return rest_->Read(out);
    }
    const size_t n = std::min(out.size(), prefix_.size() - used_);
    std::memcpy(out.data(), prefix_.data() + used_, n);
    used_ += n;
    return static_cast<int64_t>(n);
  }

 private:
  std::string prefix_;
  size_t used_ = 0;
  std::unique_ptr<io::InputStream> rest_;
};

absl::Status CheckReaderOptions(const TfRecordReaderOptions& options, absl::string_view uri) {
  if (options.begin >= 0 && options.begin <= options.end && options.block_bytes > 0 &&
      options.max_record_bytes >= 0 && options.max_record_bytes <= int64_t{1} << 62 &&
      options.first_index >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      uri, ": cannot read records from offset ", options.begin, " to ", options.end,
      " in blocks of ", options.block_bytes, " bytes, of at most ", options.max_record_bytes,
      " bytes each, the first with index ", options.first_index));
}

}  // namespace

std::optional<uint64_t> ReadTfRecordLength(absl::string_view header) {
  if (static_cast<int64_t>(header.size()) < kTfRecordHeaderBytes) return std::nullopt;
  const char* bytes = header.data();
  if (UnmaskCrc(Load<uint32_t>(bytes + 8)) != Crc32c({bytes, 8})) return std::nullopt;
  return Load<uint64_t>(bytes);
}

std::string RecordOrigin(absl::string_view uri, int64_t offset, int64_t index, bool compressed) {
  return absl::StrCat(io::DisplayName(uri), ":", offset, ":", index,
                      compressed ? " (offset when uncompressed)" : "");
}

int64_t RecordBlock::OffsetOf(int64_t i) const {
  return first_offset + (records[static_cast<size_t>(i)].data() - records[0].data());
}

std::shared_ptr<char> TfRecordBufferPool::Allocate(
    const std::shared_ptr<TfRecordBufferPool>& buffers, int64_t bytes) {
  if (bytes > buffers->bytes_ || bytes < buffers->bytes_ / 2) {
    return std::shared_ptr<char>(new char[static_cast<size_t>(bytes)], [](char* p) { delete[] p; });
  }
  std::unique_ptr<char[]> memory;
  {
    std::lock_guard<std::mutex> lock(buffers->mutex_);
    if (!buffers->free_.empty()) {
      memory = std::move(buffers->free_.back());
      buffers->free_.pop_back();
    }
  }
  if (memory == nullptr) memory.reset(new char[static_cast<size_t>(buffers->bytes_)]);
  return std::shared_ptr<char>(memory.release(), [buffers](char* p) { buffers->Release(p); });
}

void TfRecordBufferPool::Release(char* p) {
  std::unique_ptr<char[]> memory(p);
  std::lock_guard<std::mutex> lock(mutex_);
  if (static_cast<int>(free_.size()) < kept_) free_.push_back(std::move(memory));
}

// The record frame at offset_.
struct TfRecordReader::Frame {
  enum Kind {
    kWhole,
    kTruncated,  // truncated: `size` bytes are needed, the buffer has fewer
    kBadLength,  // corrupt length: the next record cannot be found
    kTooLong,
    kBadData,
  };
  Kind kind;
  int64_t size = 0;     // of header, data and footer, if known
  uint64_t length = 0;  // data length in the header
  absl::string_view data = {};
};

TfRecordReader::TfRecordReader(const std::string& uri, const TfRecordReaderOptions& options)
    : uri_(std::make_shared<const std::string>(uri)),
      options_(options),
      compression_(options.compression),
      source_end_(kUnknownEnd),
      buffers_(options.buffers != nullptr
                   ? options.buffers
                   : std::make_shared<TfRecordBufferPool>(options.block_bytes, kOwnBuffers)),
      index_(options.first_index) {}

TfRecordReader::~TfRecordReader() = default;

absl::StatusOr<std::unique_ptr<TfRecordReader>> TfRecordReader::Open(
    io::FileSystem& fs, absl::string_view uri, TfRecordReaderOptions options) {
  PENSTOCK_ASSIGN_OR_RETURN(auto file, fs.OpenRandomAccess(uri));
  return FromFile(std::move(file), options);
}

absl::StatusOr<std::unique_ptr<TfRecordReader>> TfRecordReader::FromFile(
    std::shared_ptr<io::RandomAccessFile> file, TfRecordReaderOptions options) {
  PENSTOCK_RETURN_IF_ERROR(CheckReaderOptions(options, file->uri()));
  std::unique_ptr<TfRecordReader> reader(new TfRecordReader(file->uri(), options));
  reader->file_ = std::move(file);
  reader->source_ = std::make_unique<FileStream>(reader->file_, 0, &reader->file_status_);
  reader->source_end_ = reader->file_->size();
  PENSTOCK_RETURN_IF_ERROR(reader->Start());
  return reader;
}

absl::StatusOr<std::unique_ptr<TfRecordReader>> TfRecordReader::FromStream(
    std::unique_ptr<io::InputStream> stream, TfRecordReaderOptions options) {
  PENSTOCK_RETURN_IF_ERROR(CheckReaderOptions(options, stream->uri()));
  std::unique_ptr<TfRecordReader> reader(new TfRecordReader(stream->uri(), options));
  reader->source_ = std::make_unique<WatchedStream>(std::move(stream), &reader->file_status_);
  PENSTOCK_RETURN_IF_ERROR(reader->Start());
  return reader;
}

// source_ is positioned at the first byte of the file.
absl::Status TfRecordReader::Start() {
  const bool jumps = file_ != nullptr && options_.begin > 0;
  if (compression_ == Compression::kAuto && jumps) {
    char start[kTfRecordHeaderBytes];
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t size, ReadUpToSize(*file_, 0, absl::MakeSpan(start)));
    compression_ = Detect({start, static_cast<size_t>(size)});
  } else if (compression_ == Compression::kAuto) {
    Fill(kTfRecordHeaderBytes);
    PENSTOCK_RETURN_IF_ERROR(source_status_);
    compression_ = Detect(Buffered());
  }
  if (compression_ != Compression::kNone) {
    source_end_ = kUnknownEnd;
    source_ = Inflate(std::make_unique<PrefixedStream>(std::string(Buffered()), std::move(source_)),
                      compression_);
    DropBuffer();
  }
  return jumps ? Restart(options_.begin) : SkipTo(options_.begin);
}

absl::Status TfRecordReader::Restart(int64_t offset) {
  if (offset > source_end_) return OffsetBeyondEndError(offset, source_end_);
  DropBuffer();
  source_status_ = file_status_ = absl::OkStatus();
  if (compression_ == Compression::kNone) {
    offset_ = offset;
    source_ = std::make_unique<FileStream>(file_, offset, &file_status_);
    return absl::OkStatus();
  }
  offset_ = 0;
  source_ = Inflate(std::make_unique<FileStream>(file_, 0, &file_status_), compression_);
  return SkipTo(offset);
}

// Reads and discards the bytes before `offset`.
absl::Status TfRecordReader::SkipTo(int64_t offset) {
  while (offset_ < offset) {
    if (Buffered().empty() && !Fill(std::min(offset - offset_, options_.block_bytes))) {
      PENSTOCK_RETURN_IF_ERROR(source_status_);
      return OffsetBeyondEndError(offset, offset_);
    }
    Consume(std::min<int64_t>(offset - offset_, static_cast<int64_t>(Buffered().size())));
  }
  return absl::OkStatus();
}

absl::Status TfRecordReader::OffsetBeyondEndError(int64_t offset, int64_t end) const {
  return absl::OutOfRangeError(absl::StrCat("cannot read from offset ", offset, " of ", *uri_,
                                            ": it ends at ", end, "; was it replaced?"));
}

absl::Status TfRecordReader::Seek(int64_t offset, int64_t index) {
  if (offset < 0 || index < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(*uri_, ": no record with index ", index, " begins at offset ", offset));
  }
  const bool forward = status_.ok() && offset >= offset_;
  const bool near = offset - offset_ <= static_cast<int64_t>(Buffered().size());
  if (!forward && file_ == nullptr) {
    PENSTOCK_RETURN_IF_ERROR(status_);
    return absl::FailedPreconditionError(
        absl::StrCat("cannot seek back from offset ", offset_, " to ", offset, " of ", *uri_,
                     ": it is read as a stream; use TfRecordReader::Open for random access"));
  }
  const bool can_jump = file_ != nullptr && compression_ == Compression::kNone;
  status_ = forward && (near || !can_jump) ? SkipTo(offset) : Restart(offset);
  index_ = index;
  ended_ = false;
  return status_;
}

absl::string_view TfRecordReader::Buffered() const {
  return {buffer_.get() + consumed_, static_cast<size_t>(filled_ - consumed_)};
}

void TfRecordReader::Consume(int64_t bytes) {
  consumed_ += bytes;
  offset_ += bytes;
}

// Reads more into the buffer, if possible `needed` bytes from offset_. False if there are no more
// bytes: the source has ended or failed (source_status_).
bool TfRecordReader::Fill(int64_t needed) {
  const int64_t have = filled_ - consumed_;
  const int64_t in_range = options_.end > offset_ ? options_.end - offset_ : 0;
  int64_t target = std::max(needed, std::min(options_.block_bytes, in_range));
  // Memory for a long record grows as its bytes arrive, not by the length that its header claims.
  const int64_t step = std::max({2 * have, options_.block_bytes, kTfRecordHeaderBytes});
  target = std::min({target, source_end_ - offset_, step});
  if (target <= have || !source_status_.ok()) return false;

  std::shared_ptr<char> buffer = TfRecordBufferPool::Allocate(buffers_, target);
  if (have > 0) std::memcpy(buffer.get(), Buffered().data(), static_cast<size_t>(have));
  int64_t size = have;
  while (size < target) {
    const absl::StatusOr<int64_t> n =
        source_->Read(absl::MakeSpan(buffer.get() + size, static_cast<size_t>(target - size)));
    if (!n.ok()) source_status_ = n.status();
    if (!n.ok() || *n == 0) break;
    size += *n;
  }
  buffer_ = std::move(buffer);
  filled_ = size;
  consumed_ = 0;
  return size > have;
}

void TfRecordReader::DropBuffer() {
  buffer_.reset();
  filled_ = consumed_ = 0;
}

TfRecordReader::Frame TfRecordReader::NextFrame() const {
  const absl::string_view bytes = Buffered();
  if (bytes.size() < kTfRecordHeaderBytes) {
    return {.kind = Frame::kTruncated, .size = kTfRecordHeaderBytes};
  }
  const std::optional<uint64_t> length = ReadTfRecordLength(bytes);
  if (!length) return {.kind = Frame::kBadLength};
  if (*length > static_cast<uint64_t>(options_.max_record_bytes)) {
    return {.kind = Frame::kTooLong, .length = *length};
  }
  const int64_t size = kTfRecordHeaderBytes + static_cast<int64_t>(*length) + kTfRecordFooterBytes;
  if (static_cast<int64_t>(bytes.size()) < size) {
    return {.kind = Frame::kTruncated, .size = size, .length = *length};
  }
  const absl::string_view data = bytes.substr(kTfRecordHeaderBytes, *length);
  const bool good =
      !options_.verify || UnmaskCrc(Load<uint32_t>(data.data() + data.size())) == Crc32c(data);
  return {.kind = good ? Frame::kWhole : Frame::kBadData,
          .size = size,
          .length = *length,
          .data = data};
}

absl::StatusOr<RecordBlock> TfRecordReader::ReadBlock() {
  PENSTOCK_RETURN_IF_ERROR(status_);
  RecordBlock block;
  block.uri = uri_;
  block.compressed = compression_ != Compression::kNone;
  while (offset_ < options_.end && !ended_) {
    const Frame frame = NextFrame();
    if (frame.kind == Frame::kWhole) {
      if (block.empty()) {
        block.owner = buffer_;
        block.first_index = index_;
        block.first_offset = offset_;
        block.records.reserve(
            static_cast<size_t>(std::min((filled_ - consumed_) / frame.size, kMaxReserved)));
      }
      block.records.push_back(frame.data);
      Consume(frame.size);
      ++index_;
      continue;
    }
    // A truncated or corrupt record is handled by the next call.
    if (!block.empty()) break;
    if (frame.kind == Frame::kTruncated) {
      if (Fill(frame.size)) continue;
      if (Buffered().empty() && source_status_.ok()) break;
    }
    status_ = HandleCorruption(frame);
    PENSTOCK_RETURN_IF_ERROR(status_);
  }
  block.next_offset = offset_;
  return block;
}

absl::Status TfRecordReader::DescribeCorruption(const Frame& frame) const {
  const std::string where =
      RecordOrigin(*uri_, offset_, index_, compression_ != Compression::kNone);
  switch (frame.kind) {
    case Frame::kBadData:
      return absl::DataLossError(absl::StrCat(where, ": the record's ", frame.length,
                                              " bytes do not match their checksum"));
    case Frame::kTooLong:
      return absl::DataLossError(
          absl::StrCat(where, ": a record of ", frame.length, " bytes exceeds the limit of ",
                       options_.max_record_bytes, " bytes (max_record_bytes)"));
    case Frame::kTruncated:
      if (!source_status_.ok()) return base::WithContext(source_status_, where);
      return absl::DataLossError(absl::StrCat(
          where, ": the file is truncated within the record: ", Buffered().size(), " bytes of ",
          frame.size > kTfRecordHeaderBytes ? absl::StrCat(frame.size) : "its header"));
    default:
      return absl::DataLossError(absl::StrCat(
          where,
          ": the record's length does not match its checksum: the file is corrupt, or "
          "this is not a TFRecord file",
          offset_ == options_.begin && offset_ > 0 ? ", or no record begins at this offset" : ""));
  }
}

// Returns the corruption at offset_, or skips it. A file that cannot be read is never skipped,
// whatever the code of its error: the records that it still holds may all be intact.
absl::Status TfRecordReader::HandleCorruption(const Frame& frame) {
  absl::Status damage = DescribeCorruption(frame);
  const bool unread = frame.kind == Frame::kTruncated && !file_status_.ok();
  if (!options_.skip_corrupt || unread || !absl::IsDataLoss(damage)) return damage;
  if (frame.kind != Frame::kBadData) {
    damage = absl::DataLossError(absl::StrCat(damage.message(), kRestOfFileIsLost));
  }
  if (options_.on_corruption != nullptr) {
    options_.on_corruption(RecordOrigin(*uri_, offset_, index_, compression_ != Compression::kNone),
                           damage);
  }
  if (corruption_.records++ == 0) corruption_.first = std::move(damage);
  if (frame.kind == Frame::kBadData) {
    Consume(frame.size);
    ++index_;
  } else {
    corruption_.ended_early = ended_ = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TfRecordWriter>> TfRecordWriter::Create(
    io::FileSystem& fs, absl::string_view uri, TfRecordWriterOptions options) {
  PENSTOCK_ASSIGN_OR_RETURN(auto out, fs.Create(uri));
  return FromStream(std::move(out), options);
}

absl::StatusOr<std::unique_ptr<TfRecordWriter>> TfRecordWriter::FromStream(
    std::unique_ptr<io::OutputStream> out, TfRecordWriterOptions options) {
  if (options.compression == Compression::kGzip || options.compression == Compression::kZlib) {
    PENSTOCK_ASSIGN_OR_RETURN(
        out, Deflate(std::move(out), options.compression, options.compression_level));
  }
  return std::unique_ptr<TfRecordWriter>(new TfRecordWriter(std::move(out)));
}

absl::Status TfRecordWriter::AppendV(absl::Span<const absl::string_view> pieces) {
  uint64_t length = 0;
  uint32_t crc = 0;
  for (absl::string_view piece : pieces) {
    length += piece.size();
    crc = ExtendCrc32c(crc, piece);
  }
  char header[kTfRecordHeaderBytes];
  Store(length, header);
  Store(MaskCrc(Crc32c({header, sizeof(length)})), header + sizeof(length));
  char footer[kTfRecordFooterBytes];
  Store(MaskCrc(crc), footer);

  PENSTOCK_RETURN_IF_ERROR(out_->Append({header, sizeof(header)}));
  for (absl::string_view piece : pieces) PENSTOCK_RETURN_IF_ERROR(out_->Append(piece));
  PENSTOCK_RETURN_IF_ERROR(out_->Append({footer, sizeof(footer)}));
  offset_ += kTfRecordHeaderBytes + static_cast<int64_t>(length) + kTfRecordFooterBytes;
  ++num_records_;
  return absl::OkStatus();
}

absl::Status TfRecordWriter::Close() { return out_->Close(); }

}  // namespace penstock::record
