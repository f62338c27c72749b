#include "penstock/remote/checkpoint/arrays_blob.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/save/safetensors.h"

namespace penstock::remote {
namespace {

class BlobStream final : public io::OutputStream {
 public:
  BlobStream() : OutputStream("arrays") {}
  absl::Status Append(absl::string_view bytes) override {
    bytes_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Close() override { return absl::OkStatus(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class BlobFile final : public io::RandomAccessFile {
 public:
  explicit BlobFile(base::Array blob)
      : RandomAccessFile("arrays", blob.num_bytes()), blob_(std::move(blob)) {}
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    if (offset < 0) return absl::InvalidArgumentError("a negative offset");
    const int64_t bytes = std::min(static_cast<int64_t>(out.size()),
                                   std::max<int64_t>(blob_.num_bytes() - offset, 0));
    if (bytes > 0) {
      std::memcpy(out.data(), static_cast<const char*>(blob_.raw()) + offset,
                  static_cast<size_t>(bytes));
    }
    return bytes;
  }

 private:
  const base::Array blob_;
};

}  // namespace

absl::StatusOr<base::Array> ToBlob(const base::NamedArrays& arrays) {
  BlobStream stream;
  PENSTOCK_RETURN_IF_ERROR(save::WriteSafetensors(stream, {.arrays = arrays}));
  const auto size = static_cast<int64_t>(stream.bytes().size());
  base::Array blob = base::Array::Uninitialized(base::DType::kU8, {size});
  std::memcpy(blob.mutable_raw(), stream.bytes().data(), stream.bytes().size());
  return blob;
}

absl::StatusOr<base::NamedArrays> FromBlob(const base::Array& blob) {
  if (blob.dtype() != base::DType::kU8 || blob.rank() != 1) {
    return absl::InvalidArgumentError("arrays must come as bytes, uint8 [n]");
  }
  PENSTOCK_ASSIGN_OR_RETURN(save::SafetensorsReader reader,
                            save::SafetensorsReader::Open(std::make_unique<BlobFile>(blob)));
  PENSTOCK_ASSIGN_OR_RETURN(save::Weights weights, reader.ReadAll());
  return std::move(weights.arrays);
}

}  // namespace penstock::remote
