// Arbitrary bytes: an error, or weights that survive a round trip.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "penstock/base/status.h"
#include "penstock/save/safetensors.h"

namespace penstock::save {
namespace {

class BytesFile : public io::RandomAccessFile {
 public:
  explicit BytesFile(std::string bytes)
      : RandomAccessFile("fuzz", static_cast<int64_t>(bytes.size())), bytes_(std::move(bytes)) {}
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    PENSTOCK_CHECK(offset >= 0 && offset <= size());
    const size_t n = std::min(out.size(), bytes_.size() - static_cast<size_t>(offset));
    if (n > 0) std::memcpy(out.data(), bytes_.data() + offset, n);
    return static_cast<int64_t>(n);
  }

 private:
  std::string bytes_;
};

class BytesStream : public io::OutputStream {
 public:
  BytesStream() : OutputStream("fuzz") {}
  absl::Status Append(absl::string_view bytes) override {
    bytes_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Close() override { return absl::OkStatus(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

absl::StatusOr<Weights> Parse(std::string bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(SafetensorsReader reader,
                            SafetensorsReader::Open(std::make_unique<BytesFile>(std::move(bytes))));
  return reader.ReadAll();
}

void Check(std::string bytes) {
  const absl::StatusOr<Weights> weights = Parse(std::move(bytes));
  if (!weights.ok()) return;
  BytesStream out;
  PENSTOCK_CHECK_OK(WriteSafetensors(out, *weights));
  const absl::StatusOr<Weights> again = Parse(out.bytes());
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(again->metadata == weights->metadata);
  PENSTOCK_CHECK(again->arrays.size() == weights->arrays.size());
  for (const auto& [name, array] : weights->arrays) {
    const base::Array* other = again->arrays.Find(name);
    PENSTOCK_CHECK(other != nullptr && BitwiseEqual(array, *other));
  }
}

}  // namespace
}  // namespace penstock::save

// The bytes as a file; and, because few mutations have the right length, as header, NUL, and data.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  penstock::save::Check(bytes);
  const size_t nul = bytes.find('\0');
  const uint64_t length = nul == std::string::npos ? size : nul;
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += bytes.substr(0, length);
  if (nul != std::string::npos) file += bytes.substr(nul + 1);
  penstock::save::Check(std::move(file));
  return 0;
}
