#include <cstdio>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/classify/classifier.h"
#include "penstock/cli/classify/image_stream.h"
#include "penstock/cli/command.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/report/confusion.h"
#include "penstock/cli/report/confusion_page.h"
#include "penstock/cli/shared_options.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/keras/keras.h"
#include "penstock/train/callbacks/event_writer.h"
#include "penstock/train/callbacks/summaries.h"

namespace penstock::cli {
namespace {

class Evaluate : public Command {
 public:
  void Describe(Options& options) override {
    classifier_.Describe(options);
    shards_.Describe(options);
    options.Add(
        "--confusion", confusion_,
        "HTML file to write: confusion matrix, worst mistakes with their images, precision, "
        "recall and F1 score of each class");
    options.Add("--tensorboard,--log-dir", tensorboard_,
                "Folder for a TensorBoard event file: accuracy, log loss, mean F1 score, confusion "
                "matrix");
    device_.Describe(options);
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    io::FileSystem& fs = *io::FileSystem::Default();
    if (!confusion_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(
          base::WithContext(io::CheckWritableText(fs, confusion_), "--confusion"));
    }
    if (!tensorboard_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(
          base::WithContext(io::CheckWritableFolder(fs, tensorboard_), "--tensorboard"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const TestTimeViews views, classifier_.Views());
    PENSTOCK_RETURN_IF_ERROR(FindShards(shards_.data).status());
    const bool by_probabilities = !confusion_.empty() || !tensorboard_.empty() ||
                                  views.count() > 1 || classifier_.models.size() > 1;
    return by_probabilities ? RunByProbabilities(fs) : RunByMetrics();
  }

 private:
  // ---- The model's own loss and metrics, computed on the device ----

  absl::Status RunByMetrics() const {
    PENSTOCK_ASSIGN_OR_RETURN(auto client, device_.Open());
    PENSTOCK_ASSIGN_OR_RETURN(
        keras::Model model,
        keras::Model::Load(classifier_.models[0],
                           {.client = client,
                            .replicas = device_.replicas,
                            .columns = {.inputs = {"image"}, .labels = {"class"}}}));
    PENSTOCK_RETURN_IF_ERROR(CheckClassNumbers(model.class_names(), shards_.data));
    PENSTOCK_ASSIGN_OR_RETURN(const ImageShape shape, InputShape(model.network()));
    PENSTOCK_RETURN_IF_ERROR(CheckBatchFits(shards_.batch_size, shape));
    PENSTOCK_ASSIGN_OR_RETURN(
        const train::Logs logs,
        model.Evaluate(ImageBatches(shards_.data, shape, shards_.batch_size), {.verbose = 0}));
    if (json_) {
      nlohmann::ordered_json json = nlohmann::ordered_json::object();
      for (const auto& [name, value] : logs) json[name] = value;
      PrintJson(json);
      return absl::OkStatus();
    }
    for (const auto& [name, value] : logs) PrintMetric(name, value);
    return absl::OkStatus();
  }

  static void PrintMetric(const std::string& name, double value) {
    if (name == "accuracy") {
      std::printf("held-out accuracy: %.1f %%\n", 100 * value);
    } else {
      std::printf("held-out %s: %.4f\n", name.c_str(), value);
    }
  }

  // ---- Probabilities of every image ----

  absl::Status RunByProbabilities(io::FileSystem& fs) const {
    PENSTOCK_ASSIGN_OR_RETURN(Classifier classifier, classifier_.Load(device_));
    PENSTOCK_RETURN_IF_ERROR(CheckClassNumbers(classifier.class_names(), shards_.data));
    for (const ImageShape& shape : classifier.shapes()) {
      PENSTOCK_RETURN_IF_ERROR(CheckBatchFits(shards_.batch_size, shape));
    }
    Confusion confusion(classifier.classes());
    WorstMistakes worst(kMostMistakes);
    PENSTOCK_RETURN_IF_ERROR(Judge(classifier, confusion, worst));
    const std::vector<Mistake> mistakes = worst.Sorted();
    if (!confusion_.empty()) {
      const auto name = [&](int64_t number) { return classifier.NameOf(number); };
      PENSTOCK_RETURN_IF_ERROR(io::WriteFile(fs, confusion_,
                                             ConfusionPage({.confusion = confusion,
                                                            .mistakes = mistakes,
                                                            .class_name = name,
                                                            .title = ModelNames()})));
    }
    if (!tensorboard_.empty()) PENSTOCK_RETURN_IF_ERROR(WriteEvents(classifier, confusion));
    if (json_) {
      PrintJson(ToJson(classifier, confusion, mistakes));
    } else {
      PrintScores(classifier, confusion);
    }
    return absl::OkStatus();
  }

  // One event of step 0 beside those that a training writes of its validation.
  absl::Status WriteEvents(const Classifier& classifier, const Confusion& confusion) const {
    PENSTOCK_ASSIGN_OR_RETURN(
        const auto events,
        train::EventWriter::Open({.folder = io::JoinPath(tensorboard_, "validation")}));
    std::string summary = train::ScalarSummary({{"evaluation_accuracy", confusion.accuracy()},
                                                {"evaluation_log_loss", confusion.log_loss()},
                                                {"evaluation_f1", confusion.Macro().f1}});
    const int64_t classes = confusion.classes();
    if (classes <= kMostClassesDrawn) {
      base::Array counts = base::Array::Zeros(base::DType::kI64, {classes, classes});
      for (const auto& [pair, count] : confusion.counts()) {
        counts.mutable_data<int64_t>()[pair.first * classes + pair.second] = count;
      }
      PENSTOCK_ASSIGN_OR_RETURN(
          const std::string matrix,
          train::ConfusionSummary("confusion", counts, classifier.class_names()));
      absl::StrAppend(&summary, matrix);
    }
    PENSTOCK_RETURN_IF_ERROR(events->Append(0, summary));
    return events->Flush();
  }

  // One pass over the data.
  absl::Status Judge(Classifier& classifier, Confusion& confusion, WorstMistakes& worst) const {
    PENSTOCK_ASSIGN_OR_RETURN(auto stream, ImageStream::Open({.shards = shards_.data,
                                                              .shapes = classifier.shapes(),
                                                              .batch_size = shards_.batch_size,
                                                              .require_class = true}));
    for (ImageBatch batch;;) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, stream->Next(&batch));
      if (!more) return absl::OkStatus();
      PENSTOCK_ASSIGN_OR_RETURN(const base::Array probabilities,
                                classifier.Probabilities(batch.columns));
      PENSTOCK_ASSIGN_OR_RETURN(const base::Array images, batch.columns.Get(ImageColumn(0)));
      for (int64_t i = 0; i < batch.size(); ++i) {
        const base::Array row = probabilities.Row(i);
        const auto p = row.values<double>();
        const std::string& name = batch.names[static_cast<size_t>(i)];
        const int64_t label = batch.labels[static_cast<size_t>(i)];
        const int64_t predicted = MostProbableClass(p);
        if (predicted < 0) return NotFiniteError(name);
        if (label < 0 || label >= classifier.classes()) {
          return absl::InvalidArgumentError(absl::StrCat("class ", label, " of ", name,
                                                         " is not a class of the model, which has ",
                                                         classifier.classes()));
        }
        const int64_t number = confusion.images();
        confusion.Add({.label = label,
                       .predicted = predicted,
                       .label_probability = p[static_cast<size_t>(label)]});
        const double confidence = p[static_cast<size_t>(predicted)];
        if (label == predicted || !worst.Wants(confidence)) continue;
        worst.Add({.label = label,
                   .predicted = predicted,
                   .probability = confidence,
                   .number = number,
                   .pixels = images.Row(i).Clone()});
      }
    }
  }

  std::string ModelNames() const {
    return absl::StrJoin(classifier_.models, ", ", [](std::string* out, const std::string& uri) {
      absl::StrAppend(out, io::Basename(uri));
    });
  }

  static nlohmann::ordered_json MeanJson(const MeanScores& mean) {
    return {{"precision", mean.precision}, {"recall", mean.recall}, {"f1", mean.f1}};
  }

  static nlohmann::ordered_json ToJson(const Classifier& classifier, const Confusion& confusion,
                                       const std::vector<Mistake>& mistakes) {
    nlohmann::ordered_json json{{"images", confusion.images()},
                                {"accuracy", confusion.accuracy()},
                                {"log_loss", confusion.log_loss()},
                                {"macro", MeanJson(confusion.Macro())},
                                {"weighted", MeanJson(confusion.Weighted())}};
    for (const char* list : {"classes", "confusion", "mistakes"}) {
      json[list] = nlohmann::ordered_json::array();
    }
    for (const ClassScores& scores : confusion.PerClass()) {
      json["classes"].push_back({{"class", scores.class_number},
                                 {"name", classifier.NameOf(scores.class_number)},
                                 {"precision", scores.precision},
                                 {"recall", scores.recall},
                                 {"f1", scores.f1},
                                 {"support", scores.support}});
    }
    for (const auto& [pair, count] : confusion.counts()) {
      json["confusion"].push_back(
          {{"label", pair.first}, {"predicted", pair.second}, {"images", count}});
    }
    for (const Mistake& mistake : mistakes) {
      json["mistakes"].push_back({{"image", mistake.number},
                                  {"label", mistake.label},
                                  {"predicted", mistake.predicted},
                                  {"probability", mistake.probability}});
    }
    return json;
  }

  void PrintScores(const Classifier& classifier, const Confusion& confusion) const {
    constexpr size_t kMostPairs = 5;
    PrintMetric("accuracy", confusion.accuracy());
    PrintMetric("log loss", confusion.log_loss());
    PrintMetric("mean F1", confusion.Macro().f1);
    for (const ConfusedPair& pair : confusion.WorstPairs(kMostPairs)) {
      std::printf("  %lld images of %s predicted as %s\n", static_cast<long long>(pair.count),
                  LegibleLine(classifier.NameOf(pair.label)).c_str(),
                  LegibleLine(classifier.NameOf(pair.predicted)).c_str());
    }
    if (!confusion_.empty())
      std::printf("confusion matrix: %s\n", io::DisplayName(confusion_).c_str());
  }

  static constexpr size_t kMostMistakes = 48;
  static constexpr int64_t kMostClassesDrawn = 4096;

  ClassifierFlags classifier_;
  ShardOptions shards_;
  std::string confusion_, tensorboard_;
  DeviceOptions device_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> EvaluateCommand() { return std::make_unique<Evaluate>(); }

}  // namespace penstock::cli
