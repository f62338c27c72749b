#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/image/image.h"

namespace penstock::data {
namespace {

// Decoders own scratch memory; each run of the kernel borrows one.
class Decoders {
 public:
  image::Decoder Borrow() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return image::Decoder();
    image::Decoder decoder = std::move(idle_.back());
    idle_.pop_back();
    return decoder;
  }
  void Return(image::Decoder decoder) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(decoder));
  }

 private:
  std::mutex mutex_;
  std::vector<image::Decoder> idle_;
};

class DecodeImageKernel : public RowKernel {
 public:
  DecodeImageKernel(const DecodeImageOptions& options, image::DecodeOptions decode,
                    base::Shape shape)
      : options_(options), decode_(std::move(decode)), shape_(std::move(shape)) {}

  void Run(const RowsIn& in, RowsOut& out) const override {
    image::Decoder decoder = decoders_.Borrow();
    const auto files = in.columns[0]->values().values<absl::string_view>();
    const uint64_t seed = options_.seed.value_or(in.seed);
    for (int64_t row = 0; row < in.rows; ++row) {
      base::Random random(RowSeed(in, seed, row));
      absl::Status status = DecodeRow(files[row], row, random, decoder, out);
      if (!status.ok()) out.Fail(row, std::move(status));
    }
    decoders_.Return(std::move(decoder));
  }

 private:
  absl::Status DecodeRow(absl::string_view bytes, int64_t row, base::Random& random,
                         image::Decoder& decoder, RowsOut& out) const {
    image::DecodeOptions decode = decode_;
    base::Shape shape = shape_;
    if (!IsKnown(shape) || options_.random_crop.has_value()) {
      PENSTOCK_ASSIGN_OR_RETURN(const image::ImageInfo info, image::ReadInfo(bytes));
      if (options_.random_crop.has_value()) {
        const image::Size whole = options_.apply_orientation ? info.oriented_size() : info.size();
        decode.crop = image::RandomResizedCropBox(whole, *options_.random_crop, random);
      }
      PENSTOCK_ASSIGN_OR_RETURN(const image::Size size, image::DecodedSize(info, decode));
      shape = {size.height, size.width, image::DecodedChannels(info, decode)};
    }
    if (options_.random_flip) decode.flip = random.Below(2) == 1;
    PENSTOCK_ASSIGN_OR_RETURN(void* pixels, out.Row(0, row, shape));
    switch (options_.dtype) {
      case base::DType::kBF16:
        return DecodeTo<base::bfloat16>(bytes, decode, shape, decoder, pixels);
      case base::DType::kF32:
        return DecodeTo<float>(bytes, decode, shape, decoder, pixels);
      default:
        return DecodeTo<uint8_t>(bytes, decode, shape, decoder, pixels);
    }
  }

  template <typename T>
  static absl::Status DecodeTo(absl::string_view bytes, const image::DecodeOptions& decode,
                               const base::Shape& shape, image::Decoder& decoder, void* pixels) {
    const image::Size size = {static_cast<int>(shape.dim(0)), static_cast<int>(shape.dim(1))};
    return decoder.DecodeInto(
        bytes, decode,
        image::TightView(static_cast<T*>(pixels), size, static_cast<int>(shape.dim(2))));
  }

  const DecodeImageOptions options_;
  const image::DecodeOptions decode_;
  const base::Shape shape_;  // of an image, -1 where only its file tells
  mutable Decoders decoders_;
};

// As they are printed, and compared by Cache(folder).
std::string DetailsToString(const DecodeImageOptions& options) {
  std::string out;
  if (options.filter == image::Filter::kArea) absl::StrAppend(&out, ", area");
  if (options.filter == image::Filter::kBicubic) absl::StrAppend(&out, ", bicubic");
  if (options.antialias) absl::StrAppend(&out, ", antialias");
  if (options.random_crop.has_value()) {
    const auto& [scale, ratio] = *options.random_crop;
    absl::StrAppend(&out, ", random crop ", scale[0], "..", scale[1], " of the area, aspect ",
                    ratio[0], "..", ratio[1]);
  }
  if (options.random_flip) absl::StrAppend(&out, ", random flip");
  if (options.seed.has_value()) absl::StrAppend(&out, ", seed=", *options.seed);
  if (options.dct_scaling == image::DctScaling::kAuto) absl::StrAppend(&out, ", DCT scaling");
  if (options.dtype != base::DType::kU8) {
    absl::StrAppend(&out, ", ", base::DTypeName(options.dtype));
  }
  if (options.max_pixels != DecodeImageOptions().max_pixels) {
    absl::StrAppend(&out, ", max_pixels=", options.max_pixels);
  }
  const image::Normalize& normalize = options.normalize;
  if (!(normalize == image::Normalize{})) {
    absl::StrAppend(&out, ", (x * ", normalize.scale, " - [", absl::StrJoin(normalize.mean, ", "),
                    "]) / [", absl::StrJoin(normalize.std, ", "), "]");
  }
  return out;
}

absl::Status CheckAugmentation(const DecodeImageOptions& options) {
  const base::DType dtype = options.dtype;
  if (dtype != base::DType::kU8 && dtype != base::DType::kBF16 && dtype != base::DType::kF32) {
    return absl::InvalidArgumentError(
        absl::StrCat("images can be uint8, bfloat16 or float32, not ", base::DTypeName(dtype)));
  }
  PENSTOCK_RETURN_IF_ERROR(image::CheckNormalize(options.normalize, dtype != base::DType::kU8));
  if (!options.random_crop.has_value()) return absl::OkStatus();
  PENSTOCK_RETURN_IF_ERROR(image::CheckRandomResizedCrop(*options.random_crop));
  if (options.height == 0) {
    return absl::InvalidArgumentError(
        "random_crop makes images of any size: set the size to resize them to (.height, "
        ".width)");
  }
  if (options.fit != image::Fit::kStretch) {
    return absl::InvalidArgumentError("random_crop stretches the crop: .fit must be kStretch");
  }
  return absl::OkStatus();
}

struct DecodeImageFields {
  DecodeImageOptions options = {};
};
void Fields(StageFields& f, DecodeImageFields& fields) {
  DecodeImageOptions& p = fields.options;
  // Larger images are no images that a device is fed with, and their sizes would overflow.
  constexpr int kMaxExtent = 1 << 16;
  f.Value("column", &p.column);
  f.Value("channels", &p.channels);
  f.Value("height", &p.height);
  f.Value("width", &p.width);
  f.CheckRange("height", p.height, 0, kMaxExtent);
  f.CheckRange("width", p.width, 0, kMaxExtent);
  f.Choice("filter", &p.filter, {"area", "bilinear", "bicubic"});
  f.Value("antialias", &p.antialias);
  f.Choice("fit", &p.fit, {"stretch", "center_crop"});
  f.Value("apply_orientation", &p.apply_orientation);
  f.Value("max_pixels", &p.max_pixels);
  f.CheckRange("max_pixels", p.max_pixels, 1, int64_t{1} << 32);
  f.Choice("dct_scaling", &p.dct_scaling, {"never", "auto"});
  bool crop = p.random_crop.has_value();
  f.Value("random_crop", &crop);
  image::RandomResizedCrop box = p.random_crop.value_or(image::RandomResizedCrop());
  f.Value("crop_scale", &box.scale);
  f.Value("crop_ratio", &box.ratio);
  if (crop) p.random_crop = box;
  f.Value("random_flip", &p.random_flip);
  f.Value("seed", &p.seed);
  f.Value("dtype", &p.dtype);
  f.Value("scale", &p.normalize.scale);
  f.Value("mean", &p.normalize.mean);
  f.Value("std", &p.normalize.std);
}

class DecodeImageStage : public RowStage {
 public:
  explicit DecodeImageStage(DecodeImageOptions options) : options_(std::move(options)) {}

  absl::string_view name() const override { return "DecodeImage"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, DecodeImageFields{options_});
  }
  Varies varies() const override {
    const bool random = options_.random_crop.has_value() || options_.random_flip;
    return random ? Varies::kElements : Varies::kNothing;
  }
  std::string Parameters() const override {
    std::string out = absl::StrCat(options_.column, ", channels=", options_.channels);
    if (options_.height > 0) {
      absl::StrAppend(&out, ", ", options_.height, "x", options_.width,
                      options_.fit == image::Fit::kCenterCrop ? ", centre crop" : "");
    }
    if (options_.apply_orientation) absl::StrAppend(&out, ", EXIF orientation");
    return absl::StrCat(out, DetailsToString(options_));
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const int index, inputs[0].Index(options_.column));
    const ColumnSpec& files = inputs[0][index];
    if (files.dtype != base::DType::kString || files.shape.rank() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", files.ToString(), " does not hold one encoded image each"));
    }
    if (options_.channels != 0 && options_.channels != 1 && options_.channels != 3) {
      return absl::InvalidArgumentError("channels must be 1 (gray), 3 (RGB) or 0 (as in the file)");
    }
    if (options_.height < 0 || options_.width < 0 ||
        (options_.height == 0) != (options_.width == 0)) {
      return absl::InvalidArgumentError("set both height and width, or neither");
    }
    PENSTOCK_RETURN_IF_ERROR(CheckAugmentation(options_));
    ElementSpec spec = inputs[0];
    spec.Set({options_.column, options_.dtype, ImageShape()});
    return spec;
  }

  absl::StatusOr<RowKernelBinding> Bind(const ElementSpec& input,
                                        const ElementSpec& output) const override {
    RowKernelBinding binding;
    const int column = input.Find(options_.column);
    binding.reads = {column};
    for (int i = 0; i < output.size(); ++i) binding.passes.push_back(i == column ? -1 : i);
    image::DecodeOptions decode = {.max_pixels = options_.max_pixels,
                                   .channels = options_.channels,
                                   .apply_orientation = options_.apply_orientation,
                                   .dct_scaling = options_.dct_scaling,
                                   .normalize = options_.normalize};
    if (options_.height > 0) {
      decode.resize = {.height = options_.height,
                       .width = options_.width,
                       .filter = options_.filter,
                       .antialias = options_.antialias,
                       .fit = options_.fit};
    }
    binding.kernel = std::make_shared<DecodeImageKernel>(options_, std::move(decode), ImageShape());
    return binding;
  }

 private:
  base::Shape ImageShape() const {
    const auto known = [](int extent) { return extent > 0 ? int64_t{extent} : -1; };
    return {known(options_.height), known(options_.width), known(options_.channels)};
  }

  const DecodeImageOptions options_;
};

}  // namespace

Dataset Dataset::DecodeImage(DecodeImageOptions options) const {
  return Then(std::make_shared<DecodeImageStage>(std::move(options)));
}

absl::StatusOr<Dataset> ReadDecodeImage(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<DecodeImageFields>(in));
  return inputs[0].DecodeImage(std::move(p.options));
}

}  // namespace penstock::data
