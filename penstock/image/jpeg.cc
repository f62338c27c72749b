// JPEG (ITU-T T.81, JFIF 1.02) through libjpeg-turbo's libjpeg API.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/image/codec.h"
#include "penstock/image/exif.h"
#include "penstock/image/jpeg_errors.h"
#include "penstock/image/jpeg_huffman.h"

namespace penstock::image {
namespace {

// Maximum number of scans of a progressive JPEG. Each scan costs a pass over the whole image
// although it may be a few bytes long. Encoders write about ten.
constexpr int kMaxScans = 100;
// Rows requested at once; libjpeg returns at most one row of blocks, usually one or two rows.
constexpr int kRowsAtOnce = 4;

bool IsJpeg(absl::string_view bytes) { return absl::StartsWith(bytes, "\xff\xd8\xff"); }

absl::Status CutOff(size_t offset) {
  return absl::DataLossError(absl::StrCat("truncated at byte ", offset, ", before the image size"));
}

bool IsFrameHeader(uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Parses the segments up to the frame header (T.81, B.2.2) without libjpeg, before any decoding and
// without allocating.
absl::StatusOr<ImageInfo> ReadJpegInfo(absl::string_view bytes) {
  constexpr absl::string_view kExif("Exif\0\0", 6);
  ImageInfo info{.format = Format::kJpeg};
  size_t at = 2;
  while (true) {
    // As in libjpeg: garbage before a marker is skipped; a marker may have any number of 0xff fill
    // bytes.
    while (at < bytes.size() && bytes[at] != '\xff') ++at;
    while (at < bytes.size() && bytes[at] == '\xff') ++at;
    if (at >= bytes.size()) return CutOff(bytes.size());
    const auto marker = static_cast<uint8_t>(bytes[at++]);
    if (marker <= 0x01 || (marker >= 0xd0 && marker <= 0xd7)) continue;  // no segment follows
    if (marker >= 0xd8 && marker <= 0xda) {
      return absl::DataLossError(absl::StrCat(
          "at byte ", at - 2,
          " the pixel data begins, or the file ends, before a frame header with the image size"));
    }
    if (bytes.size() - at < 2) return CutOff(bytes.size());
    const size_t length = BigEndian16(&bytes[at]);
    if (length < 2) {
      return absl::DataLossError(absl::StrCat("invalid segment length ", length, " at byte ", at));
    }
    if (length > bytes.size() - at) return CutOff(bytes.size());
    const absl::string_view body = bytes.substr(at + 2, length - 2);
    if (IsFrameHeader(marker)) {
      if (body.size() < 6) {
        return absl::DataLossError(absl::StrCat("frame header too short at byte ", at));
      }
      info.bit_depth = static_cast<uint8_t>(body[0]);
      info.height = static_cast<int>(BigEndian16(&body[1]));
      info.width = static_cast<int>(BigEndian16(&body[3]));
      info.channels = static_cast<uint8_t>(body[5]);
      if (info.height == 0 || info.width == 0) {
        return absl::DataLossError(
            absl::StrCat("invalid size ", info.size().ToString(), " in the header"));
      }
      return info;
    }
    if (marker == 0xe1 && absl::StartsWith(body, kExif)) {
      info.orientation = ExifOrientation(body.substr(kExif.size()));
    }
    at += length;
  }
}

// A decompressor for one image: tables of one image must not be used for the next.
class Session {
 public:
  explicit Session(absl::string_view bytes);
  ~Session() { jpeg_destroy_decompress(&cinfo_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  absl::Status Decode(const CodecRequest& request, const MutableImageView& out);

 private:
  // The functions below run inside Guarded.
  void Start(const CodecRequest& request, int channels);
  void ReadWhole(const MutableImageView& out);
  bool CanCropColumns() const;
  bool IsSmoothed() const;
  void ReadBox(const CodecRequest& request, uint8_t* scratch, const MutableImageView& out);

  absl::Status ErrorStatus() const;
  static Session* Of(j_common_ptr cinfo) { return static_cast<Session*>(cinfo->client_data); }
  static boolean OnEndOfInput(j_decompress_ptr cinfo);
  static void OnSkip(j_decompress_ptr cinfo, long count);  // NOLINT: libjpeg's type
  static void OnProgress(j_common_ptr cinfo);

  JpegErrors errors_;
  jpeg_decompress_struct cinfo_ = {};
  jpeg_source_mgr source_ = {};
  jpeg_progress_mgr progress_ = {};
  absl::string_view bytes_;
  JpegHuffman* huffman_ = nullptr;
  uint8_t* huffman_room_ = nullptr;
};

Session::Session(absl::string_view bytes) : bytes_(bytes) {
  cinfo_.err = &errors_.manager;
  // This fails only if out of memory, and leaves an object that can be destroyed.
  if (!errors_.Guarded([this] { jpeg_create_decompress(&cinfo_); })) return;
  cinfo_.client_data = this;
  source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  source_.bytes_in_buffer = bytes.size();
  source_.init_source = [](j_decompress_ptr) {};
  source_.fill_input_buffer = OnEndOfInput;
  source_.skip_input_data = OnSkip;
  source_.resync_to_restart = jpeg_resync_to_restart;
  source_.term_source = [](j_decompress_ptr) {};
  cinfo_.src = &source_;
  progress_.progress_monitor = OnProgress;
  cinfo_.progress = &progress_;
}

boolean Session::OnEndOfInput(j_decompress_ptr cinfo) {
  Of(reinterpret_cast<j_common_ptr>(cinfo))->errors_.Fail("the file is truncated");
}

void Session::OnSkip(j_decompress_ptr cinfo, long count) {  // NOLINT: libjpeg's type
  if (count <= 0) return;
  if (static_cast<size_t>(count) > cinfo->src->bytes_in_buffer) OnEndOfInput(cinfo);
  cinfo->src->next_input_byte += count;
  cinfo->src->bytes_in_buffer -= static_cast<size_t>(count);
}

void Session::OnProgress(j_common_ptr cinfo) {
  Session* self = Of(cinfo);
  if (self->cinfo_.input_scan_number <= kMaxScans) return;
  self->errors_.over_limit = true;
  self->errors_.Fail("too many scans in a progressive JPEG (a denial-of-service attempt?)");
}

absl::Status Session::ErrorStatus() const {
  const std::string message =
      absl::StrCat(errors_.message, " (at about byte ", bytes_.size() - source_.bytes_in_buffer,
                   " of ", bytes_.size(), ")");
  if (errors_.over_limit) return absl::ResourceExhaustedError(message);
  if (errors_.unsupported) return absl::UnimplementedError(message);
  return absl::DataLossError(message);
}

void Session::Start(const CodecRequest& request, int channels) {
  jpeg_read_header(&cinfo_, TRUE);
  if (cinfo_.image_width != static_cast<JDIMENSION>(request.info.width) ||
      cinfo_.image_height != static_cast<JDIMENSION>(request.info.height)) {
    errors_.Fail("the header has two different sizes");
  }
  if (cinfo_.jpeg_color_space == JCS_CMYK || cinfo_.jpeg_color_space == JCS_YCCK) {
    cinfo_.out_color_space = JCS_CMYK;
  } else {
    cinfo_.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  }
  cinfo_.dct_method = JDCT_ISLOW;
  cinfo_.scale_num = 1;
  cinfo_.scale_denom = static_cast<unsigned>(request.reduction);
  cinfo_.do_fancy_upsampling = TRUE;  // required for skipping rows: libjpeg-turbo issue 915
  jpeg_start_decompress(&cinfo_);
  huffman_->Install(&cinfo_, huffman_room_);
  const Size size = request.reduced_size();
  if (cinfo_.output_width != static_cast<JDIMENSION>(size.width) ||
      cinfo_.output_height != static_cast<JDIMENSION>(size.height)) {
    errors_.Fail("the decoder's output has an unexpected size");
  }
}

void Session::ReadWhole(const MutableImageView& out) {
  JSAMPROW rows[kRowsAtOnce];
  while (cinfo_.output_scanline < cinfo_.output_height) {
    const int y = static_cast<int>(cinfo_.output_scanline);
    const int count = std::min(kRowsAtOnce, out.height - y);
    for (int i = 0; i < count; ++i) rows[i] = out.row(y + i);
    jpeg_read_scanlines(&cinfo_, rows, static_cast<JDIMENSION>(count));
  }
  // Reads up to the end marker: a file without one is truncated.
  jpeg_finish_decompress(&cinfo_);
}

// CMYK to RGB without a color profile. Adobe's files store inverted CMYK. The arithmetic is
// TensorFlow's.
void CmykToRgb(const uint8_t* from, bool inverted, int count, int channels, uint8_t* to) {
  for (int i = 0; i < count; ++i, from += 4, to += channels) {
    const int flip = inverted ? 0 : 255;
    const int k = from[3] ^ flip;
    const int r = k * (from[0] ^ flip) / 255;
    const int g = k * (from[1] ^ flip) / 255;
    const int b = k * (from[2] ^ flip) / 255;
    if (channels == 1) {
      to[0] = Luma(r, g, b);
    } else {
      to[0] = static_cast<uint8_t>(r);
      to[1] = static_cast<uint8_t>(g);
      to[2] = static_cast<uint8_t>(b);
    }
  }
}

// With DCT scaling, libjpeg may decode a subsampled component at a larger scale than others and
// upsample the rest (only if one axis is subsampled more than the other: 4:1 by 2:1).
// jpeg_crop_scanline of libjpeg-turbo 2.1.5 then computes too small a width for that component.
bool Session::CanCropColumns() const {
  for (int i = 0; i < cinfo_.num_components; ++i) {
    const jpeg_component_info& component = cinfo_.comp_info[i];
    const int scale = component.DCT_scaled_size;
    const int least = cinfo_.min_DCT_scaled_size;
    const bool full_size = component.h_samp_factor * scale == cinfo_.max_h_samp_factor * least &&
                           component.v_samp_factor * scale == cinfo_.max_v_samp_factor * least;
    if (scale != least && !full_size) return false;
  }
  return true;
}

// If scans of a progressive JPEG are missing, libjpeg estimates coefficients from neighboring
// blocks (block smoothing). Skipped rows and cropped columns would be missing as neighbors, so the
// whole image is decoded.
bool Session::IsSmoothed() const {
  if (!cinfo_.progressive_mode || cinfo_.coef_bits == nullptr) return false;
  for (int i = 0; i < cinfo_.num_components; ++i) {
    const int* const missing_bits = cinfo_.coef_bits[i];  // -1: the whole coefficient
    if (std::any_of(missing_bits, missing_bits + DCTSIZE2, [](int bits) { return bits != 0; })) {
      return true;
    }
  }
  return false;
}

void Session::ReadBox(const CodecRequest& request, uint8_t* scratch, const MutableImageView& out) {
  // libjpeg upsamples the edge of the decoded region differently from its interior; a margin of one
  // block on both sides makes the pixels equal to those of a full decode.
  const Box& box = request.box;
  const int margin = cinfo_.max_h_samp_factor * DCTSIZE / request.reduction;
  const int image_width = static_cast<int>(cinfo_.output_width);
  const int left = std::max(0, box.x - margin);
  const int right = std::min(image_width, box.x + box.width + margin);
  auto first = static_cast<JDIMENSION>(left);
  auto width = static_cast<JDIMENSION>(right - left);
  const bool smoothed = IsSmoothed();
  if (right - left < image_width) {
    if (CanCropColumns() && !smoothed) {
      jpeg_crop_scanline(&cinfo_, &first, &width);
    } else {
      first = 0;
      width = cinfo_.output_width;
    }
  }
  if (smoothed) {
    while (cinfo_.output_scanline < static_cast<JDIMENSION>(box.y)) {
      jpeg_read_scanlines(&cinfo_, &scratch, 1);
    }
  } else if (box.y > 0) {
    jpeg_skip_scanlines(&cinfo_, static_cast<JDIMENSION>(box.y));
  }

  const bool cmyk = cinfo_.out_color_space == JCS_CMYK;
  const int before = (box.x - static_cast<int>(first)) * cinfo_.output_components;
  const int all = static_cast<int>(width) * cinfo_.output_components;
  const bool fits = !cmyk && before <= request.row_padding &&
                    all - before - out.row_elements() <= request.row_padding;
  const uint8_t* pixels = scratch + before;
  for (int y = 0; y < box.height; ++y) {
    JSAMPROW row = fits ? out.row(y) - before : scratch;
    jpeg_read_scanlines(&cinfo_, &row, 1);
    if (fits) continue;
    if (cmyk) {
      CmykToRgb(pixels, cinfo_.saw_Adobe_marker != 0, box.width, out.channels, out.row(y));
    } else {
      std::copy_n(pixels, out.row_elements(), out.row(y));
    }
  }
  if (cinfo_.output_scanline == cinfo_.output_height) jpeg_finish_decompress(&cinfo_);
}

JpegHuffman* HuffmanOf(CodecScratch& scratch) {
  std::shared_ptr<void>& own = scratch.own[Format::kJpeg];
  if (own == nullptr) own = std::make_shared<JpegHuffman>();
  return static_cast<JpegHuffman*>(own.get());
}

absl::Status Session::Decode(const CodecRequest& request, const MutableImageView& out) {
  const int64_t row_bytes = int64_t{request.info.width} * 4;
  const auto huffman_bytes = static_cast<int64_t>(JpegHuffman::ScratchBytes(bytes_.size()));
  uint8_t* const scratch = request.scratch->bytes.Get(row_bytes + huffman_bytes);
  huffman_room_ = scratch + row_bytes;
  huffman_ = HuffmanOf(*request.scratch);
  const bool done = errors_.Guarded([&, this] {
    Start(request, out.channels);
    const bool whole = request.box.size() == request.reduced_size();
    if (whole && cinfo_.out_color_space != JCS_CMYK) {
      ReadWhole(out);
    } else {
      ReadBox(request, scratch, out);
    }
  });
  return done ? absl::OkStatus() : ErrorStatus();
}

absl::Status DecodeJpeg(const CodecRequest& request, const MutableImageView& out) {
  return Session(request.bytes).Decode(request, out);
}

}  // namespace

const Codec kJpegCodec = {Format::kJpeg, "JPEG",       /*reduces=*/true,
                          IsJpeg,        ReadJpegInfo, DecodeJpeg};

}  // namespace penstock::image
