#include "penstock/image/image.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/image/codec.h"
#include "penstock/image/exif.h"

namespace penstock::image {
namespace {

// Plan of one decode: regions to decode, rotate and resize, in pixels.
struct Plan {
  int orientation = 1;
  Box stored;     // region of the stored image to decode
  Size oriented;  // its size after rotation
  Size out;
  // Set by Reduce: `stored` and `oriented` are then in pixels of the reduced image, and `window` is
  // the region to resize.
  int reduction = 1;
  Window window;

  bool resizes() const { return oriented != out || reduction != 1; }
};

// An image of 100,000,000 x 1 is within max_pixels, but resize tables grow with the length of a
// side.
constexpr int kMaxPixelsPerSide = 1'000'000;

absl::StatusOr<Plan> MakePlan(const ImageInfo& info, const DecodeOptions& options) {
  if (int64_t{info.height} * info.width > options.max_pixels) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an image of ", info.size().ToString(), " pixels exceeds the limit of ",
                     options.max_pixels, " pixels (DecodeOptions.max_pixels)"));
  }
  if (std::max(info.height, info.width) > kMaxPixelsPerSide) {
    return absl::ResourceExhaustedError(absl::StrCat("an image of ", info.size().ToString(),
                                                     " pixels exceeds the limit of ",
                                                     kMaxPixelsPerSide, " pixels per side"));
  }
  Plan plan;
  plan.orientation = options.apply_orientation ? info.orientation : 1;
  const Size whole = OrientedSize(info.size(), plan.orientation);
  Box box = options.crop.value_or(Box{0, 0, whole.height, whole.width});
  if (!box.Inside(whole)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a crop of ", box.ToString(), " is not inside an image of ", whole.ToString()));
  }
  plan.out = box.size();
  if (options.resize.has_value()) {
    plan.out = {options.resize->height, options.resize->width};
    if (plan.out.height <= 0 || plan.out.width <= 0 ||
        int64_t{plan.out.height} * plan.out.width > options.max_pixels) {
      return absl::InvalidArgumentError(
          absl::StrCat("an image cannot be resized to ", plan.out.ToString(), " pixels"));
    }
    if (options.resize->fit == Fit::kCenterCrop) {
      const Box inner = CoverBox(box.size(), plan.out);
      box = {box.y + inner.y, box.x + inner.x, inner.height, inner.width};
    }
  }
  plan.oriented = box.size();
  plan.stored = StoredBox(box, info.size(), plan.orientation);
  plan.window = {0, 0, static_cast<double>(box.height), static_cast<double>(box.width)};
  return plan;
}

// libjpeg-turbo has SIMD code for 1/2 and 1/4 only; other factors are slower than full size.
void Reduce(Plan& plan) {
  const auto halves = [&plan](int by) {
    return plan.out.height * int64_t{by} <= plan.oriented.height &&
           plan.out.width * int64_t{by} <= plan.oriented.width;
  };
  plan.reduction = halves(4) ? 4 : halves(2) ? 2 : 1;
  const int by = plan.reduction;
  if (by == 1) return;
  // All reduced pixels that the box touches.
  const Box box = plan.stored;
  const int y = box.y / by;
  const int x = box.x / by;
  plan.stored = {y, x, (box.y + box.height + by - 1) / by - y,
                 (box.x + box.width + by - 1) / by - x};
  const auto in_large = [by](int pixels) { return static_cast<double>(pixels) / by; };
  plan.window = OrientedWindow({in_large(box.y - y * by), in_large(box.x - x * by),
                                in_large(box.height), in_large(box.width)},
                               plan.stored.size(), plan.orientation);
  plan.oriented = OrientedSize(plan.stored.size(), plan.orientation);
}

absl::Status CheckChannels(const DecodeOptions& options) {
  if (options.channels == 0 || options.channels == 1 || options.channels == 3) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "DecodeOptions.channels must be 0 (as stored), 1 (gray) or 3 (RGB), not ", options.channels));
}

}  // namespace

// Pixels between the codec and the caller's memory.
struct Decoder::Scratch {
  CodecScratch codec;
  GrowingBuffer decoded;
  GrowingBuffer oriented;
  Resizer resizer;
};

absl::StatusOr<ImageInfo> ReadInfo(absl::string_view bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(const Codec* codec, FindCodec(bytes));
  absl::StatusOr<ImageInfo> info = codec->read_info(bytes);
  if (!info.ok()) return base::WithContext(info.status(), codec->name);
  return info;
}

absl::Status CheckNormalize(const Normalize& normalize, bool floats) {
  if (!floats && !(normalize == Normalize{})) {
    return absl::InvalidArgumentError(
        "normalization (DecodeOptions.normalize) requires bfloat16 or float32 output");
  }
  bool good = true;
  for (int c = 0; c < 3; ++c) {
    // The factor and the offset applied to samples.
    good = good && std::isfinite(normalize.scale / normalize.std[c]) &&
           std::isfinite(normalize.mean[c] / normalize.std[c]) && std::isfinite(normalize.std[c]);
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "normalize: scale / std and mean / std are not finite numbers (is a std 0?)");
}

Size ImageInfo::oriented_size() const { return OrientedSize(size(), orientation); }

absl::StatusOr<Size> DecodedSize(const ImageInfo& info, const DecodeOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const Plan plan, MakePlan(info, options));
  return plan.out;
}

int DecodedChannels(const ImageInfo& info, const DecodeOptions& options) {
  if (options.channels != 0) return options.channels;
  return info.channels <= 2 ? 1 : 3;
}

Decoder::Decoder() : scratch_(std::make_unique<Scratch>()) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

template <typename T>
absl::Status Decoder::DecodeInto(absl::string_view bytes, const DecodeOptions& options,
                                 const BasicImageView<T>& out) {
  PENSTOCK_ASSIGN_OR_RETURN(const ImageInfo info, ReadInfo(bytes));
  return DecodeChecked(bytes, info, options, out);
}
template absl::Status Decoder::DecodeInto(absl::string_view, const DecodeOptions&,
                                          const BasicImageView<uint8_t>&);
template absl::Status Decoder::DecodeInto(absl::string_view, const DecodeOptions&,
                                          const BasicImageView<base::bfloat16>&);
template absl::Status Decoder::DecodeInto(absl::string_view, const DecodeOptions&,
                                          const BasicImageView<float>&);

absl::StatusOr<base::Array> Decoder::Decode(absl::string_view bytes, const DecodeOptions& options,
                                            base::DType dtype) {
  PENSTOCK_ASSIGN_OR_RETURN(const ImageInfo info, ReadInfo(bytes));
  PENSTOCK_RETURN_IF_ERROR(CheckChannels(options));
  PENSTOCK_ASSIGN_OR_RETURN(const Size size, DecodedSize(info, options));
  const int channels = DecodedChannels(info, options);
  const auto decode = [&](auto pixel) -> absl::StatusOr<base::Array> {
    base::Array out = base::Array::Uninitialized(dtype, {size.height, size.width, channels});
    PENSTOCK_RETURN_IF_ERROR(DecodeChecked(
        bytes, info, options, TightView(out.mutable_data<decltype(pixel)>(), size, channels)));
    return out;
  };
  switch (dtype) {
    case base::DType::kU8:
      return decode(uint8_t{});
    case base::DType::kBF16:
      return decode(base::bfloat16{});
    case base::DType::kF32:
      return decode(float{});
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "images can be decoded to uint8, bfloat16 or float32, not to ", base::DTypeName(dtype)));
  }
}

template <typename T>
absl::Status Decoder::DecodeChecked(absl::string_view bytes, const ImageInfo& info,
                                    const DecodeOptions& options, const BasicImageView<T>& out) {
  constexpr bool kFloats = !std::is_same_v<T, uint8_t>;
  PENSTOCK_RETURN_IF_ERROR(CheckChannels(options));
  PENSTOCK_RETURN_IF_ERROR(CheckNormalize(options.normalize, kFloats));
  PENSTOCK_ASSIGN_OR_RETURN(Plan plan, MakePlan(info, options));
  const int channels = DecodedChannels(info, options);
  if (out.size() != plan.out || out.channels != channels) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the image decodes to ", plan.out.ToString(), " with ", channels,
        " channels, but the output memory is ", out.size().ToString(), " with ", out.channels,
        "; all images of a batch must have one size (set DecodeOptions.resize)"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Codec* codec, FindCodec(bytes));
  if (options.dct_scaling == DctScaling::kAuto && codec->reduces) Reduce(plan);

  // The last step writes to the caller's memory, if that has its type.
  const bool turns = plan.orientation != 1;
  const bool converts = plan.resizes() || kFloats || options.flip;
  const auto pixels = [&](GrowingBuffer& buffer, Size size, bool last, int row_padding) {
    if constexpr (!kFloats) {
      if (last) return MutableImageView(out);
    }
    const int64_t stride = int64_t{size.width} * channels + 2 * row_padding;
    return MutableImageView{buffer.Get(stride * size.height) + row_padding, size.height, size.width,
                            channels, stride};
  };
  const bool decodes_only = !turns && !converts;
  // Padding of two blocks of a component with 4x horizontal sampling.
  const int row_padding = decodes_only ? 0 : 2 * 4 * 8 * channels;
  const CodecRequest request = {.bytes = bytes,
                                .info = info,
                                .box = plan.stored,
                                .reduction = plan.reduction,
                                .row_padding = row_padding,
                                .scratch = &scratch_->codec};
  const MutableImageView decoded =
      pixels(scratch_->decoded, plan.stored.size(), decodes_only, row_padding);
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(codec->decode(request, decoded), codec->name));

  MutableImageView oriented = decoded;
  if (turns) {
    oriented = pixels(scratch_->oriented, plan.oriented, !converts, 0);
    Orient(decoded, plan.orientation, oriented);
  }
  if (!converts) return absl::OkStatus();
  ResizeOptions resize = {.flip = options.flip, .normalize = options.normalize};
  if (plan.resizes()) {
    resize.filter = options.resize->filter;
    resize.antialias = options.resize->antialias;
    scratch_->resizer.ResizeInto(oriented, plan.window, resize, out);
  } else {
    scratch_->resizer.ConvertInto(oriented, resize, out);
  }
  return absl::OkStatus();
}

absl::Status DecodeInto(absl::string_view bytes, const DecodeOptions& options,
                        const MutableImageView& out) {
  return Decoder().DecodeInto(bytes, options, out);
}

absl::StatusOr<base::Array> Decode(absl::string_view bytes, const DecodeOptions& options,
                                   base::DType dtype) {
  return Decoder().Decode(bytes, options, dtype);
}

}  // namespace penstock::image
