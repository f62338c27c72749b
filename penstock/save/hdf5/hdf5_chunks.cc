#include "penstock/save/hdf5/hdf5_chunks.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include <zlib.h>

#include "penstock/base/status.h"
#include "penstock/save/hdf5/hdf5_objects.h"

namespace penstock::save::hdf5 {
namespace {

constexpr uint64_t kMaxChunk = 256 << 20;  // bytes of a chunk after decompression
constexpr uint64_t kMaxDeflate = 1032;     // maximum ratio of deflate

// Bytes of a chunk after decompression; an error beyond the limit.
absl::StatusOr<uint64_t> ChunkBytes(const Layout& layout) {
  uint64_t bytes = layout.element_size;
  for (const uint64_t dim : layout.chunk) {
    if (dim == 0 || bytes == 0) return absl::DataLossError("has chunks without elements");
    if (dim > kMaxChunk || bytes * dim > kMaxChunk) {
      return absl::UnimplementedError(
          absl::StrCat("has chunks above the maximum of ", kMaxChunk, " bytes"));
    }
    bytes *= dim;
  }
  return bytes;
}

absl::Status ReadNode(Source& source, uint64_t address, int level, size_t rank,
                      std::vector<Chunk>& chunks) {
  PENSTOCK_ASSIGN_OR_RETURN(const NodeHead node,
                            ReadNodeHead(source, address, 1, level, 8 + 8 * (rank + 1)));
  Cursor cursor(node.body, node.offset);
  for (uint64_t i = 0; i < node.children; ++i) {
    Chunk chunk;
    chunk.size = cursor.Number(4);
    chunk.skipped_filters = cursor.Number(4);
    for (size_t d = 0; d < rank; ++d) chunk.origin.push_back(cursor.Number(8));
    cursor.Number(8);  // place in the element: 0
    chunk.address = cursor.Number(8);
    if (node.level > 0) {
      PENSTOCK_RETURN_IF_ERROR(ReadNode(source, chunk.address, node.level - 1, rank, chunks));
    } else {
      chunks.push_back(std::move(chunk));
    }
  }
  return absl::OkStatus();
}

// HDF5's variant of Fletcher's checksum: of big-endian words of 16 bits, in ones' complement, where
// a sum that is a multiple of 65535, but not 0, is 0xffff (H5_checksum_fletcher32).
uint32_t Fletcher32(absl::string_view bytes) {
  uint32_t sum1 = 0, sum2 = 0;
  const auto fold = [](uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  const auto add = [&](uint32_t word) {
    sum1 = fold(sum1 + word);
    sum2 = fold(sum2 + sum1);
  };
  const auto at = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])); };
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) add(at(i) << 8 | at(i + 1));
  if (bytes.size() % 2 == 1) add(at(bytes.size() - 1) << 8);
  return sum2 << 16 | sum1;
}

absl::Status Inflate(std::string& bytes, uint64_t limit, uint64_t offset) {
  std::string out(static_cast<size_t>(limit), '\0');
  uLongf size = out.size();
  if (uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != Z_OK) {
    return Corrupt(offset, "a chunk cannot be decompressed");
  }
  out.resize(size);
  bytes = std::move(out);
  return absl::OkStatus();
}

// Byte k of all elements, for each k; bytes after the last whole element stay.
void Unshuffle(std::string& bytes, uint64_t width) {
  const size_t count = bytes.size() / width;
  if (width <= 1 || count <= 1) return;
  std::string out = bytes;
  for (size_t k = 0; k < width; ++k) {
    for (size_t i = 0; i < count; ++i) out[i * width + k] = bytes[k * count + i];
  }
  bytes = std::move(out);
}

// The bytes of a chunk without its filters.
absl::StatusOr<std::string> ReadChunk(Source& source, const Chunk& chunk,
                                      absl::Span<const FilterStep> filters, uint64_t chunk_bytes) {
  std::string bytes(static_cast<size_t>(chunk.size), '\0');
  PENSTOCK_RETURN_IF_ERROR(source.Read(chunk.address, absl::MakeSpan(bytes), "a chunk"));
  // Maximum size of the output of a filter: checksums may have been added before it.
  const uint64_t limit = chunk_bytes + 4 * filters.size();
  for (size_t i = filters.size(); i-- > 0;) {
    if ((chunk.skipped_filters >> i & 1) != 0) continue;
    switch (filters[i].filter) {
      case Filter::kDeflate:
        PENSTOCK_RETURN_IF_ERROR(Inflate(bytes, limit, chunk.address));
        break;
      case Filter::kShuffle:
        Unshuffle(bytes, filters[i].element_size);
        break;
      case Filter::kFletcher32: {
        if (bytes.size() < 4) return Corrupt(chunk.address, "a chunk has no checksum");
        uint32_t stored;
        std::memcpy(&stored, bytes.data() + bytes.size() - 4, 4);
        bytes.resize(bytes.size() - 4);
        if (stored != Fletcher32(bytes)) {
          return Corrupt(chunk.address, "the checksum of a chunk is wrong");
        }
        break;
      }
    }
  }
  if (bytes.size() != chunk_bytes) {
    return Corrupt(chunk.address,
                   absl::StrCat("a chunk has ", bytes.size(),
                                " bytes after decompression instead of ", chunk_bytes));
  }
  return bytes;
}

// Copies the part of a chunk that is inside the array, row by row.
void CopyChunk(const Layout& layout, const base::Shape& shape, const Chunk& chunk,
               const std::string& bytes, absl::Span<char> out) {
  const size_t rank = layout.chunk.size();
  std::vector<uint64_t> extents(rank), index(rank, 0);
  for (size_t d = 0; d < rank; ++d) {
    extents[d] = std::min(layout.chunk[d],
                          static_cast<uint64_t>(shape.dim(static_cast<int>(d))) - chunk.origin[d]);
  }
  const uint64_t row = extents[rank - 1] * layout.element_size;
  for (;;) {
    uint64_t from = 0, to = 0;
    for (size_t d = 0; d < rank; ++d) {
      from = from * layout.chunk[d] + index[d];
      to = to * static_cast<uint64_t>(shape.dim(static_cast<int>(d))) + chunk.origin[d] + index[d];
    }
    std::memcpy(out.data() + to * layout.element_size, bytes.data() + from * layout.element_size,
                row);
    size_t d = rank - 1;
    do {
      if (d == 0) return;
      --d;
      if (++index[d] < extents[d]) break;
      index[d] = 0;
    } while (true);
  }
}

}  // namespace

absl::StatusOr<std::vector<Chunk>> ReadChunkIndex(Source& source, const Layout& layout,
                                                  const base::Shape& shape,
                                                  absl::Span<const FilterStep> filters) {
  std::vector<Chunk> chunks;
  const size_t rank = layout.chunk.size();
  if (rank == 0 || rank != static_cast<size_t>(shape.rank())) {
    return absl::DataLossError("has chunks of another rank");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const uint64_t chunk_bytes, ChunkBytes(layout));
  if (shape.num_elements() == 0) return chunks;
  uint64_t expected = 1;
  for (size_t d = 0; d < rank; ++d) {
    const auto dim = static_cast<uint64_t>(shape.dim(static_cast<int>(d)));
    expected *= (dim + layout.chunk[d] - 1) / layout.chunk[d];  // at most the number of elements
  }
  if (layout.address != kUndefined) {
    PENSTOCK_RETURN_IF_ERROR(ReadNode(source, layout.address, kAnyLevel, rank, chunks));
  }
  const bool deflated = std::any_of(filters.begin(), filters.end(), [](const FilterStep& step) {
    return step.filter == Filter::kDeflate;
  });
  std::set<std::vector<uint64_t>> origins;
  for (const Chunk& chunk : chunks) {
    bool inside = true;
    for (size_t d = 0; d < rank; ++d) {
      inside = inside && chunk.origin[d] % layout.chunk[d] == 0 &&
               chunk.origin[d] < static_cast<uint64_t>(shape.dim(static_cast<int>(d)));
    }
    if (!inside || !origins.insert(chunk.origin).second ||
        !source.Contains(chunk.address, chunk.size)) {
      return Corrupt(chunk.address, "a chunk is outside the array or the file, or there twice");
    }
    if (chunk.size < chunk_bytes / (deflated ? kMaxDeflate : 1)) {
      return Corrupt(chunk.address,
                     absl::StrCat("a chunk has ", chunk.size, " bytes, too few for ", chunk_bytes));
    }
  }
  if (chunks.size() != expected) {
    return absl::UnimplementedError(absl::StrCat("has ", chunks.size(), " of ", expected,
                                                 " chunks: the others were never written"));
  }
  return chunks;
}

absl::Status ReadChunks(Source& source, const Layout& layout, const base::Shape& shape,
                        absl::Span<const FilterStep> filters, absl::Span<const Chunk> chunks,
                        absl::Span<char> out) {
  PENSTOCK_ASSIGN_OR_RETURN(const uint64_t chunk_bytes, ChunkBytes(layout));
  for (const Chunk& chunk : chunks) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes,
                              ReadChunk(source, chunk, filters, chunk_bytes));
    CopyChunk(layout, shape, chunk, bytes, out);
  }
  return absl::OkStatus();
}

}  // namespace penstock::save::hdf5
