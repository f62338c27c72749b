// Arbitrary bytes as the index of a checkpoint: an error, or weights that survive a round trip.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/leveldb_table.h"
#include "penstock/save/tensor_bundle.h"
#include "penstock/save/tensor_bundle_format.h"

namespace {

using namespace penstock;
using Table = std::map<std::string, std::string>;

// All bytes are equal, so that the checksum of an entry depends on its size only, and mutations of
// seeds have right ones.
constexpr size_t kOnes = 256;

void CheckBundle(absl::string_view index, absl::string_view data) {
  const auto fs = io::MakeMemoryFileSystem();
  const std::string prefix = "memory://bucket/fuzz", copy = "memory://bucket/copy";
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, prefix + ".index", index));
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, prefix + ".data-00000-of-00001", data));
  const save::Format format = save::TensorBundleFormat();
  const absl::StatusOr<save::Contents> contents = format.inspect(*fs, prefix);
  absl::StatusOr<save::Weights> weights = format.read(*fs, prefix);
  if (!weights.ok()) return;
  PENSTOCK_CHECK_OK(contents);
  PENSTOCK_CHECK(contents->tensors.size() == weights->arrays.size());
  if (format.write(*fs, copy, *weights, {.max_shard_bytes = 16}).ok()) {
    const absl::StatusOr<save::Weights> again = format.read(*fs, copy);
    PENSTOCK_CHECK_OK(again);
    PENSTOCK_CHECK(again->arrays.size() == weights->arrays.size());
    for (const auto& [name, array] : weights->arrays) {
      const base::Array* other = again->arrays.Find(name);
      PENSTOCK_CHECK(other != nullptr && BitwiseEqual(array, *other));
    }
  }
  const size_t count = weights->arrays.size();
  save::UseVariableNames(*weights);
  PENSTOCK_CHECK(weights->arrays.size() == count);
}

std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

// The bytes as entries: length of the key in 1 byte, length of the value in 2, key, value.
Table Entries(absl::string_view bytes) {
  Table entries;
  const auto take = [&](size_t size) {
    const absl::string_view taken = bytes.substr(0, size);
    bytes.remove_prefix(taken.size());
    return taken;
  };
  while (bytes.size() >= 3) {
    const absl::string_view head = take(3);
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(head[i])); };
    const std::string key(take(byte(0)));
    entries[key] = std::string(take(byte(1) + 256 * byte(2)));
  }
  return entries;
}

}  // namespace

// The bytes as a table; and, because few mutations have the right checksums, as entries of a table,
// with the object graph as its bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const absl::string_view input(reinterpret_cast<const char*>(bytes), size);
  std::string data(kOnes, '\1');
  CheckBundle(input, data);
  Table entries = Entries(input);
  const auto graph = entries.find(std::string(save::tensor_bundle::kObjectGraph));
  if (graph != entries.end()) {
    uint32_t crc = 0;
    const std::string string = save::tensor_bundle::EncodeStrings({graph->second}, &crc);
    graph->second = absl::StrCat("\x08\x07\x20", Varint(data.size()), "\x28", Varint(string.size()),
                                 "\x35", absl::string_view(reinterpret_cast<char*>(&crc), 4));
    data += string;
  }
  const std::string table = save::WriteTable(entries, {.snappy = size % 2 == 1, .block_bytes = 64});
  const absl::StatusOr<Table> again = save::ReadTable(table);
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(*again == entries);
  CheckBundle(table, data);
  return 0;
}
