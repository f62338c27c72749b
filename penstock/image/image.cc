#include "penstock/image/image.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/image/codec.h"
#include "penstock/image/exif.h"

namespace penstock::image {
namespace {

// What is to be decoded, turned and resized, in pixels.
struct Plan {
  int orientation = 1;
  Box stored;     // the part of the stored image that is decoded
  Size oriented;  // its size once turned
  Size out;
};

// A picture of 100,000,000 x 1 is within max_pixels, but tables of a resize grow with a side.
constexpr int kMostPixelsASide = 1'000'000;

absl::StatusOr<Plan> MakePlan(const ImageInfo& info, const DecodeOptions& options) {
  if (int64_t{info.height} * info.width > options.max_pixels) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an image of ", info.size().ToString(), " pixels is over the limit of ",
                     options.max_pixels, " pixels (DecodeOptions.max_pixels)"));
  }
  if (std::max(info.height, info.width) > kMostPixelsASide) {
    return absl::ResourceExhaustedError(absl::StrCat("an image of ", info.size().ToString(),
                                                     " pixels is over the limit of ",
                                                     kMostPixelsASide, " pixels a side"));
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
    if (options.resize->fit == Fit::kCentreCrop) {
      const Box inner = CoverBox(box.size(), plan.out);
      box = {box.y + inner.y, box.x + inner.x, inner.height, inner.width};
    }
  }
  plan.oriented = box.size();
  plan.stored = StoredBox(box, info.size(), plan.orientation);
  return plan;
}

absl::Status CheckChannels(const DecodeOptions& options) {
  if (options.channels == 0 || options.channels == 1 || options.channels == 3) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "DecodeOptions.channels is 0 (as stored), 1 (gray) or 3 (RGB), not ", options.channels));
}

}  // namespace

// Pixels on their way from the codec to the caller's memory.
struct Decoder::Scratch {
  GrowingBuffer codec;
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

absl::Status Decoder::DecodeInto(absl::string_view bytes, const DecodeOptions& options,
                                 const MutableImageView& out) {
  PENSTOCK_ASSIGN_OR_RETURN(const ImageInfo info, ReadInfo(bytes));
  return DecodeChecked(bytes, info, options, out);
}

absl::StatusOr<base::Array> Decoder::Decode(absl::string_view bytes, const DecodeOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const ImageInfo info, ReadInfo(bytes));
  PENSTOCK_RETURN_IF_ERROR(CheckChannels(options));
  PENSTOCK_ASSIGN_OR_RETURN(const Size size, DecodedSize(info, options));
  base::Array out = base::Array::Uninitialized(
      base::DType::kU8, {size.height, size.width, DecodedChannels(info, options)});
  PENSTOCK_ASSIGN_OR_RETURN(const MutableImageView view, MutableViewOf(out));
  PENSTOCK_RETURN_IF_ERROR(DecodeChecked(bytes, info, options, view));
  return out;
}

absl::Status Decoder::DecodeChecked(absl::string_view bytes, const ImageInfo& info,
                                    const DecodeOptions& options, const MutableImageView& out) {
  PENSTOCK_RETURN_IF_ERROR(CheckChannels(options));
  PENSTOCK_ASSIGN_OR_RETURN(const Plan plan, MakePlan(info, options));
  const int channels = DecodedChannels(info, options);
  if (out.size() != plan.out || out.channels != channels) {
    return absl::InvalidArgumentError(
        absl::StrCat("the image decodes to ", plan.out.ToString(), " with ", channels,
                     " channels, the memory is for ", out.size().ToString(), " with ", out.channels,
                     "; images of one batch need one size (DecodeOptions.resize)"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Codec* codec, FindCodec(bytes));

  // Each step writes into the caller's memory when it is the last one.
  const bool turns = plan.orientation != 1;
  const bool resizes = plan.oriented != plan.out;
  const auto scratch_view = [&](GrowingBuffer& buffer, Size size) {
    return TightView(buffer.Get(int64_t{size.height} * size.width * channels), size, channels);
  };
  const MutableImageView decoded =
      turns || resizes ? scratch_view(scratch_->decoded, plan.stored.size()) : out;
  const CodecRequest request = {bytes, info, plan.stored, &scratch_->codec};
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(codec->decode(request, decoded), codec->name));

  MutableImageView oriented = decoded;
  if (turns) {
    oriented = resizes ? scratch_view(scratch_->oriented, plan.oriented) : out;
    Orient(decoded, plan.orientation, oriented);
  }
  if (resizes) {
    scratch_->resizer.ResizeInto(
        oriented, {.filter = options.resize->filter, .antialias = options.resize->antialias}, out);
  }
  return absl::OkStatus();
}

absl::Status DecodeInto(absl::string_view bytes, const DecodeOptions& options,
                        const MutableImageView& out) {
  return Decoder().DecodeInto(bytes, options, out);
}

absl::StatusOr<base::Array> Decode(absl::string_view bytes, const DecodeOptions& options) {
  return Decoder().Decode(bytes, options);
}

}  // namespace penstock::image
