// A classifier of flowers as people train it for a competition on a TPU: pretrained weights, a
// private bucket, augmentation, a learning rate that ramps up, decays and is printed as a curve,
// validation, a confusion matrix, macro F1, a submission file, and the model on this disk and in
// the bucket.
//
//   flowers_kaggle --train 'gs://bucket/train/*.tfrec' --valid 'gs://bucket/val/*.tfrec'
//       --test 'gs://bucket/test/*.tfrec' --weights xception_weights.h5 --out flowers
//       --device tpu --replicas 8
//
// Records have the features `image` and `class`, as `penstock pack` writes them; those of --test have
// `id` instead of `class`. Credentials of a private bucket are those of gcloud (Application Default Credentials); see
// docs/guide/files.md. Written to --out: flowers.safetensors, submission.csv, confusion.csv, and
// while it trains checkpoints/, from which a run that was killed continues.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/io/file_system.h"
#include "penstock/io/uri.h"
#include "penstock/keras/keras.h"
#include "penstock/models/models.h"
#include "penstock/save/save.h"

using namespace penstock;

constexpr int64_t kMaxNumber = 1 << 20;

struct Options {
  std::map<std::string, std::string> values = {{"train", ""},      {"valid", ""},
                                               {"test", ""},       {"weights", ""},
                                               {"out", "flowers"}, {"model", "xception"},
                                               {"device", ""},     {"copy", ""},
                                               {"replicas", "1"},  {"size", "192"},
                                               {"classes", "104"}, {"batch-size", "128"},
                                               {"epochs", "12"},   {"steps-per-execution", "0"}};
  const std::string& Text(const std::string& name) const { return values.at(name); }
  int64_t Number(const std::string& name) const {
    int64_t number = -1;
    return absl::SimpleAtoi(Text(name), &number) ? number : -1;
  }
};

// ---- Data ----

data::Dataset Images(const Options& options, const std::string& set, bool training) {
  const int size = static_cast<int>(options.Number("size"));
  data::Dataset records =
      data::Dataset::FromTfRecords({options.Text(set)}, {.shuffle_files = training});
  if (training) records = records.Shuffle(2048);
  data::DecodeImageOptions decode{.height = size, .width = size};
  if (training) {
    decode.random_crop = image::RandomResizedCrop{};
    decode.random_flip = true;
  }
  std::vector<record::ExampleFeature> features = {{.name = "image", .dtype = base::DType::kString}};
  if (set != "test") features.push_back({.name = "class", .dtype = base::DType::kI64});
  if (set == "test") features.push_back({.name = "id", .dtype = base::DType::kString});
  return records.ParseExample({.features = features})
      .DecodeImage(decode)
      .Batch(options.Number("batch-size"), {.drop_remainder = training})
      .Prefetch();
}

// ---- The learning rate: up for five epochs, then down exponentially ----

double LearningRate(int epoch) {
  constexpr double kStart = 1e-5, kMaximum = 4e-4, kMinimum = 1e-5, kDecay = 0.8;
  constexpr int kRampUp = 5;
  if (epoch < kRampUp) return kStart + (kMaximum - kStart) * epoch / kRampUp;
  double rate = kMaximum - kMinimum;
  for (int i = kRampUp; i < epoch; ++i) rate *= kDecay;
  return rate + kMinimum;
}

void PrintCurve(int epochs) {
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const double rate = LearningRate(epoch);
    std::printf("epoch %2d  learning rate %.2e  %s\n", epoch + 1, rate,
                std::string(static_cast<size_t>(rate * 1e5), '*').c_str());
  }
}

// ---- The model ----

absl::StatusOr<keras::Model> MakeModel(const Options& options,
                                       const std::shared_ptr<runtime::Client>& client) {
  const int64_t size = options.Number("size");
  // What the network's pretrained weights require, on the device.
  PENSTOCK_ASSIGN_OR_RETURN(const models::ImagePreprocessing preprocessing,
                            models::Preprocessing(options.Text("model")));
  PENSTOCK_ASSIGN_OR_RETURN(
      const nn::Network body,
      models::ByName(options.Text("model"),
                     {.input_shape = {size, size, 3},
                      .include_top = false,
                      .pooling = "avg",
                      .input_dtype = base::DType::kU8,
                      .input_layers = models::PreprocessingLayers(preprocessing.mode)}));
  keras::Model backbone(body);
  keras::Layer layer = backbone.AsLayer();
  if (!options.Text("weights").empty()) {
    PENSTOCK_RETURN_IF_ERROR(backbone.Compile({.client = client}));
    PENSTOCK_ASSIGN_OR_RETURN(const keras::WeightsReport report,
                              backbone.LoadWeights(options.Text("weights"), {.by_name = true}));
    if (report.loaded.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(io::DisplayName(options.Text("weights")), " has no weights of ",
                       options.Text("model"), "; give --model the network that it was saved of"));
    }
    std::printf("%s: %s\n", io::DisplayName(options.Text("weights")).c_str(),
                report.ToString().c_str());
    PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays weights, backbone.GetWeights());
    layer = layer.SetInitialWeights(weights);
  }
  const keras::Symbol image =
      keras::Input({.shape = {size, size, 3}, .dtype = base::DType::kU8, .name = "image"});
  const keras::Symbol classes =
      keras::Dense({.units = options.Number("classes"), .activation = "softmax"})(layer(image));
  return keras::Model(image, classes, "flowers");
}

absl::StatusOr<keras::History> Train(const Options& options, keras::Model& model,
                                     const std::shared_ptr<runtime::Client>& client) {
  PENSTOCK_RETURN_IF_ERROR(
      model.Compile({.optimizer = keras::Adam(),
                     .loss = keras::SparseCategoricalCrossentropy(),
                     .metrics = {"accuracy", keras::metrics::F1Score({.average = "macro"})},
                     .client = client,
                     .replicas = static_cast<int>(options.Number("replicas")),
                     .steps_per_execution = options.Number("steps-per-execution")}));
  const data::Dataset train = Images(options, "train", true);
  const data::Dataset valid = Images(options, "valid", false);
  const int epochs = static_cast<int>(options.Number("epochs"));
  PrintCurve(epochs);
  return model.Fit(
      train, {.epochs = epochs,
              .callbacks = {keras::LearningRateScheduler(
                                [](int epoch, double) { return LearningRate(epoch); }),
                            keras::BackupAndRestore(
                                {.backup_dir = io::JoinPath(options.Text("out"), "checkpoints")})},
              .validation_data = &valid});
}

// ---- What came out ----

// confusion[label][prediction], and the mean over the classes of F1 = 2 tp / (2 tp + fp + fn).
struct Confusion {
  int64_t classes;
  std::vector<int64_t> counts;

  explicit Confusion(int64_t n) : classes(n), counts(static_cast<size_t>(n * n)) {}
  int64_t& At(int64_t label, int64_t prediction) {
    return counts[static_cast<size_t>(label * classes + prediction)];
  }
  double MacroF1() {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      int64_t labeled = 0, predicted = 0;
      for (int64_t k = 0; k < classes; ++k) {
        labeled += At(c, k);
        predicted += At(k, c);
      }
      if (labeled + predicted > 0) {
        sum += 2.0 * static_cast<double>(At(c, c)) / static_cast<double>(labeled + predicted);
      }
    }
    return sum / static_cast<double>(classes);
  }
  std::string Csv() {
    std::string text;
    for (int64_t label = 0; label < classes; ++label) {
      for (int64_t k = 0; k < classes; ++k) absl::StrAppend(&text, k ? "," : "", At(label, k));
      text += "\n";
    }
    return text;
  }
};

absl::Status Validate(const Options& options, keras::Model& model) {
  const data::Dataset valid = Images(options, "valid", false);
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array probabilities, model.Predict(valid));
  const base::Array predictions = probabilities.ArgMax(-1);
  Confusion confusion(options.Number("classes"));
  PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, valid.MakeIterator());
  int64_t row = 0;
  for (base::NamedArrays batch;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
    if (!more) break;
    for (const int64_t label : batch.Find("class")->values<int64_t>()) {
      if (label < 0 || label >= confusion.classes) {
        return absl::InvalidArgumentError(
            absl::StrCat("an image has class ", label, ", but --classes is ", confusion.classes));
      }
      ++confusion.At(label, predictions.item<int64_t>({row++}));
    }
  }
  std::printf("macro F1: %.4f\n", confusion.MacroF1());
  return io::WriteFile(*io::FileSystem::Default(),
                       io::JoinPath(options.Text("out"), "confusion.csv"), confusion.Csv());
}

absl::Status Submit(const Options& options, keras::Model& model) {
  const data::Dataset test = Images(options, "test", false);
  std::string csv = "id,label\n";
  PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, test.MakeIterator());
  for (base::NamedArrays batch;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
    if (!more) break;
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array probabilities, model.Predict(*batch.Find("image")));
    const base::Array predictions = probabilities.ArgMax(-1);
    const auto ids = batch.Find("id")->values<absl::string_view>();
    for (size_t i = 0; i < ids.size(); ++i) {
      absl::StrAppend(&csv, ids[i], ",", predictions.item<int64_t>({static_cast<int64_t>(i)}),
                      "\n");
    }
  }
  return io::WriteFile(*io::FileSystem::Default(),
                       io::JoinPath(options.Text("out"), "submission.csv"), csv);
}

// Hours of training are not lost at a destination that cannot be written.
absl::Status CheckDestinations(const Options& options, const std::string& file) {
  io::FileSystem& fs = *io::FileSystem::Default();
  PENSTOCK_RETURN_IF_ERROR(save::CheckWeightsDestination(fs, file, /*with_metadata=*/true));
  if (options.Text("copy").empty()) return absl::OkStatus();
  return save::CheckWeightsDestination(fs, options.Text("copy"), /*with_metadata=*/true);
}

// Nor at images that cannot be read; those for the submission come last.
absl::Status CheckImages(const Options& options) {
  for (const char* set : {"train", "valid", "test"}) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, Images(options, set, false).MakeIterator());
    base::NamedArrays batch;
    PENSTOCK_ASSIGN_OR_RETURN(const bool any, iterator->Next(&batch));
    if (!any) return absl::InvalidArgumentError(absl::StrCat("--", set, " has no images"));
  }
  return absl::OkStatus();
}

absl::Status Run(const Options& options) {
  const std::string file = io::JoinPath(options.Text("out"), "flowers.safetensors");
  PENSTOCK_RETURN_IF_ERROR(CheckDestinations(options, file));
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto client,
      runtime::OpenClient({.device = options.Text("device"),
                           .cpu_devices = static_cast<int>(options.Number("replicas"))}));
  PENSTOCK_ASSIGN_OR_RETURN(keras::Model model, MakeModel(options, client));
  PENSTOCK_RETURN_IF_ERROR(CheckImages(options));
  PENSTOCK_RETURN_IF_ERROR(Train(options, model, client).status());
  PENSTOCK_RETURN_IF_ERROR(model.Save(file));
  if (!options.Text("copy").empty()) PENSTOCK_RETURN_IF_ERROR(model.Save(options.Text("copy")));
  PENSTOCK_RETURN_IF_ERROR(Validate(options, model));

  // Inference on another device than the one that trained: this machine's CPU.
  PENSTOCK_ASSIGN_OR_RETURN(const auto cpu, runtime::OpenClient({.device = "cpu"}));
  PENSTOCK_ASSIGN_OR_RETURN(
      keras::Model loaded,
      keras::Model::Load(options.Text("copy").empty() ? file : options.Text("copy"),
                         {.client = cpu}));
  return Submit(options, loaded);
}

int Usage(const Options& options) {
  std::fprintf(stderr, "usage: flowers_kaggle --train SHARDS --valid SHARDS --test SHARDS ...\n");
  for (const auto& [name, value] : options.values) {
    std::fprintf(stderr, "  --%s VALUE (default '%s')\n", name.c_str(), value.c_str());
  }
  return 2;
}

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    absl::string_view word = argv[i];
    if (!absl::ConsumePrefix(&word, "--") || i + 1 == argc) return Usage(options);
    const auto at = options.values.find(std::string(word));
    if (at == options.values.end()) return Usage(options);
    at->second = argv[i + 1];
  }
  for (const char* name : {"train", "valid", "test"}) {
    if (options.Text(name).empty()) return Usage(options);
  }
  for (const char* name : {"replicas", "size", "classes", "batch-size", "epochs"}) {
    if (options.Number(name) < 1 || options.Number(name) > kMaxNumber) return Usage(options);
  }
  if (options.Number("steps-per-execution") < 0) return Usage(options);
  const absl::Status status = Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
