#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/command.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/shared_options.h"
#include "penstock/cli/terminal_image.h"
#include "penstock/keras/keras.h"

namespace penstock::cli {
namespace {

using base::Array;

class Predict : public Command {
 public:
  void Describe(Options& options) override {
    options.Add("--model", model_, "Model file written by `penstock train --save`").Required();
    options.Add("--images", images_, "Image files or patterns");
    options.Add("--data", data_, "Shards to read images from, instead of --images");
    options.Add("--count", count_, "Number of images").Range(1, 1 << 20).ShowDefault();
    options.Add("--top", top_, "Number of most probable classes to print for each image")
        .Range(1, 1 << 20)
        .ShowDefault();
    options.AddFlag("--show", show_, "Draw the images in the terminal");
    device_.Describe(options);
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    if (images_.empty() == data_.empty())
      return absl::InvalidArgumentError("pass either --images or --data");
    PENSTOCK_ASSIGN_OR_RETURN(auto client, device_.Open());
    PENSTOCK_ASSIGN_OR_RETURN(keras::Model model,
                              keras::Model::Load(model_, {.client = client,
                                                          .replicas = device_.replicas,
                                                          .columns = {.inputs = {"image"}}}));
    if (!data_.empty()) PENSTOCK_RETURN_IF_ERROR(CheckClassNumbers(model.class_names(), data_));
    PENSTOCK_ASSIGN_OR_RETURN(const ImageShape shape, InputShape(model.network()));
    PENSTOCK_RETURN_IF_ERROR(CheckBatchFits(count_, shape));
    PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays batch, Read(shape));
    const Array& images = *batch.Find("image");
    PENSTOCK_ASSIGN_OR_RETURN(
        const Array logits,
        model.Predict(data::Dataset::FromArrays({{"image", images}}).Batch(64)));
    if (logits.dtype() != base::DType::kF32 || logits.rank() != 2 || logits.dim(1) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the model's output must be one score per class, but it is ", logits.TypeString()));
    }
    class_names_ = model.class_names();
    Print(batch, logits);
    return absl::OkStatus();
  }

 private:
  // Reads the first `count` images as one batch, with column `class` for shards, `path` for files.
  absl::StatusOr<base::NamedArrays> Read(const ImageShape& shape) const {
    const bool from_files = data_.empty();
    const data::DecodeImageOptions decode{.column = from_files ? "bytes" : "image",
                                          .channels = shape.channels,
                                          .height = shape.height,
                                          .width = shape.width};
    const data::Dataset dataset =
        from_files ? data::Dataset::FromFiles(images_).Take(count_)
                   : data::Dataset::FromTfRecords(data_).Take(count_).ParseExample(
                         {.features = {{.name = "image", .dtype = base::DType::kString},
                                       {.name = "class", .dtype = base::DType::kI64}}});
    PENSTOCK_ASSIGN_OR_RETURN(auto iterator,
                              dataset.DecodeImage(decode).Batch(count_).MakeIterator());
    base::NamedArrays batch;
    PENSTOCK_ASSIGN_OR_RETURN(const bool any, iterator->Next(&batch));
    if (!any) return absl::InvalidArgumentError("no images found");
    if (from_files) batch.Set("image", *batch.Find("bytes"));
    return batch;
  }

  // A class and its probability.
  struct Prediction {
    int64_t class_number;
    double probability;
  };
  // Applies softmax to the scores and returns the `top` most probable classes.
  std::vector<Prediction> MostProbable(absl::Span<const float> scores) const {
    const float max = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const float s : scores) sum += std::exp(static_cast<double>(s) - max);
    std::vector<Prediction> predictions;
    for (size_t i = 0; i < scores.size(); ++i) {
      predictions.push_back(
          {static_cast<int64_t>(i), std::exp(static_cast<double>(scores[i]) - max) / sum});
    }
    const size_t count = std::min(static_cast<size_t>(top_), predictions.size());
    std::partial_sort(predictions.begin(), predictions.begin() + static_cast<int64_t>(count),
                      predictions.end(), [](const Prediction& a, const Prediction& b) {
                        // Sorts NaN last; > alone is no strict weak order.
                        const double x = std::isnan(a.probability) ? -1 : a.probability;
                        const double y = std::isnan(b.probability) ? -1 : b.probability;
                        return x != y ? x > y : a.class_number < b.class_number;
                      });
    predictions.resize(count);
    return predictions;
  }

  // Returns the name of a class, or its number if the model has no class names.
  std::string NameOf(int64_t class_number) const {
    const bool named =
        class_number >= 0 && class_number < static_cast<int64_t>(class_names_.size());
    return named ? class_names_[static_cast<size_t>(class_number)] : absl::StrCat(class_number);
  }

  nlohmann::ordered_json ToJson(const Prediction& prediction) const {
    nlohmann::ordered_json json{{"class", prediction.class_number}};
    if (!class_names_.empty()) json["name"] = NameOf(prediction.class_number);
    json["probability"] = prediction.probability;
    return json;
  }

  void Print(const base::NamedArrays& batch, const Array& logits) const {
    const Array& images = *batch.Find("image");
    const Array* truth = batch.Find("class");
    const Array* paths = batch.Find("path");
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    std::vector<std::string> captions;
    std::vector<Array> drawn;
    for (int64_t i = 0; i < images.dim(0); ++i) {
      const std::vector<Prediction> predictions = MostProbable(logits.Row(i).values<float>());
      nlohmann::ordered_json json = ToJson(predictions[0]);
      std::string caption;
      for (const Prediction& prediction : predictions) {
        absl::StrAppend(&caption, caption.empty() ? "" : ", ", NameOf(prediction.class_number),
                        absl::StrFormat(" (%.0f %%)", 100 * prediction.probability));
        if (top_ > 1) json["top"].push_back(ToJson(prediction));
      }
      if (truth != nullptr) {
        const int64_t label = truth->values<int64_t>()[i];
        json["label"] = label;
        absl::StrAppend(&caption, label == predictions[0].class_number
                                      ? " right"
                                      : absl::StrCat(" WRONG: ", NameOf(label)));
      }
      if (paths != nullptr) {
        json["path"] = std::string(paths->values<absl::string_view>()[i]);
        absl::StrAppend(&caption, " ", paths->values<absl::string_view>()[i]);
      }
      rows.push_back(std::move(json));
      captions.push_back(std::move(caption));
      drawn.push_back(images.Row(i));
    }
    if (json_) {
      PrintJson(rows);
    } else if (show_) {
      std::printf("%s", DrawImages(drawn, captions).c_str());
    } else {
      for (const std::string& caption : captions) std::printf("%s\n", caption.c_str());
    }
  }

  std::string model_;
  std::vector<std::string> images_, data_;
  int64_t count_ = 8, top_ = 1;
  std::vector<std::string> class_names_;  // from the model; may be empty
  bool show_ = false, json_ = false;
  DeviceOptions device_;
};

}  // namespace

std::unique_ptr<Command> PredictCommand() { return std::make_unique<Predict>(); }

}  // namespace penstock::cli
