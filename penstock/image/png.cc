// PNG (W3C Portable Network Graphics, third edition) through libspng.
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <spng.h>

#include "penstock/image/codec.h"
#include "penstock/image/exif.h"

namespace penstock::image {
namespace {

constexpr absl::string_view kSignature("\x89PNG\r\n\x1a\n", 8);
constexpr size_t kHeaderChunkEnd = 8 + 12 + 13;  // signature, and IHDR with its frame

bool IsPng(absl::string_view bytes) { return absl::StartsWith(bytes, kSignature); }

int ChannelsOfColorType(int type) {
  switch (type) {
    case SPNG_COLOR_TYPE_GRAYSCALE:
      return 1;
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
      return 2;
    case SPNG_COLOR_TYPE_TRUECOLOR:
    case SPNG_COLOR_TYPE_INDEXED:
      return 3;
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
      return 4;
    default:
      return 0;
  }
}

// Iterator over chunks: length, type, content, CRC (which libspng verifies).
class ChunkReader {
 public:
  explicit ChunkReader(absl::string_view bytes) : bytes_(bytes) {}

  size_t offset() const { return at_; }
  uint32_t length() const { return BigEndian32(&bytes_[at_]); }
  absl::string_view type() const { return bytes_.substr(at_ + 4, 4); }
  bool HasHead() const { return bytes_.size() - at_ >= 8; }
  bool IsWhole() const { return HasHead() && length() <= bytes_.size() - at_ - 8 && HasCrc(); }
  absl::string_view content() const { return bytes_.substr(at_ + 8, length()); }  // IsWhole
  void Next() { at_ += size_t{12} + length(); }                                   // IsWhole

 private:
  bool HasCrc() const { return bytes_.size() - at_ - 8 - length() >= 4; }

  absl::string_view bytes_;
  size_t at_ = kSignature.size();
};

absl::Status CutOff(absl::string_view bytes, const ChunkReader& chunk) {
  return absl::DataLossError(absl::StrCat("truncated: the file of ", bytes.size(),
                                          " bytes ends inside the chunk that begins at byte ",
                                          chunk.offset()));
}

absl::StatusOr<ImageInfo> ReadPngInfo(absl::string_view bytes) {
  if (bytes.size() < kHeaderChunkEnd) {
    return absl::DataLossError(
        absl::StrCat("truncated at byte ", bytes.size(), ", inside the header"));
  }
  ChunkReader chunk(bytes);
  if (chunk.type() != "IHDR" || chunk.length() != 13) {
    return absl::DataLossError("the first chunk is not a header (IHDR)");
  }
  const absl::string_view header = chunk.content();
  const uint32_t width = BigEndian32(&header[0]);
  const uint32_t height = BigEndian32(&header[4]);
  constexpr uint32_t kMax = 0x7fffffff;
  const int channels = ChannelsOfColorType(static_cast<uint8_t>(header[9]));
  if (width == 0 || height == 0 || width > kMax || height > kMax || channels == 0) {
    return absl::DataLossError(absl::StrCat("invalid header: size ", height, "x", width,
                                            ", color type ", static_cast<uint8_t>(header[9])));
  }
  ImageInfo info{.format = Format::kPng,
                 .height = static_cast<int>(height),
                 .width = static_cast<int>(width),
                 .channels = channels,
                 .bit_depth = static_cast<uint8_t>(header[8])};
  for (chunk.Next(); chunk.IsWhole() && chunk.type() != "IDAT" && chunk.type() != "IEND";
       chunk.Next()) {
    if (chunk.type() == "eXIf") info.orientation = ExifOrientation(chunk.content());
  }
  return info;
}

// Checks the chunks before anything is decompressed: whether the file is complete, and whether its
// compressed bytes can contain that many pixels (decompression bomb).
absl::Status CheckChunks(const CodecRequest& request) {
  const absl::string_view bytes = request.bytes;
  int64_t compressed = 0;
  ChunkReader chunk(bytes);
  for (;; chunk.Next()) {
    if (!chunk.IsWhole()) return CutOff(bytes, chunk);
    if (chunk.type() == "IEND") break;
    if (chunk.type() == "IDAT") compressed += chunk.length();
  }
  constexpr int64_t kMaxRatio = 1032;  // deflate: 258 bytes take 2 bits
  const int64_t bits_of_a_row = int64_t{request.info.width} * request.info.bit_depth;
  if (bits_of_a_row / 8 * request.info.height > (compressed + 1) * kMaxRatio) {
    return absl::DataLossError(absl::StrCat(compressed, " bytes of compressed pixels cannot hold ",
                                            request.info.size().ToString(), " pixels"));
  }
  return absl::OkStatus();
}

struct FreeDecoder {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

absl::Status PngError(int error, absl::string_view bytes) {
  const std::string message =
      absl::StrCat(spng_strerror(error), " (in a file of ", bytes.size(), " bytes)");
  if (error == SPNG_EMEM || error == SPNG_ECHUNK_LIMITS) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::DataLossError(message);
}

// Converts rows of `from_channels` to `to_channels`; gray to RGB gives three equal channels.
void ConvertRow(const uint8_t* from, int from_channels, bool is_gray, int count, int to_channels,
                uint8_t* to) {
  if (from_channels == to_channels) {
    std::memcpy(to, from, static_cast<size_t>(count) * to_channels);
    return;
  }
  for (int x = 0; x < count; ++x, from += 3) {
    to[x] = is_gray ? from[0] : Luma(from[0], from[1], from[2]);
  }
}

// Decodes row by row. `row_of(y)` returns the output address of row y of the stored image;
// `done(y)` is called when the row is complete (interlaced files take seven passes).
template <typename RowOf, typename Done>
absl::Status ReadRows(spng_ctx* context, size_t row_bytes, absl::string_view bytes, RowOf row_of,
                      Done done) {
  while (true) {
    spng_row_info info;
    int error = spng_get_row_info(context, &info);
    if (error == SPNG_EOI) return absl::OkStatus();
    if (error == SPNG_OK) error = spng_decode_row(context, row_of(info.row_num), row_bytes);
    if (error != SPNG_OK && error != SPNG_EOI) return PngError(error, bytes);
    done(info.row_num);
    if (error == SPNG_EOI) return absl::OkStatus();
  }
}

absl::Status DecodePng(const CodecRequest& request, const MutableImageView& out) {
  PENSTOCK_RETURN_IF_ERROR(CheckChunks(request));
  const ImageInfo& info = request.info;
  const Box& box = request.box;

  std::unique_ptr<spng_ctx, FreeDecoder> context(spng_ctx_new(0));
  if (context == nullptr) return absl::ResourceExhaustedError("out of memory");
  // Limits for text, profiles and other chunks, which libspng decompresses although they are not
  // requested.
  constexpr size_t kMaxMetadata = size_t{16} << 20;
  spng_set_chunk_limits(context.get(), kMaxMetadata, kMaxMetadata);
  int error = spng_set_png_buffer(context.get(), request.bytes.data(), request.bytes.size());

  const bool is_gray = info.channels <= 2;
  // libspng outputs one channel only for gray without alpha of up to 8 bits.
  const bool as_gray = out.channels == 1 && info.channels == 1 && info.bit_depth <= 8;
  const int channels = as_gray ? 1 : 3;
  const size_t row_bytes = static_cast<size_t>(info.width) * channels;
  if (error == SPNG_OK) {
    error = spng_decode_image(context.get(), nullptr, 0, as_gray ? SPNG_FMT_G8 : SPNG_FMT_RGB8,
                              SPNG_DECODE_PROGRESSIVE);
  }
  spng_ihdr header;
  if (error == SPNG_OK) error = spng_get_ihdr(context.get(), &header);
  if (error != SPNG_OK) return PngError(error, request.bytes);

  if (box.size() == info.size() && channels == out.channels) {
    return ReadRows(
        context.get(), row_bytes, request.bytes,
        [&](uint32_t y) { return out.row(static_cast<int>(y)); }, [](uint32_t) {});
  }
  const auto convert = [&](const uint8_t* row, int y) {
    if (y < box.y || y >= box.y + box.height) return;
    ConvertRow(row + int64_t{box.x} * channels, channels, is_gray, box.width, out.channels,
               out.row(y - box.y));
  };
  if (header.interlace_method == SPNG_INTERLACE_NONE) {
    uint8_t* row = request.scratch->bytes.Get(static_cast<int64_t>(row_bytes));
    return ReadRows(
        context.get(), row_bytes, request.bytes, [&](uint32_t) { return row; },
        [&](uint32_t y) { convert(row, static_cast<int>(y)); });
  }
  uint8_t* whole = request.scratch->bytes.Get(static_cast<int64_t>(row_bytes) * info.height);
  PENSTOCK_RETURN_IF_ERROR(ReadRows(
      context.get(), row_bytes, request.bytes, [&](uint32_t y) { return whole + y * row_bytes; },
      [](uint32_t) {}));
  for (int y = box.y; y < box.y + box.height; ++y) convert(whole + y * row_bytes, y);
  return absl::OkStatus();
}

}  // namespace

const Codec kPngCodec = {Format::kPng, "PNG", /*reduces=*/false, IsPng, ReadPngInfo, DecodePng};

}  // namespace penstock::image
