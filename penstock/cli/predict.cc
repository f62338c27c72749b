#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/classify/classifier.h"
#include "penstock/cli/classify/image_stream.h"
#include "penstock/cli/classify/submission.h"
#include "penstock/cli/command.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/report/terminal_image.h"
#include "penstock/cli/shared_options.h"
#include "penstock/io/uri.h"

namespace penstock::cli {
namespace {

using base::Array;

class Predict : public Command {
 public:
  void Describe(Options& options) override {
    classifier_.Describe(options);
    options.Add("--images", images_, "Image files, patterns or folders");
    options.Add("--data", data_, "Shards to read images from, instead of --images");
    options.Add("--count", count_, "Number of images")
        .Range(1, uint64_t{1} << 40)
        .ShowDefault("8; all with --csv");
    options.Add("--batch-size", batch_size_, "Images per step, over all replicas")
        .Range(1, uint64_t{1} << 20)
        .ShowDefault();
    options.Add("--top", top_, "Number of most probable classes to print for each image")
        .Range(1, 1 << 20)
        .ShowDefault();
    submission_.Describe(options);
    options.AddFlag("--skip-corrupt", skip_corrupt_,
                    "Skip images that cannot be decoded, and list them; otherwise the first one is "
                    "an error");
    options.AddFlag("--show", show_, "Draw the images in the terminal");
    device_.Describe(options);
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    if (images_.empty() == data_.empty())
      return absl::InvalidArgumentError("pass either --images or --data");
    const bool to_csv = !submission_.file.empty();
    if (to_csv) PENSTOCK_RETURN_IF_ERROR(submission_.Check());
    PENSTOCK_ASSIGN_OR_RETURN(Classifier classifier, classifier_.Load(device_));
    if (!data_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(CheckClassNumbers(classifier.class_names(), data_));
    }
    std::optional<int64_t> count;
    if (count_ > 0 || !to_csv) count = count_ > 0 ? count_ : kDefaultCount;
    const int64_t rows = count.has_value() ? std::min(*count, batch_size_) : batch_size_;
    for (const ImageShape& shape : classifier.shapes()) {
      PENSTOCK_RETURN_IF_ERROR(CheckBatchFits(rows, shape));
    }
    PENSTOCK_ASSIGN_OR_RETURN(auto stream, ImageStream::Open({.images = images_,
                                                              .shards = data_,
                                                              .shapes = classifier.shapes(),
                                                              .batch_size = rows,
                                                              .count = count,
                                                              .skip_corrupt = skip_corrupt_}));
    return to_csv ? WriteCsv(classifier, *stream) : PrintAll(classifier, *stream);
  }

 private:
  static constexpr int64_t kDefaultCount = 8;

  // ---- CSV ----

  absl::Status WriteCsv(Classifier& classifier, ImageStream& stream) const {
    PENSTOCK_ASSIGN_OR_RETURN(auto submission, Submission::Create(submission_, classifier));
    for (ImageBatch batch;;) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, stream.Next(&batch));
      if (!more) break;
      PENSTOCK_ASSIGN_OR_RETURN(const Array probabilities, classifier.Probabilities(batch.columns));
      PENSTOCK_RETURN_IF_ERROR(submission->Add(batch, probabilities));
    }
    ListSkipped(stream);
    if (submission->rows() == 0) return NoImages(stream);
    PENSTOCK_RETURN_IF_ERROR(submission->Close());
    if (json_) {
      nlohmann::ordered_json json{{"csv", io::DisplayName(submission_.file)},
                                  {"rows", submission->rows()}};
      json["skipped"] = SkippedJson(stream);
      PrintJson(json);
    } else {
      std::printf("%lld rows written to %s\n", static_cast<long long>(submission->rows()),
                  io::DisplayName(submission_.file).c_str());
    }
    return absl::OkStatus();
  }

  // ---- Skipped images ----

  static absl::Status NoImages(const ImageStream& stream) {
    if (stream.num_skipped() == 0) return absl::InvalidArgumentError("no images found");
    if (stream.num_skipped() == 1) {
      return absl::InvalidArgumentError("the only image cannot be decoded");
    }
    return absl::InvalidArgumentError(
        absl::StrCat("none of the ", stream.num_skipped(), " images can be decoded"));
  }

  static void ListSkipped(const ImageStream& stream) {
    constexpr size_t kMostLines = 20;
    if (stream.num_skipped() == 0) return;
    std::fprintf(stderr, "warning: %lld %s skipped, which cannot be decoded:\n",
                 static_cast<long long>(stream.num_skipped()),
                 stream.num_skipped() == 1 ? "image was" : "images were");
    const size_t lines = std::min(stream.skipped().size(), kMostLines);
    for (size_t i = 0; i < lines; ++i) {
      const data::SkippedElement& skipped = stream.skipped()[i];
      std::fprintf(stderr, "  %s: %s\n", LegibleLine(skipped.origin).c_str(),
                   Legible(skipped.what).c_str());
    }
    const int64_t more = stream.num_skipped() - static_cast<int64_t>(lines);
    if (more > 0) std::fprintf(stderr, "  and %lld more\n", static_cast<long long>(more));
  }

  static nlohmann::ordered_json SkippedJson(const ImageStream& stream) {
    nlohmann::ordered_json json{{"count", stream.num_skipped()}};
    json["images"] = nlohmann::ordered_json::array();
    for (const data::SkippedElement& skipped : stream.skipped()) {
      json["images"].push_back({{"image", skipped.origin}, {"error", skipped.what}});
    }
    return json;
  }

  // ---- Printing ----

  // A class and its probability.
  struct Prediction {
    int64_t class_number;
    double probability;
  };
  // Returns the `top` most probable classes.
  std::vector<Prediction> MostProbable(absl::Span<const double> probabilities) const {
    std::vector<Prediction> predictions;
    for (size_t i = 0; i < probabilities.size(); ++i) {
      predictions.push_back({static_cast<int64_t>(i), probabilities[i]});
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

  static nlohmann::ordered_json ToJson(const Classifier& classifier, const Prediction& prediction) {
    nlohmann::ordered_json json{{"class", prediction.class_number}};
    if (!classifier.class_names().empty())
      json["name"] = classifier.NameOf(prediction.class_number);
    json["probability"] = prediction.probability;
    return json;
  }

  // Output about the images so far.
  struct Printed {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    std::vector<std::string> captions;
    std::vector<Array> drawn;
  };

  void AddRow(const Classifier& classifier, const ImageBatch& batch, size_t i,
              absl::Span<const double> probabilities, Printed& printed) const {
    const std::vector<Prediction> predictions = MostProbable(probabilities);
    nlohmann::ordered_json json = ToJson(classifier, predictions[0]);
    std::string caption;
    for (const Prediction& prediction : predictions) {
      absl::StrAppend(&caption, caption.empty() ? "" : ", ",
                      classifier.NameOf(prediction.class_number),
                      absl::StrFormat(" (%.0f %%)", 100 * prediction.probability));
      if (top_ > 1) json["top"].push_back(ToJson(classifier, prediction));
    }
    if (!batch.labels.empty()) {
      const int64_t label = batch.labels[i];
      json["label"] = label;
      absl::StrAppend(&caption, label == predictions[0].class_number
                                    ? " right"
                                    : absl::StrCat(" WRONG: ", classifier.NameOf(label)));
    }
    if (batch.record_ids.empty()) {
      json["path"] = batch.names[i];
      absl::StrAppend(&caption, " ", batch.names[i]);
    }
    if (json_) printed.rows.push_back(std::move(json));
    printed.captions.push_back(LegibleLine(caption));
  }

  absl::Status PrintAll(Classifier& classifier, ImageStream& stream) const {
    Printed printed;
    bool any = false;
    for (ImageBatch batch;;) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, stream.Next(&batch));
      if (!more) break;
      any = true;
      PENSTOCK_ASSIGN_OR_RETURN(const Array probabilities, classifier.Probabilities(batch.columns));
      printed.captions.clear();
      printed.drawn.clear();
      PENSTOCK_ASSIGN_OR_RETURN(const Array images, batch.columns.Get(ImageColumn(0)));
      for (int64_t i = 0; i < batch.size(); ++i) {
        AddRow(classifier, batch, static_cast<size_t>(i), probabilities.Row(i).values<double>(),
               printed);
        if (show_ && !json_) printed.drawn.push_back(images.Row(i));
      }
      if (json_) continue;
      if (show_) {
        std::printf("%s", DrawImages(printed.drawn, printed.captions).c_str());
      } else {
        for (const std::string& caption : printed.captions) std::printf("%s\n", caption.c_str());
      }
    }
    ListSkipped(stream);
    if (!any) return NoImages(stream);
    if (json_) PrintJson(printed.rows);
    return absl::OkStatus();
  }

  ClassifierFlags classifier_;
  std::vector<std::string> images_, data_;
  int64_t count_ = 0;  // 0: not given
  int64_t batch_size_ = 64, top_ = 1;
  SubmissionFlags submission_;
  bool skip_corrupt_ = false, show_ = false, json_ = false;
  DeviceOptions device_;
};

}  // namespace

std::unique_ptr<Command> PredictCommand() { return std::make_unique<Predict>(); }

}  // namespace penstock::cli
