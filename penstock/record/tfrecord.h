// Room record: the file formats of training data, TFRecord files and tf.train.Example messages. It
// uses base and io.
//
//   tfrecord.h        TFRecord files, read by block and written
//   tfrecord_index.h  index of a file's records, for random access (global shuffle)
//   example.h         tf.train.Example: builder and generic reader
//   example_parser.h  parses many Examples into the columns of a schema
//   compression.h     gzip and zlib streams
//   crc32c.h          the checksum of TFRecord
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto writer, TfRecordWriter::Create(*fs, "gs://b/train-00.tfrec"));
//   for (const auto& image : images) PENSTOCK_RETURN_IF_ERROR(writer->Append(image));
//   PENSTOCK_RETURN_IF_ERROR(writer->Close());           // publishes the file atomically
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto reader, TfRecordReader::Open(*fs, "gs://b/train-00.tfrec"));
//   for (;;) {
//     PENSTOCK_ASSIGN_OR_RETURN(RecordBlock block, reader->ReadBlock());
//     if (block.empty()) break;
//     for (absl::string_view record : block.records) Use(record);   // valid while `block` lives
//   }
//
// Format (tensorflow.org/tutorials/load_data/tfrecord): a sequence of records, each
//
//   uint64 length | uint32 masked CRC-32C of the 8 bytes of length | length bytes | uint32 masked
//   CRC-32C of these                                                        (all little-endian)
//
// with nothing before, between or after them; an empty file has no records. A compressed file is a
// gzip or zlib stream of such a file. Every byte is covered by a checksum, so any corrupted byte is
// detected (in a compressed file, unless it is insignificant, such as gzip's timestamp).
//
// Corruption is DataLoss, and the message locates it as `uri:offset:record`: the offset of the
// record's length field (for compressed files in the uncompressed stream, which is noted) and the
// record's index in the file, from 0. A record with corrupt data can be skipped, because its length
// is known. After a corrupt length, a truncation, or corrupt compressed data no further record can
// be found, because TFRecord has no sync markers: skip_corrupt ends the file there and reports that
// in corruption().
//
// A file that cannot be read (storage or network errors), or that was truncated since it was opened
// (Aborted), is not corrupt: that is an error even with skip_corrupt, and the read may be retried.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/io/file_system.h"
#include "penstock/record/compression.h"

namespace penstock::record {

inline constexpr int64_t kTfRecordHeaderBytes = 12;
inline constexpr int64_t kTfRecordFooterBytes = 4;

// The data length in a record's header; no value if `header` is shorter than a header or its
// checksum does not match.
std::optional<uint64_t> ReadTfRecordLength(absl::string_view header);

// Suffix of the message of an error after which no further record of a file can be found.
inline constexpr char kRestOfFileIsLost[] =
    "; no further record can be located, so the rest of the file is skipped";

// The location of a record, "uri:offset:record", as used in all error messages.
std::string RecordOrigin(absl::string_view uri, int64_t offset, int64_t index, bool compressed);

// Consecutive records of a file that share one block of memory. Holding on to one record keeps the
// whole block in memory, so long-lived holders (a shuffle buffer) copy records.
struct RecordBlock {
  std::shared_ptr<const void> owner;  // keeps the records' bytes alive
  std::vector<absl::string_view> records;
  std::shared_ptr<const std::string> uri;
  bool compressed = false;   // offsets refer to the uncompressed stream
  int64_t first_index = 0;   // index of records[0] in the file
  int64_t first_offset = 0;  // offset of records[0]: of its length field
  int64_t next_offset = 0;   // offset of the record after the last one

  bool empty() const { return records.empty(); }
  int64_t size() const { return static_cast<int64_t>(records.size()); }
  int64_t IndexOf(int64_t i) const { return first_index + i; }
  int64_t OffsetOf(int64_t i) const;
  // RecordOrigin of records[i], for error messages.
  std::string Origin(int64_t i) const {
    return RecordOrigin(*uri, OffsetOf(i), IndexOf(i), compressed);
  }
};

// Buffer pool for blocks. A buffer is reused when the last reference to a block's records is gone,
// because fresh memory costs page faults, about as much as reading from the page cache. Readers may
// share a pool, also successively. Thread-safe.
class TfRecordBufferPool {
 public:
  // A pool of buffers of `bytes`, of which at most `kept` are retained while unused.
  TfRecordBufferPool(int64_t bytes, int kept) : bytes_(bytes), kept_(kept) {}

  // At least `bytes` of uninitialized memory, allocated separately if larger than the pool's
  // buffers.
  static std::shared_ptr<char> Allocate(const std::shared_ptr<TfRecordBufferPool>& buffers,
                                        int64_t bytes);

 private:
  void Release(char* p);

  const int64_t bytes_;
  const int kept_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<char[]>> free_;  // guarded by mutex_
};

struct TfRecordReaderOptions {
  // kAuto: a valid length and CRC at the start means no compression; otherwise the magic bytes of
  // gzip and zlib are checked. If `begin` is not 0, detection costs one small read at the start of
  // the file, which an explicit compression avoids.
  Compression compression = Compression::kAuto;
  // Range of records to read: those that begin in [begin, end). `begin` is the offset of a record
  // or of the end, as in RecordBlock, and `first_index` the index of that record. Offsets of a
  // compressed file count uncompressed bytes; the bytes before `begin` are decompressed and
  // discarded.
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
  int64_t first_index = 0;
  // Approximate size of a read, and thus of most blocks, in bytes (default 1 MiB). Larger blocks
  // hide more latency of object storage; smaller ones stay in the CPU cache while they are
  // verified.
  int64_t block_bytes = int64_t{1} << 20;
  // Maximum record size in bytes (default 1 GiB); a longer record is treated as corrupt, so that a
  // hostile length cannot exhaust memory.
  int64_t max_record_bytes = int64_t{1} << 30;
  // Verify the CRC of the data (lengths are always verified).
  bool verify = true;
  // Skips and counts corrupt records instead of returning an error. Read errors (I/O, network) are
  // still errors.
  bool skip_corrupt = false;
  // Buffer pool; its buffers should have block_bytes. Default: a private pool.
  std::shared_ptr<TfRecordBufferPool> buffers = {};
  // Called for each skipped record, within ReadBlock, with its origin and the error (whose message
  // begins with the origin).
  std::function<void(const std::string& origin, const absl::Status& error)> on_corruption = {};
};

// Statistics of the records skipped by skip_corrupt.
struct TfRecordCorruption {
  int64_t records = 0;       // number of corrupt records
  bool ended_early = false;  // the rest of the file after the last one could not be read
  absl::Status first;        // error of the first one; OK if there were none
};

// Sequential reader of a shard (TFRecord file), by blocks of records. Used by one thread at a time;
// blocks may be passed to other threads and outlive the reader.
class TfRecordReader {
 public:
  // Reads by range requests: only the bytes of [begin, end).
  static absl::StatusOr<std::unique_ptr<TfRecordReader>> Open(io::FileSystem& fs,
                                                              absl::string_view uri,
                                                              TfRecordReaderOptions options = {});
  static absl::StatusOr<std::unique_ptr<TfRecordReader>> FromFile(
      std::shared_ptr<io::RandomAccessFile> file, TfRecordReaderOptions options = {});
  // Reads a stream (with read-ahead, or a pipe) positioned at the first byte of the file.
  static absl::StatusOr<std::unique_ptr<TfRecordReader>> FromStream(
      std::unique_ptr<io::InputStream> stream, TfRecordReaderOptions options = {});
  ~TfRecordReader();

  // Returns the next block: the records that are complete within one read, at least one; an empty
  // block at the end of the file. A block ends before a corrupt record, so the records of a block
  // always have consecutive indices. An error is sticky: it is returned again until Seek.
  absl::StatusOr<RecordBlock> ReadBlock();

  // Continues at the record with that offset and index. A stream can only seek forward.
  absl::Status Seek(int64_t offset, int64_t index);

  // Position of the next record: the iterator state to save for resuming here later.
  int64_t offset() const { return offset_; }
  int64_t index() const { return index_; }

  Compression compression() const { return compression_; }  // detected, never kAuto
  const TfRecordCorruption& corruption() const { return corruption_; }

 private:
  struct Frame;

  TfRecordReader(const std::string& uri, const TfRecordReaderOptions& options);
  absl::Status Start();
  absl::Status Restart(int64_t offset);
  absl::Status SkipTo(int64_t offset);
  absl::Status OffsetBeyondEndError(int64_t offset, int64_t end) const;
  bool Fill(int64_t needed);
  Frame NextFrame() const;
  absl::Status DescribeCorruption(const Frame& frame) const;
  absl::Status HandleCorruption(const Frame& frame);
  absl::string_view Buffered() const;
  void Consume(int64_t bytes);
  void DropBuffer();

  const std::shared_ptr<const std::string> uri_;
  const TfRecordReaderOptions options_;
  Compression compression_ = Compression::kNone;
  std::shared_ptr<io::RandomAccessFile> file_;  // nullptr if reading a stream
  std::unique_ptr<io::InputStream> source_;     // uncompressed; continues where the buffer ends
  int64_t source_end_;                          // offset of the end; a huge value if unknown
  absl::Status source_status_;                  // error that ended the source; OK at its end
  absl::Status file_status_;                    // same for the underlying, compressed file

  const std::shared_ptr<TfRecordBufferPool> buffers_;
  std::shared_ptr<char> buffer_;  // shared with the blocks that view it
  int64_t filled_ = 0;            // bytes in the buffer
  int64_t consumed_ = 0;          // bytes of the buffer before offset_

  int64_t offset_ = 0;
  int64_t index_ = 0;
  absl::Status status_;  // sticky
  bool ended_ = false;   // by corruption after which nothing can be read
  TfRecordCorruption corruption_;
};

struct TfRecordWriterOptions {
  Compression compression = Compression::kNone;  // kAuto means kNone
  int compression_level = -1;                    // zlib's: 0 to 9, -1 for its default
};

// Writer of a TFRecord file. The output is deterministic. Used by one thread at a time.
class TfRecordWriter {
 public:
  static absl::StatusOr<std::unique_ptr<TfRecordWriter>> Create(io::FileSystem& fs,
                                                                absl::string_view uri,
                                                                TfRecordWriterOptions options = {});
  static absl::StatusOr<std::unique_ptr<TfRecordWriter>> FromStream(
      std::unique_ptr<io::OutputStream> out, TfRecordWriterOptions options = {});

  absl::Status Append(absl::string_view record) { return AppendV({record}); }
  // Appends one record given as pieces, without concatenating them.
  absl::Status AppendV(absl::Span<const absl::string_view> pieces);

  // Publishes the file atomically. Fails, and publishes nothing, if an Append failed; a writer
  // destroyed without Close leaves no file behind. Must be called once, as the last call.
  absl::Status Close();

  int64_t num_records() const { return num_records_; }
  // Offset of the next record, uncompressed, as stored in an index of the file.
  int64_t offset() const { return offset_; }

 private:
  explicit TfRecordWriter(std::unique_ptr<io::OutputStream> out) : out_(std::move(out)) {}

  std::unique_ptr<io::OutputStream> out_;
  int64_t num_records_ = 0;
  int64_t offset_ = 0;
};

}  // namespace penstock::record
