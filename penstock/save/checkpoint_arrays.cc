#include "penstock/save/checkpoint_arrays.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/save/checkpoint_scan.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/safetensors.h"

namespace penstock::save {
namespace {

constexpr size_t kChunk = 4 << 20;

// Forwards writes and computes their checksum.
class SummingStream : public io::OutputStream {
 public:
  explicit SummingStream(io::OutputStream& out) : OutputStream(out.uri()), out_(out) {}
  absl::Status Append(absl::string_view bytes) override {
    crc32_ = Crc32(crc32_, bytes);
    bytes_ += static_cast<int64_t>(bytes.size());
    return out_.Append(bytes);
  }
  absl::Status Close() override { return out_.Close(); }

  uint32_t crc32() const { return crc32_; }
  int64_t bytes() const { return bytes_; }

 private:
  io::OutputStream& out_;
  uint32_t crc32_ = 0;
  int64_t bytes_ = 0;
};

// Running checksum of a file that is read front to back; `Take` receives every read.
struct RunningSum {
  uint32_t crc32 = 0;
  int64_t end = 0;  // of the bytes in the checksum

  void Take(int64_t offset, absl::Span<const char> bytes) {
    const int64_t known = end - offset;
    if (known < 0 || known >= static_cast<int64_t>(bytes.size())) return;
    bytes.remove_prefix(static_cast<size_t>(known));
    crc32 = Crc32(crc32, absl::string_view(bytes.data(), bytes.size()));
    end += static_cast<int64_t>(bytes.size());
  }
};

// Forwards reads and adds them to `sum`.
class SummingFile : public io::RandomAccessFile {
 public:
  SummingFile(std::unique_ptr<io::RandomAccessFile> file, std::shared_ptr<RunningSum> sum)
      : RandomAccessFile(file->uri(), file->size()), file_(std::move(file)), sum_(std::move(sum)) {}
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, file_->Read(offset, out));
    sum_->Take(offset, out.first(static_cast<size_t>(bytes)));
    return bytes;
  }

 private:
  std::unique_ptr<io::RandomAccessFile> file_;
  std::shared_ptr<RunningSum> sum_;
};

absl::Status CheckSum(absl::string_view uri, const ManifestFile& file, const RunningSum& sum) {
  if (sum.end == file.bytes && sum.crc32 == file.crc32) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "%s: its checksum is %08x instead of %08x: bytes changed since it was written",
      io::DisplayName(uri), sum.crc32, file.crc32));
}

absl::StatusOr<Weights> ReadSummed(io::FileSystem& fs, absl::string_view uri,
                                   const ManifestFile& expected) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  if (file->size() != expected.bytes) {
    return absl::DataLossError(
        absl::StrCat(file->uri(), ": has ", file->size(), " bytes instead of ", expected.bytes));
  }
  auto sum = std::make_shared<RunningSum>();
  PENSTOCK_ASSIGN_OR_RETURN(
      SafetensorsReader reader,
      SafetensorsReader::Open(std::make_unique<SummingFile>(std::move(file), sum)));
  PENSTOCK_ASSIGN_OR_RETURN(Weights weights, reader.ReadAll());
  PENSTOCK_RETURN_IF_ERROR(CheckSum(uri, expected, *sum));
  return weights;
}

}  // namespace

std::vector<base::NamedArrays> SplitArrays(const base::NamedArrays& arrays, int64_t max_bytes) {
  std::vector<base::NamedArrays> parts(1);
  int64_t bytes = 0;  // of the last part
  for (const auto& [name, array] : arrays) {
    if (!parts.back().empty() && array.num_bytes() > max_bytes - bytes) {
      parts.emplace_back();
      bytes = 0;
    }
    parts.back().Append(name, array);
    bytes += array.num_bytes();
  }
  return parts;
}

absl::StatusOr<ManifestFile> WriteArrays(io::FileSystem& fs, absl::string_view folder_uri,
                                         const std::string& name, const Weights& weights) {
  const std::string uri = io::JoinPath(folder_uri, name);
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> out, fs.Create(uri));
  SummingStream summing(*out);
  PENSTOCK_RETURN_IF_ERROR(
      base::WithContext(WriteSafetensors(summing, weights), io::DisplayName(uri)));
  PENSTOCK_RETURN_IF_ERROR(summing.Close());
  PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo written, fs.Stat(uri));
  if (written.size != summing.bytes()) {
    return absl::DataLossError(absl::StrCat(io::DisplayName(uri), ": wrote ", summing.bytes(),
                                            " bytes, but the file has ", written.size));
  }
  return ManifestFile{.name = name, .bytes = summing.bytes(), .crc32 = summing.crc32()};
}

absl::StatusOr<Weights> ReadArrays(io::FileSystem& fs, const std::string& folder_uri,
                                   const ManifestFile& expected) {
  const std::string uri = io::JoinPath(folder_uri, expected.name);
  absl::StatusOr<Weights> weights = ReadSummed(fs, uri, expected);
  if (weights.ok()) return weights;
  if (absl::IsNotFound(weights.status())) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool listed, IsListed(fs, folder_uri, expected.name));
    if (!listed) return absl::DataLossError(absl::StrCat(io::DisplayName(uri), " is missing"));
    return absl::UnavailableError(weights.status().message());
  }
  // The checksum of the whole file decides whether malformed bytes are corruption: a flipped bit in
  // the header may look like a type of a later version.
  if (absl::IsDataLoss(weights.status()) || absl::IsUnimplemented(weights.status())) {
    const absl::Status changed = VerifyByReading(fs, uri, expected);
    if (!changed.ok() && !absl::IsNotFound(changed)) return changed;
  }
  return weights;
}

absl::Status VerifyByReading(io::FileSystem& fs, absl::string_view uri,
                             const ManifestFile& expected) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  RunningSum sum;
  std::string chunk;
  while (sum.end < file->size()) {
    chunk.resize(
        static_cast<size_t>(std::min(file->size() - sum.end, static_cast<int64_t>(kChunk))));
    PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file, sum.end, absl::MakeSpan(chunk)));
    sum.Take(sum.end, chunk);
  }
  return CheckSum(uri, expected, sum);
}

}  // namespace penstock::save
