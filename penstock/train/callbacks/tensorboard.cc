#include "penstock/train/callbacks/tensorboard.h"

#include <memory>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "penstock/base/clock.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/train/callbacks/event_writer.h"
#include "penstock/train/callbacks/graph_summaries.h"
#include "penstock/train/callbacks/option_checks.h"
#include "penstock/train/callbacks/summaries.h"
#include "penstock/train/live_training.h"
#include "penstock/train/profile_options.h"

namespace penstock::train {
namespace {

constexpr absl::string_view kWho = "TensorBoard";
constexpr char kTrainRun[] = "train", kValidationRun[] = "validation";

// An event file in a folder, opened at the first event.
class Run {
 public:
  Run(std::string folder, std::shared_ptr<io::FileSystem> fs, base::Clock* clock)
      : folder_(std::move(folder)), fs_(std::move(fs)), clock_(clock) {}

  // Appends a field of Event; 5 is a Summary.
  absl::Status Append(int64_t step, int field, absl::string_view bytes) {
    if (bytes.empty()) return absl::OkStatus();
    if (events_ == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(
          events_, EventWriter::Open({.folder = folder_, .file_system = fs_, .clock = clock_}));
    }
    return DropUnlessOk(events_->AppendField(step, field, bytes));
  }
  absl::Status AppendSummary(int64_t step, absl::string_view summary) {
    return Append(step, 5, summary);
  }
  // Makes the events visible; on an object store within an epoch (`soon`) only every 30 seconds.
  absl::Status Flush(bool soon = false) {
    constexpr double kFlushSeconds = 30;
    if (events_ == nullptr) return absl::OkStatus();
    const double now = clock_->Seconds();
    if (soon && !events_->flushes_cheaply() && now - flushed_ < kFlushSeconds) {
      return absl::OkStatus();
    }
    flushed_ = now;
    return DropUnlessOk(events_->Flush());
  }
  absl::Status Close() {
    const absl::Status status = Flush();
    events_.reset();
    return status;
  }

 private:
  // A file whose last event may be torn is not continued: no reader would pass that event.
  absl::Status DropUnlessOk(absl::Status status) {
    if (!status.ok()) events_.reset();
    return status;
  }

  const std::string folder_;
  const std::shared_ptr<io::FileSystem> fs_;
  base::Clock* const clock_;
  std::unique_ptr<EventWriter> events_;
  double flushed_ = 0;
};

// ---- Variables as images ----

// The array without axes of extent 1.
base::Array Squeezed(const base::Array& array) {
  std::vector<int64_t> dims;
  for (const int64_t extent : array.shape()) {
    if (extent != 1) dims.push_back(extent);
  }
  return *array.Reshape(base::Shape(dims));
}

// [1, rows, columns, 1] of a matrix, its longer side across.
base::Array MatrixImage(const base::Array& matrix) {
  const int64_t rows = matrix.dim(0), columns = matrix.dim(1);
  if (rows <= columns) return *matrix.Reshape({1, rows, columns, 1});
  base::Array image = base::Array::Zeros(base::DType::kF64, {1, columns, rows, 1});
  auto* const out = image.mutable_data<double>();
  const double* const in = matrix.data<double>();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[c * rows + r] = in[r * columns + c];
  }
  return image;
}

// The first filters [3, height, width, channels] of a kernel [height, width, inputs, filters]: of
// three inputs in color, else the first input.
base::Array KernelImage(const base::Array& kernel) {
  const int64_t height = kernel.dim(0), width = kernel.dim(1), inputs = kernel.dim(2),
                filters = kernel.dim(3);
  const int64_t shown = std::min<int64_t>(3, filters), channels = inputs == 3 ? 3 : 1;
  base::Array image = base::Array::Zeros(base::DType::kF64, {shown, height, width, channels});
  auto* out = image.mutable_data<double>();
  const double* const in = kernel.data<double>();
  for (int64_t f = 0; f < shown; ++f) {
    for (int64_t pixel = 0; pixel < height * width; ++pixel) {
      for (int64_t c = 0; c < channels; ++c) *out++ = in[(pixel * inputs + c) * filters + f];
    }
  }
  return image;
}

// Images of a variable; invalid if it has too many axes, or none.
base::Array VariableImage(const base::Array& variable) {
  if (variable.num_elements() == 0) return {};
  const absl::StatusOr<base::Array> numbers = variable.Cast(base::DType::kF64);
  if (!numbers.ok()) return {};
  if (variable.rank() == 4) return KernelImage(*numbers);
  const base::Array squeezed = Squeezed(*numbers);
  switch (squeezed.rank()) {
    case 1:
      return *squeezed.Reshape({1, 1, squeezed.dim(0), 1});
    case 2:
      return MatrixImage(squeezed);
    default:
      return {};
  }
}

// ---- The callback ----

class TensorBoardCallback : public Callback {
 public:
  explicit TensorBoardCallback(const TensorBoardOptions& options)
      : options_(options),
        fs_(options.file_system != nullptr ? options.file_system : io::FileSystem::Default()),
        train_(io::JoinPath(options.folder, kTrainRun), fs_, options.clock),
        validation_(io::JoinPath(options.folder, kValidationRun), fs_, options.clock) {
    profile_.folder = options.folder;
    std::tie(profile_.first_step, profile_.last_step) = options.profile_steps;
    profile_.operations = false;
    profile_.out = nullptr;
  }

  bool ObservesBatchBegin() const override { return false; }
  const ProfileOptions* profile() const override {
    return options_.profile_steps.second > 0 ? &profile_ : nullptr;
  }

  bool IsLog() const override { return true; }

  bool WantsGradients(int epoch) const override {
    return options_.write_grads && IsDue(options_.histogram_freq, {.epoch = epoch});
  }

  absl::Status Check(const TrainingContext&) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckNotEmpty(kWho, "folder", options_.folder));
    for (const auto& [name, value] :
         {std::pair<absl::string_view, int64_t>{"update_every_steps", options_.update_every_steps},
          {"initial_step", options_.initial_step},
          {"histogram_freq", options_.histogram_freq},
          {"embeddings_freq", options_.embeddings_freq}}) {
      PENSTOCK_RETURN_IF_ERROR(CheckNotNegative(kWho, name, value));
    }
    const auto [first, last] = options_.profile_steps;
    if (first < 0 || last < first || (last > 0 && first < 1)) {
      return absl::InvalidArgumentError(absl::StrCat(
          kWho, "'s profile_steps must be the first and the last step of the profile, ",
          "from 1, or {0, 0}; got {", first, ", ", last, "}"));
    }
    for (const auto& [name, on] :
         {std::pair<absl::string_view, bool>{"write_images", options_.write_images},
          {"write_grads", options_.write_grads}}) {
      if (!on || options_.histogram_freq > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(kWho, "'s ", name, " needs a histogram_freq of 1 or more: ",
                       name == "write_images" ? "images of variables" : "histograms of gradients",
                       " are written with the histograms of the variables"));
    }
    return base::WithContext(CheckTensorBoardFolder(*fs_, options_.folder), kWho);
  }

  absl::Status TrainBegin(TrainingContext& context) override {
    const LiveTraining* live = context.live();
    writes_step_ = options_.write_graph && live != nullptr;
    if (!writes_step_) return absl::OkStatus();
    constexpr int kGraphDef = 4;
    PENSTOCK_RETURN_IF_ERROR(train_.Append(0, kGraphDef, GraphDefOf(live->network())));
    return train_.Flush();
  }

  absl::Status EpochBegin(TrainingContext&, const Position& position) override {
    steps_ = epoch_steps_ = position.total_steps;
    batch_began_ = epoch_began_ = options_.clock->Seconds();
    return absl::OkStatus();
  }

  absl::Status BatchEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    absl::Status status = WriteBatch(position, logs);
    if (std::exchange(writes_step_, false)) status.Update(WriteStepGraph(*context.live()));
    return status;
  }

  absl::Status EpochEnd(TrainingContext& context, const Position& position,
                        const Logs& logs) override {
    // An error of one part leaves the others.
    absl::Status status = WriteLogs(context, position, logs);
    if (IsDue(options_.histogram_freq, position) || IsDue(options_.embeddings_freq, position)) {
      status.Update(WriteVariables(context, position));
    }
    if (WantsGradients(position.epoch)) status.Update(WriteGradients(context, position));
    status.Update(train_.Flush());
    status.Update(validation_.Flush());
    return status;
  }

  absl::Status TrainEnd(TrainingContext&) override {
    absl::Status status = train_.Close();
    status.Update(validation_.Close());
    return status;
  }

 private:
  using Scalars = std::vector<std::pair<std::string, double>>;

  absl::Status WriteBatch(const Position& position, const Logs& logs) {
    if (options_.update_every_steps == 0) return absl::OkStatus();
    // With several steps in an execution not every step is seen.
    const int64_t before = std::exchange(steps_, position.total_steps);
    Scalars scalars;
    if (options_.write_steps_per_second) {
      const double began = std::exchange(batch_began_, options_.clock->Seconds());
      AddSpeed("batch_", position.total_steps - before, began, scalars);
    }
    if (position.total_steps / options_.update_every_steps ==
        before / options_.update_every_steps) {
      return absl::OkStatus();
    }
    for (const auto& [name, value] : logs)
      scalars.emplace_back(absl::StrCat("batch_", name), value);
    PENSTOCK_RETURN_IF_ERROR(train_.AppendSummary(StepOf(position), ScalarSummary(scalars)));
    return train_.Flush(/*soon=*/true);
  }

  absl::Status WriteStepGraph(const LiveTraining& live) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto graph, live.StepGraph());
    if (graph == nullptr) return absl::OkStatus();
    PENSTOCK_RETURN_IF_ERROR(
        train_.AppendSummary(0, GraphSummary("train_step", GraphDefOf(*graph))));
    return train_.Flush(/*soon=*/true);
  }

  int64_t StepOf(const Position& position) const {
    return options_.initial_step + position.total_steps;
  }

  static bool IsDue(int freq, const Position& position) {
    return freq > 0 && position.epoch % freq == 0;
  }

  void AddSpeed(absl::string_view prefix, int64_t steps, double began, Scalars& scalars) const {
    const double seconds = options_.clock->Seconds() - began;
    if (steps <= 0 || seconds <= 0) return;
    scalars.emplace_back(absl::StrCat(prefix, "steps_per_second"),
                         static_cast<double>(steps) / seconds);
  }

  absl::Status WriteLogs(TrainingContext& context, const Position& position, const Logs& logs) {
    Scalars train, validation, by_steps;
    for (const auto& [name, value] : logs) {
      absl::string_view bare = name;
      const bool validates = absl::ConsumePrefix(&bare, "val_");
      (validates ? validation : train).emplace_back(absl::StrCat("epoch_", bare), value);
      if (validates)
        by_steps.emplace_back(absl::StrCat("evaluation_", bare, "_vs_iterations"), value);
    }
    if (const LiveTraining* live = context.live()) {
      const std::optional<double> rate = live->NextLearningRate();
      if (rate.has_value()) train.emplace_back("epoch_learning_rate", *rate);
    }
    if (options_.write_steps_per_second) {
      AddSpeed("epoch_", position.total_steps - epoch_steps_, epoch_began_, train);
    }
    absl::Status status = train_.AppendSummary(position.epoch, ScalarSummary(train));
    if (validation.empty()) return status;
    status.Update(validation_.AppendSummary(position.epoch, ScalarSummary(validation)));
    status.Update(validation_.AppendSummary(StepOf(position), ScalarSummary(by_steps)));
    if (options_.confusion_matrix != nullptr) status.Update(WriteConfusion(position));
    return status;
  }

  absl::Status WriteConfusion(const Position& position) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array counts, options_.confusion_matrix());
    PENSTOCK_ASSIGN_OR_RETURN(const std::string summary,
                              ConfusionSummary("confusion", counts, options_.class_names));
    return validation_.AppendSummary(position.epoch, summary);
  }

  absl::Status WriteVariables(TrainingContext& context, const Position& position) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays weights, context.Weights());
    absl::Status status;
    for (const auto& [name, array] : weights) {
      if (IsDue(options_.histogram_freq, position)) {
        status.Update(WriteHistogram(context, position, name, array));
        const base::Array image = options_.write_images ? VariableImage(array) : base::Array();
        if (image.valid() && image.dim(1) <= kMaxSide && image.dim(2) <= kMaxSide) {
          PENSTOCK_ASSIGN_OR_RETURN(const std::string summary, ImageSummary(name, image));
          status.Update(train_.AppendSummary(position.epoch, summary));
        }
      }
      const bool embeds = name == "embeddings" || absl::EndsWith(name, "/embeddings");
      if (embeds && array.rank() == 2 && IsDue(options_.embeddings_freq, position)) {
        status.Update(WriteEmbedding(name, array));
      }
    }
    return status;
  }

  absl::Status WriteGradients(TrainingContext& context, const Position& position) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays gradients, context.Gradients());
    absl::Status status;
    for (const auto& [name, array] : gradients) {
      status.Update(WriteHistogram(context, position, absl::StrCat(name, "_grad"), array));
    }
    return status;
  }

  absl::Status WriteHistogram(TrainingContext& context, const Position& position,
                              const std::string& name, const base::Array& array) {
    const std::string tag = absl::StrCat(name, "/histogram");
    PENSTOCK_ASSIGN_OR_RETURN(const std::string histogram, HistogramSummary(tag, array));
    if (absl::StrContains(histogram, "/not_finite") && !std::exchange(warned_, true)) {
      context.Warn(absl::StrCat(kWho, ": '", name, "' has values that are not finite (NaN or ",
                                "infinity); its histogram leaves them out, and ", tag,
                                "/not_finite counts them. TerminateOnNan finds the layer that ",
                                "makes them"));
    }
    return train_.AppendSummary(position.epoch, histogram);
  }

  // The rows as tab-separated values, and the projector's description of all embeddings so far
  // (tensorboard/plugins/projector/projector_config.proto).
  absl::Status WriteEmbedding(absl::string_view name, const base::Array& rows) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array numbers, rows.Cast(base::DType::kF32));
    std::string tsv;
    for (int64_t r = 0; r < rows.dim(0); ++r) {
      for (int64_t c = 0; c < rows.dim(1); ++c) {
        absl::StrAppendFormat(&tsv, "%s%.6g", c == 0 ? "" : "\t",
                              numbers.data<float>()[r * rows.dim(1) + c]);
      }
      tsv += '\n';
    }
    const std::string file =
        absl::StrCat(absl::StrReplaceAll(name, {{"/", "_"}, {"\\", "_"}, {"\"", "_"}}), ".tsv");
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(io::WriteFile(*fs_, io::JoinPath(options_.folder, file), tsv), kWho));
    std::string config =
        absl::StrCat("embeddings {\n  tensor_name: \"", file.substr(0, file.size() - 4),
                     "\"\n  tensor_path: \"", file, "\"\n");
    const absl::string_view layer = absl::StripSuffix(absl::StripSuffix(name, "embeddings"), "/");
    for (const auto& [of_layer, metadata] : options_.embeddings_metadata) {
      if (of_layer == layer) absl::StrAppend(&config, "  metadata_path: \"", metadata, "\"\n");
    }
    config += "}\n";
    if (!absl::StrContains(projector_, config)) projector_ += config;
    return base::WithContext(
        io::WriteFile(*fs_, io::JoinPath(options_.folder, "projector_config.pbtxt"), projector_),
        kWho);
  }

  static constexpr int64_t kMaxSide = 4096;  // larger images are not worth their time

  const TensorBoardOptions options_;
  const std::shared_ptr<io::FileSystem> fs_;
  ProfileOptions profile_;
  Run train_, validation_;
  int64_t steps_ = 0, epoch_steps_ = 0;  // that have been seen; before the epoch
  double batch_began_ = 0, epoch_began_ = 0;
  bool warned_ = false, writes_step_ = false;
  std::string projector_;
};

}  // namespace

absl::Status CheckTensorBoardFolder(io::FileSystem& fs, absl::string_view folder) {
  for (const char* run : {kTrainRun, kValidationRun}) {
    PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFolder(fs, io::JoinPath(folder, run)));
  }
  return absl::OkStatus();
}

std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options) {
  return std::make_shared<TensorBoardCallback>(options);
}

}  // namespace penstock::train
