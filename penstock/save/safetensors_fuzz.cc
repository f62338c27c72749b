// Arbitrary bytes: an error, or weights that survive a round trip.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/status.h"
#include "penstock/io/memory/bytes.h"
#include "penstock/save/safetensors.h"

namespace penstock::save {
namespace {

// The reader asks for nothing outside of the file, whatever its header says.
class CheckedFile final : public io::RandomAccessFile {
 public:
  explicit CheckedFile(absl::string_view bytes)
      : RandomAccessFile("fuzz", static_cast<int64_t>(bytes.size())), file_("fuzz", bytes) {}
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    PENSTOCK_CHECK(offset >= 0 && offset <= size());
    return file_.Read(offset, out);
  }

 private:
  io::BytesFile file_;
};

absl::StatusOr<Weights> Parse(absl::string_view bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(SafetensorsReader reader,
                            SafetensorsReader::Open(std::make_unique<CheckedFile>(bytes)));
  return reader.ReadAll();
}

void Check(absl::string_view bytes) {
  const absl::StatusOr<Weights> weights = Parse(bytes);
  if (!weights.ok()) return;
  io::BytesStream out("fuzz");
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
  penstock::save::Check(file);
  return 0;
}
