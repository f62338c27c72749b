// Room record: what training data is packed in. It may use base and io.
//
//   tfrecord.h        TFRecord files, read by block and written
//   tfrecord_index.h  where their records begin, for reading any of them
//   example.h         tf.train.Example: one written, one read
//   example_parser.h  many Examples read into the columns of a schema
//   compression.h     gzip and zlib streams
//   crc32c.h          the checksum of TFRecord
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto writer, TfRecordWriter::Create(*fs, "gs://b/train-00.tfrec"));
//   for (const auto& image : images) PENSTOCK_RETURN_IF_ERROR(writer->Append(image));
//   PENSTOCK_RETURN_IF_ERROR(writer->Close());           // the file appears here, whole
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto reader, TfRecordReader::Open(*fs, "gs://b/train-00.tfrec"));
//   for (;;) {
//     PENSTOCK_ASSIGN_OR_RETURN(RecordBlock block, reader->ReadBlock());
//     if (block.empty()) break;
//     for (absl::string_view record : block.records) Use(record);   // valid while `block` lives
//   }
//
// The format (tensorflow.org/tutorials/load_data/tfrecord): records one after the other, each
//
//   uint64 length | uint32 masked CRC-32C of the 8 bytes of length | length bytes | uint32 masked
//   CRC-32C of these                                                        (all little-endian)
//
// with nothing before, between or behind them; a file of no bytes holds no records. A compressed
// file is a gzip or zlib stream of such a file. Every byte stands under a checksum, so a changed
// byte is always found (in a compressed file, unless it is one that means nothing, as gzip's time
// does).
//
// Damage is DataLoss and says where as `uri:offset:record`: the offset of the record's length field
// (in the uncompressed stream, and then it says so) and the record's number in the file, from 0.
// A record whose own bytes are bad can be skipped, for its length is known. Behind a bad length, a
// file cut short, or bad compressed data nothing can be found again: TFRecord has no marks to look
// for, so skip_damaged ends the file there and says so in damage().
//
// A file that cannot be read (storage or network errors), or that became shorter since it was
// opened (Aborted), is not corrupt: it is an error even with skip_damaged, and the read may be
// retried.
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

// The data length that a record's header says; none if there are fewer bytes than a header has, or
// the checksum does not agree.
std::optional<uint64_t> ReadTfRecordLength(absl::string_view header);

// What follows the message of an error after which no further record of a file can be found.
inline constexpr char kRestOfFileIsLost[] =
    "; no record behind this place can be found, so the rest of the file is left out";

// "uri:offset:record", the place of a record in a file, as all errors name it.
std::string RecordOrigin(absl::string_view uri, int64_t offset, int64_t index, bool compressed);

// Records that stand one after the other in a file and share memory: one kept record keeps the
// whole block, so what holds records for long (a shuffle buffer) copies them.
struct RecordBlock {
  std::shared_ptr<const void> owner;  // keeps the records' bytes alive
  std::vector<absl::string_view> records;
  std::shared_ptr<const std::string> uri;
  bool compressed = false;   // offsets are then of the uncompressed stream
  int64_t first_index = 0;   // number of records[0] in the file
  int64_t first_offset = 0;  // where records[0] begins: the offset of its length field
  int64_t next_offset = 0;   // where the record after the last one begins

  bool empty() const { return records.empty(); }
  int64_t size() const { return static_cast<int64_t>(records.size()); }
  int64_t IndexOf(int64_t i) const { return first_index + i; }
  int64_t OffsetOf(int64_t i) const;
  // RecordOrigin of records[i].
  std::string Where(int64_t i) const {
    return RecordOrigin(*uri, OffsetOf(i), IndexOf(i), compressed);
  }
};

// Memory of blocks, used again when the last user of a block's records is done: fresh memory costs
// page faults, about as much as reading from the page cache. Readers may share it, also one after
// the other. Any thread may call it.
class TfRecordBuffers {
 public:
  // Blocks of `bytes`; at most `kept` of them lie ready.
  TfRecordBuffers(int64_t bytes, int kept) : bytes_(bytes), kept_(kept) {}

  // At least `bytes` of uninitialised memory; new where a block does not fit.
  static std::shared_ptr<char> Take(const std::shared_ptr<TfRecordBuffers>& buffers, int64_t bytes);

 private:
  void GiveBack(char* p);

  const int64_t bytes_;
  const int kept_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<char[]>> free_;  // guarded by mutex_
};

struct TfRecordReaderOptions {
  // kAuto: a valid length and CRC first means none; else the magic bytes of gzip and zlib are
  // looked for. When `begin` is not 0 this costs one small read at the start of the file, which
  // naming the compression saves.
  Compression compression = Compression::kAuto;
  // Reads the records that begin in [begin, end). `begin` is the offset of a record or of the end,
  // as RecordBlock gives it, and `first_index` the number of that record. Offsets of a compressed
  // file count uncompressed bytes; those before `begin` are inflated and dropped.
  int64_t begin = 0;
  int64_t end = std::numeric_limits<int64_t>::max();
  int64_t first_index = 0;
  // About how much is read at once, and so the size of most blocks. Larger hides more latency of
  // object storage; smaller keeps what is checked in the processor's cache.
  int64_t block_bytes = int64_t{1} << 20;
  // A longer record is damage, so that a hostile length cannot ask for all memory.
  int64_t max_record_bytes = int64_t{1} << 30;
  // False leaves the CRC of the data unchecked (lengths are always checked).
  bool verify = true;
  // Skips and counts corrupt records instead of returning an error. Bytes that cannot be read are
  // an error nevertheless.
  bool skip_damaged = false;
  // None: its own. To be of use its blocks have block_bytes.
  std::shared_ptr<TfRecordBuffers> buffers = {};
  // Called for each of them, within ReadBlock: where it stands, and the error that begins with it.
  std::function<void(const std::string& origin, const absl::Status& error)> on_damage = {};
};

// What skip_damaged passed over.
struct TfRecordDamage {
  int64_t records = 0;       // damaged records met
  bool ended_early = false;  // the last of them hid all that may follow it
  absl::Status first;        // the first of them, as an error; OK when there were none
};

// Reads a file's records in order. Threads: one at a time; blocks may go to others and outlive the
// reader.
class TfRecordReader {
 public:
  // By range: reads only what [begin, end) needs.
  static absl::StatusOr<std::unique_ptr<TfRecordReader>> Open(io::FileSystem& fs,
                                                              absl::string_view uri,
                                                              TfRecordReaderOptions options = {});
  static absl::StatusOr<std::unique_ptr<TfRecordReader>> FromFile(
      std::shared_ptr<io::RandomAccessFile> file, TfRecordReaderOptions options = {});
  // By stream, which stands at the first byte of the file: one that reads ahead, a pipe.
  static absl::StatusOr<std::unique_ptr<TfRecordReader>> FromStream(
      std::unique_ptr<io::InputStream> stream, TfRecordReaderOptions options = {});
  ~TfRecordReader();

  // The next records: as many as are whole in one read, at least one; none at the end. A block ends
  // before a damaged record, so that the records of a block are always numbered without gaps. After
  // an error the same error comes again, until Seek.
  absl::StatusOr<RecordBlock> ReadBlock();

  // Goes on at another record: `offset` where it begins, `index` its number. A stream can only go
  // forward.
  absl::Status Seek(int64_t offset, int64_t index);

  // The record that ReadBlock looks at next: what to save to go on here later.
  int64_t offset() const { return offset_; }
  int64_t index() const { return index_; }

  Compression compression() const { return compression_; }  // found out, never kAuto
  const TfRecordDamage& damage() const { return damage_; }

 private:
  struct Frame;

  TfRecordReader(const std::string& uri, const TfRecordReaderOptions& options);
  absl::Status Start();
  absl::Status Restart(int64_t offset);
  absl::Status PassTo(int64_t offset);
  absl::Status BeyondTheEnd(int64_t offset, int64_t end) const;
  bool Fill(int64_t needed);
  Frame NextFrame() const;
  absl::Status DescribeDamage(const Frame& frame) const;
  absl::Status MeetDamage(const Frame& frame);
  absl::string_view Buffered() const;
  void Consume(int64_t bytes);
  void DropBuffer();

  const std::shared_ptr<const std::string> uri_;
  const TfRecordReaderOptions options_;
  Compression compression_ = Compression::kNone;
  std::shared_ptr<io::RandomAccessFile> file_;  // nullptr when reading a stream
  std::unique_ptr<io::InputStream> source_;     // uncompressed; goes on where the buffer ends
  int64_t source_end_;                          // offset of the end, a huge one if not known
  absl::Status source_status_;                  // why the source ended, when not by its end
  absl::Status file_status_;                    // as above for the file below it, not inflated

  const std::shared_ptr<TfRecordBuffers> buffers_;
  std::shared_ptr<char> buffer_;  // shared with the blocks made of it
  int64_t filled_ = 0;            // bytes in the buffer
  int64_t consumed_ = 0;          // of these, before offset_

  int64_t offset_ = 0;
  int64_t index_ = 0;
  absl::Status status_;  // sticky
  bool ended_ = false;   // by damage that hid the rest
  TfRecordDamage damage_;
};

struct TfRecordWriterOptions {
  Compression compression = Compression::kNone;  // kAuto means kNone
  int compression_level = -1;                    // zlib's: 0 to 9, -1 for its default
};

// Writes a file of records. The same records give the same bytes. Threads: one at a time.
class TfRecordWriter {
 public:
  static absl::StatusOr<std::unique_ptr<TfRecordWriter>> Create(io::FileSystem& fs,
                                                                absl::string_view uri,
                                                                TfRecordWriterOptions options = {});
  static absl::StatusOr<std::unique_ptr<TfRecordWriter>> FromStream(
      std::unique_ptr<io::OutputStream> out, TfRecordWriterOptions options = {});

  absl::Status Append(absl::string_view record) { return AppendV({record}); }
  // One record, from pieces that are not joined before.
  absl::Status AppendV(absl::Span<const absl::string_view> pieces);

  // Finishes the file, which appears whole now. Fails, and nothing appears, when an Append failed;
  // a writer that is dropped without Close leaves nothing behind. To be called once, as the last.
  absl::Status Close();

  int64_t num_records() const { return num_records_; }
  // Where the next record will begin, uncompressed: what an index of the file holds.
  int64_t offset() const { return offset_; }

 private:
  explicit TfRecordWriter(std::unique_ptr<io::OutputStream> out) : out_(std::move(out)) {}

  std::unique_ptr<io::OutputStream> out_;
  int64_t num_records_ = 0;
  int64_t offset_ = 0;
};

}  // namespace penstock::record
