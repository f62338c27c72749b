#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"
#include "penstock/image/image.h"

namespace penstock::data {
namespace {

// Decoders keep scratch memory; one is borrowed for each run of the kernel.
class Decoders {
 public:
  image::Decoder Borrow() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return image::Decoder();
    image::Decoder decoder = std::move(idle_.back());
    idle_.pop_back();
    return decoder;
  }
  void GiveBack(image::Decoder decoder) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(decoder));
  }

 private:
  std::mutex mutex_;
  std::vector<image::Decoder> idle_;
};

class DecodeImageKernel : public RowKernel {
 public:
  DecodeImageKernel(image::DecodeOptions options, base::Shape shape)
      : options_(std::move(options)), shape_(std::move(shape)) {}

  void Run(const RowsIn& in, RowsOut& out) const override {
    image::Decoder decoder = decoders_.Borrow();
    const auto files = in.columns[0]->values().values<absl::string_view>();
    for (int64_t row = 0; row < in.rows; ++row) {
      absl::Status status = DecodeRow(files[row], row, decoder, out);
      if (!status.ok()) out.Fail(row, std::move(status));
    }
    decoders_.GiveBack(std::move(decoder));
  }

 private:
  absl::Status DecodeRow(absl::string_view bytes, int64_t row, image::Decoder& decoder,
                         RowsOut& out) const {
    base::Shape shape = shape_;
    if (!IsKnown(shape)) {
      PENSTOCK_ASSIGN_OR_RETURN(const image::ImageInfo info, image::ReadInfo(bytes));
      PENSTOCK_ASSIGN_OR_RETURN(const image::Size size, image::DecodedSize(info, options_));
      shape = {size.height, size.width, image::DecodedChannels(info, options_)};
    }
    PENSTOCK_ASSIGN_OR_RETURN(void* pixels, out.Row(0, row, shape));
    const image::Size size = {static_cast<int>(shape.dim(0)), static_cast<int>(shape.dim(1))};
    return decoder.DecodeInto(
        bytes, options_,
        image::TightView(static_cast<uint8_t*>(pixels), size, static_cast<int>(shape.dim(2))));
  }

  const image::DecodeOptions options_;
  const base::Shape shape_;  // of an image, -1 where only its file tells
  mutable Decoders decoders_;
};

class DecodeImageStage : public RowStage {
 public:
  explicit DecodeImageStage(DecodeImageOptions options) : options_(std::move(options)) {}

  absl::string_view name() const override { return "DecodeImage"; }
  std::string Parameters() const override {
    std::string out = absl::StrCat(options_.column, ", channels=", options_.channels);
    if (options_.height > 0) {
      absl::StrAppend(&out, ", ", options_.height, "x", options_.width,
                      options_.fit == image::Fit::kCentreCrop ? ", centre crop" : "");
    }
    if (options_.apply_orientation) absl::StrAppend(&out, ", EXIF orientation");
    return out;
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const int index, inputs[0].Index(options_.column));
    const ColumnSpec& files = inputs[0][index];
    if (files.dtype != base::DType::kString || files.shape.rank() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", files.ToString(), " does not hold one encoded image each"));
    }
    if (options_.channels != 0 && options_.channels != 1 && options_.channels != 3) {
      return absl::InvalidArgumentError("channels is 1 (gray), 3 (RGB) or 0 (as in the file)");
    }
    if (options_.height < 0 || options_.width < 0 ||
        (options_.height == 0) != (options_.width == 0)) {
      return absl::InvalidArgumentError("give both height and width, or neither");
    }
    ElementSpec spec = inputs[0];
    spec.Set({options_.column, base::DType::kU8, ImageShape()});
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
                                   .crop = {},
                                   .resize = {}};
    if (options_.height > 0) {
      decode.resize = {.height = options_.height,
                       .width = options_.width,
                       .filter = options_.filter,
                       .antialias = options_.antialias,
                       .fit = options_.fit};
    }
    binding.kernel = std::make_shared<DecodeImageKernel>(std::move(decode), ImageShape());
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

}  // namespace penstock::data
