#include "penstock/cli/classify/classifier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/nn/layers.h"
#include "penstock/nn/losses.h"
#include "penstock/train/objective.h"

namespace penstock::cli {
namespace {

using base::Array;
using base::NamedArrays;

// ---- Meaning of the scores ----

bool IsBinary(const nn::Loss& loss) { return absl::StartsWith(loss.body()->name(), "binary_"); }

// Activation of the last layer: "softmax", "linear", ...; empty if it is unknown.
std::string LastActivation(const nn::Network& network) {
  if (network.uses().empty() || !network.uses().back().layer.valid()) return "";
  const nn::Layer& last = network.uses().back().layer;
  if (last.class_name() == "Softmax") return "softmax";
  const nlohmann::ordered_json config = nn::LayerConfig(last);
  const auto activation = config.find("activation");
  return activation != config.end() && activation->is_string() ? activation->get<std::string>()
                                                               : "";
}

absl::StatusOr<ScoreKind> KindOf(const train::Objective& objective) {
  const nn::Loss& loss = objective.targets[0].loss;
  const std::optional<bool> probabilities = loss.body()->expects_probabilities();
  if (probabilities.has_value() && IsBinary(loss)) {
    return *probabilities ? ScoreKind::kBinaryProbabilities : ScoreKind::kBinaryLogits;
  }
  if (probabilities.has_value()) {
    return *probabilities ? ScoreKind::kProbabilities : ScoreKind::kLogits;
  }
  const std::string activation = LastActivation(objective.network);
  if (activation == "softmax") return ScoreKind::kProbabilities;
  if (activation == "sigmoid") return ScoreKind::kBinaryProbabilities;
  return absl::InvalidArgumentError(
      absl::StrCat("the model was trained with the loss '", loss.name(), "' and its last layer is ",
                   "neither a softmax nor a sigmoid, so its outputs are not probabilities of ",
                   "classes; train a classifier with a crossentropy"));
}

// ---- Views ----

using ir::Value;
using ir::Values;

// The image shifted by `distance` pixels along an axis; positive moves it to higher indices. Pixels
// at the edge are repeated.
Value Shifted(Value x, int64_t axis, int64_t distance) {
  const int64_t size = x.shape().dim(static_cast<int>(axis)), move = std::abs(distance);
  const bool up = distance > 0;
  const Value edge = up ? ir::SliceAxis(x, axis, 0, 1) : ir::SliceAxis(x, axis, size - 1, size);
  const Value rest =
      up ? ir::SliceAxis(x, axis, 0, size - move) : ir::SliceAxis(x, axis, move, size);
  Values parts(static_cast<size_t>(move), edge);
  parts.insert(up ? parts.end() : parts.begin(), rest);
  return ir::Concatenate(parts, axis);
}

// [batch, height, width, channels] -> [batch, views, height, width, channels].
Value ViewsOf(Value x, const TestTimeViews& views) {
  constexpr int64_t kFraction = 16;
  Values all{x};
  for (const int axis : {1, 2}) {
    const int64_t size = x.shape().dim(axis);
    const int64_t distance = std::min(std::max<int64_t>(1, size / kFraction), size - 1);
    for (const int64_t sign : {-1, 1}) {
      if (views.shift) all.push_back(distance == 0 ? x : Shifted(x, axis, sign * distance));
    }
  }
  for (size_t i = all.size(); views.flip && i > 0; --i) {
    all.push_back(ir::Reverse(all[i - 1], {2}));
  }
  for (Value& view : all) view = ir::ExpandDims(view, 1);
  return ir::Concatenate(all, 1);
}

// `model` applied to each view: its output is [rows, views, scores].
absl::StatusOr<keras::Model> ForViews(const keras::Model& model, const TestTimeViews& views,
                                      const std::shared_ptr<runtime::Client>& client,
                                      int replicas) {
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, model.trainer());
  PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays weights, model.GetWeights());
  const nn::Network& network = model.network();
  const base::Shape& shape = network.inputs()[0].type.shape;
  const nn::Symbol input = nn::Input({.shape = {shape.dim(1), shape.dim(2), shape.dim(3)},
                                      .dtype = network.inputs()[0].type.dtype,
                                      .name = "image"});
  const nn::Layer make_views =
      nn::Lambda([views](nn::CallContext&, const Values& x) { return ViewsOf(x[0], views); },
                 {.name = "views"});
  const nn::Symbol output = nn::TimeDistributed(model.AsLayer())(make_views(input));
  keras::Model wrapped({input}, {output}, "test_time_augmentation");
  PENSTOCK_RETURN_IF_ERROR(
      wrapped.Compile({.optimizer = "sgd",
                       .loss = "mse",  // not used
                       .columns = {.inputs = {"image"}},
                       .client = client,
                       .replicas = replicas,
                       .dtype_policy = network.policy().name,
                       .matmul_precision = trainer->objective().matmul_precision}));
  // The variables of the nested network, in its order.
  const auto& variables = wrapped.network().variables();
  if (variables.size() != network.variables().size()) {
    return absl::InternalError("the model inside the views has other variables");
  }
  NamedArrays renamed;
  for (size_t i = 0; i < variables.size(); ++i) {
    const std::string& name = network.variables()[i].name;
    if (!absl::EndsWith(variables[i].name, absl::StrCat("/", name))) {
      return absl::InternalError(absl::StrCat("'", variables[i].name, "' is not '", name, "'"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(Array array, weights.Get(name));
    renamed.Append(variables[i].name, std::move(array));
  }
  PENSTOCK_RETURN_IF_ERROR(wrapped.SetWeights(renamed));
  return wrapped;
}

// `images` with the last row repeated up to `rows` rows.
Array Padded(const Array& images, int64_t rows) {
  if (images.dim(0) >= rows) return images;
  Array out = Array::Uninitialized(images.dtype(), images.shape().RowShape().Prepend(rows));
  const int64_t row_bytes = images.num_bytes() / images.dim(0);
  auto* to = static_cast<char*>(out.mutable_raw());
  std::memcpy(to, images.raw(), static_cast<size_t>(images.num_bytes()));
  const auto* last = static_cast<const char*>(images.raw()) + images.num_bytes() - row_bytes;
  for (int64_t i = images.dim(0); i < rows; ++i) {
    std::memcpy(to + i * row_bytes, last, static_cast<size_t>(row_bytes));
  }
  return out;
}

bool SameShape(const ImageShape& a, const ImageShape& b) {
  return a.height == b.height && a.width == b.width && a.channels == b.channels;
}

// Number of classes of a model whose scores have this many columns.
int64_t ClassesOf(ScoreKind kind, int64_t scores) {
  const bool binary = kind == ScoreKind::kBinaryLogits || kind == ScoreKind::kBinaryProbabilities;
  return binary && scores == 1 ? 2 : scores;
}

}  // namespace

std::string ImageColumn(size_t i) { return i == 0 ? "image" : absl::StrCat("image_", i); }

void ToProbabilities(ScoreKind kind, absl::Span<const float> scores,
                     absl::Span<double> probabilities) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  switch (kind) {
    case ScoreKind::kProbabilities:
      std::copy(scores.begin(), scores.end(), probabilities.begin());
      return;
    case ScoreKind::kLogits: {
      const float max = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (const float s : scores) sum += std::exp(static_cast<double>(s) - max);
      for (size_t i = 0; i < scores.size(); ++i) {
        probabilities[i] = std::exp(static_cast<double>(scores[i]) - max) / sum;
      }
      return;
    }
    case ScoreKind::kBinaryProbabilities:
    case ScoreKind::kBinaryLogits: {
      const bool logits = kind == ScoreKind::kBinaryLogits;
      const bool one_unit = scores.size() == 1 && probabilities.size() == 2;
      for (size_t i = 0; i < scores.size(); ++i) {
        const double p = logits ? sigmoid(scores[i]) : static_cast<double>(scores[i]);
        probabilities[one_unit ? 1 : i] = p;
      }
      if (one_unit) probabilities[0] = 1 - probabilities[1];
      return;
    }
  }
}

int64_t MostProbableClass(absl::Span<const double> probabilities) {
  int64_t best = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (std::isnan(probabilities[i])) return -1;
    if (probabilities[i] > probabilities[static_cast<size_t>(best)]) {
      best = static_cast<int64_t>(i);
    }
  }
  return best;
}

absl::Status NotFiniteError(const std::string& image) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the model's scores of ", image, " are not numbers (NaN): its training diverged. Train ",
      "it again with a lower learning rate; `penstock train --find-learning-rate` proposes one"));
}

absl::StatusOr<Classifier::Member> Classifier::LoadMember(
    const std::string& uri, const TestTimeViews& views,
    const std::shared_ptr<runtime::Client>& client, int replicas, std::vector<ImageShape>& shapes) {
  PENSTOCK_ASSIGN_OR_RETURN(
      keras::Model model,
      keras::Model::Load(
          uri, {.client = client, .replicas = replicas, .columns = {.inputs = {"image"}}}));
  PENSTOCK_ASSIGN_OR_RETURN(const ImageShape shape, InputShape(model.network()));
  const auto& outputs = model.network().outputs();
  const ir::TensorType& output = outputs[0].type;
  if (outputs.size() != 1 || output.shape.rank() != 2 || output.shape.dim(1) <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model's output must be one score per class, but it is ",
        outputs.size() == 1 ? output.ToString() : absl::StrCat(outputs.size(), " outputs")));
  }
  Member member{.uri = uri, .model = nullptr, .class_names = model.class_names()};
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, model.trainer());
  PENSTOCK_ASSIGN_OR_RETURN(member.kind, KindOf(trainer->objective()));
  member.classes = ClassesOf(member.kind, output.shape.dim(1));
  member.shape = static_cast<size_t>(
      std::find_if(shapes.begin(), shapes.end(),
                   [&](const ImageShape& other) { return SameShape(shape, other); }) -
      shapes.begin());
  if (member.shape == shapes.size()) shapes.push_back(shape);
  if (views.count() > 1) {
    PENSTOCK_ASSIGN_OR_RETURN(model, ForViews(model, views, client, replicas));
  }
  member.model = std::make_unique<keras::Model>(std::move(model));
  return member;
}

absl::Status Classifier::AddMember(Member member) {
  if (members_.empty()) {
    classes_ = member.classes;
  } else if (member.classes != classes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it has ", member.classes, " classes, but ", io::DisplayName(members_[0].uri), " has ",
        classes_, "; models can be averaged only if they have the same classes"));
  }
  if (class_names_.empty()) {
    if (static_cast<int64_t>(member.class_names.size()) == classes_) {
      class_names_ = member.class_names;
    }
  } else if (!member.class_names.empty() && member.class_names != class_names_) {
    const auto [mine, first] = std::mismatch(member.class_names.begin(), member.class_names.end(),
                                             class_names_.begin(), class_names_.end());
    const std::string other = first == class_names_.end() ? "none" : *first;
    return absl::InvalidArgumentError(absl::StrCat(
        "its class ", mine - member.class_names.begin(), " is '",
        mine == member.class_names.end() ? "none" : *mine, "', but that of ",
        io::DisplayName(members_[0].uri), " is '", other,
        "'; models can be averaged only if they have the same classes in the same order"));
  }
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

absl::StatusOr<Classifier> Classifier::Load(const std::vector<std::string>& models,
                                            const TestTimeViews& views,
                                            const DeviceOptions& device) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto client, device.Open());
  Classifier classifier;
  classifier.pool_ = std::make_unique<base::ThreadPool>(1);
  for (const std::string& uri : models) {
    absl::StatusOr<Member> member =
        LoadMember(uri, views, client, device.replicas, classifier.shapes_);
    // Errors of reading the file name it already.
    if (!member.ok()) {
      const bool named = absl::StrContains(member.status().message(), io::DisplayName(uri));
      return named ? member.status() : base::WithContext(member.status(), io::DisplayName(uri));
    }
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(classifier.AddMember(*std::move(member)), io::DisplayName(uri)));
  }
  return classifier;
}

std::string Classifier::NameOf(int64_t class_number) const {
  const bool named = class_number >= 0 && class_number < static_cast<int64_t>(class_names_.size());
  return named ? class_names_[static_cast<size_t>(class_number)] : absl::StrCat(class_number);
}

absl::Status Classifier::AddProbabilities(const Member& member, const Array& images, double* sum) {
  const int64_t rows = images.dim(0);
  const data::Dataset dataset =
      data::Dataset::FromArrays({{"image", Padded(images, batch_rows_)}}).Batch(batch_rows_);
  PENSTOCK_ASSIGN_OR_RETURN(const Array raw,
                            member.model->Predict(dataset, {.read = {.pool = pool_.get()}}));
  PENSTOCK_ASSIGN_OR_RETURN(const Array scores, raw.Cast(base::DType::kF32));
  const auto columns = static_cast<size_t>(scores.dim(scores.rank() - 1));
  const int64_t views = scores.rank() == 3 ? scores.dim(1) : 1;
  const auto values = scores.values<float>();
  std::vector<double> probabilities(static_cast<size_t>(classes_));
  for (int64_t i = 0; i < rows * views; ++i) {
    ToProbabilities(member.kind, values.subspan(static_cast<size_t>(i) * columns, columns),
                    absl::MakeSpan(probabilities));
    double* row = sum + i / views * classes_;
    for (int64_t c = 0; c < classes_; ++c) {
      row[c] += probabilities[static_cast<size_t>(c)] / static_cast<double>(views);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Array> Classifier::Probabilities(const NamedArrays& batch) {
  PENSTOCK_ASSIGN_OR_RETURN(const Array first, batch.Get(ImageColumn(0)));
  batch_rows_ = std::max(batch_rows_, first.dim(0));
  Array mean = Array::Zeros(base::DType::kF64, {first.dim(0), classes_});
  for (const Member& member : members_) {
    PENSTOCK_ASSIGN_OR_RETURN(const Array images, batch.Get(ImageColumn(member.shape)));
    PENSTOCK_RETURN_IF_ERROR(AddProbabilities(member, images, mean.mutable_data<double>()));
  }
  if (members_.size() == 1) return mean;  // exact
  double* values = mean.mutable_data<double>();
  for (int64_t i = 0; i < mean.num_elements(); ++i) {
    values[i] /= static_cast<double>(members_.size());
  }
  return mean;
}

void ClassifierFlags::Describe(Options& options) {
  options
      .Add("--model", models,
           "Model file written by `penstock train --save`; several files: their probabilities are "
           "averaged")
      .Required();
  options.Add("--tta", tta,
              "Test-time augmentation: averages the probabilities of several views of each image. "
              "flip: mirrored left to right; shift: shifted to each side; both: all ten views");
}

absl::StatusOr<TestTimeViews> ClassifierFlags::Views() const {
  TestTimeViews views;
  for (const std::string& name : tta) {
    if (name != "flip" && name != "shift") {
      return absl::InvalidArgumentError(
          absl::StrCat("--tta '", name, "': the views are flip and shift"));
    }
    (name == "flip" ? views.flip : views.shift) = true;
  }
  return views;
}

absl::StatusOr<Classifier> ClassifierFlags::Load(const DeviceOptions& device) const {
  PENSTOCK_ASSIGN_OR_RETURN(const TestTimeViews views, Views());
  return Classifier::Load(models, views, device);
}

}  // namespace penstock::cli
