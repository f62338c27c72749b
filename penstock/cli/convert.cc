#include <algorithm>
#include <cstdio>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/cli/command.h"
#include "penstock/io/canonical_name.h"
#include "penstock/io/file_system.h"
#include "penstock/io/uri.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/client.h"
#include "penstock/save/save.h"

namespace penstock::cli {
namespace {

class Convert : public Command {
 public:
  void Describe(Options& options) override {
    options.Add("in", in_, "File of weights, or of a model, to read; its format is detected")
        .Required();
    options
        .Add("out", out_,
             absl::StrCat("File to write; the extension selects the format. A model stays a model "
                          "in .safetensors, .keras and .h5, elsewhere its weights are written. ",
                          keras::ExportFormatNames(), ": the model in the file, for prediction"))
        .Required();
    options.AddFlag("--overwrite", overwrite_, "Replace an existing file");
    options.AddFlag(
        "--variable-names", variable_names_,
        "Name tensors of a TensorFlow checkpoint or a Keras 3 file as the variables of its "
        "program (conv1/kernel, conv1/0), not by their places (model/layer-1/kernel, "
        "layers/conv2d/vars/0)");
    options
        .Add("--max-shard-size", max_shard_bytes_,
             "Maximum size of the tensors in one file, for safetensors in several files (default: "
             "5GB), TensorFlow checkpoints and SavedModels (default: one file), and ONNX, where "
             "larger ones go into a second file (default: 2GB): 2GB, 500MB")
        .Bytes()
        .Range(1, uint64_t{1} << 50);
  }

  absl::Status Run() override {
    io::FileSystem& fs = *io::FileSystem::Default();
    if (keras::IsExport(out_)) return Export();
    PENSTOCK_RETURN_IF_ERROR(CheckDestination(fs));
    PENSTOCK_ASSIGN_OR_RETURN(const bool whole, IsModelInAnotherForm(fs));
    if (whole) return ConvertModel();
    PENSTOCK_ASSIGN_OR_RETURN(save::Weights weights, save::ReadWeights(fs, in_));
    if (variable_names_ && save::UseVariableNames(weights) == 0) {
      std::fprintf(stderr, "convert: %s has no other names of variables\n",
                   io::DisplayName(in_).c_str());
    }
    ReportSkipped(weights.skipped);
    PENSTOCK_RETURN_IF_ERROR(LeaveOutMetadata(weights));
    PENSTOCK_RETURN_IF_ERROR(
        save::WriteWeights(fs, out_, weights, {.max_shard_bytes = max_shard_bytes_}));
    int64_t bytes = 0;
    for (const auto& [name, array] : weights.arrays) bytes += array.num_bytes();
    std::printf("wrote %zu tensors, %.1f MB, to %s\n", weights.arrays.size(),
                static_cast<double>(bytes) / 1e6, io::DisplayName(out_).c_str());
    return absl::OkStatus();
  }

 private:
  // Whether the input describes a model, but not in the form of the format to write, which holds
  // models, too: Keras's archives, Keras's legacy files, and Penstock's description.
  absl::StatusOr<bool> IsModelInAnotherForm(io::FileSystem& fs) const {
    constexpr const char* kDescriptions[] = {"penstock_model", "config.json", "model_config"};
    if (variable_names_) return false;
    const char* form = nullptr;  // of the format to write; safetensors hold any metadata
    for (const char* key : kDescriptions) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool holds, save::HoldsMetadata(out_, key));
      if (holds && form == nullptr) form = key;
    }
    if (form == nullptr) return false;
    PENSTOCK_ASSIGN_OR_RETURN(const save::Contents in, save::Inspect(fs, in_));
    if (in.metadata.contains(form)) return false;
    return std::any_of(std::begin(kDescriptions), std::end(kDescriptions),
                       [&](const char* key) { return in.metadata.contains(key); });
  }

  // The whole model, through its layers. What the other form lacks of the training is left out.
  absl::Status ConvertModel() const {
    if (max_shard_bytes_ > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--max-shard-size does not apply to models in ", io::DisplayName(out_),
          ": a model of another form is written as one file; convert it again afterward"));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Client> client,
                              runtime::OpenClient({.device = "cpu"}));
    absl::StatusOr<keras::Model> model = keras::Model::Load(in_, {.client = client});
    const absl::Status known = model.ok() ? model->CheckSavable(out_) : model.status();
    if (!known.ok()) {
      model = keras::Model::Load(in_, {.client = client, .compile = false});
      if (!model.ok() || !model->CheckSavable(out_).ok()) return known;
      std::fprintf(stderr,
                   "convert: optimizer, loss and metrics are left out, so the model only predicts: "
                   "%s\n",
                   std::string(known.message()).c_str());
    }
    PENSTOCK_RETURN_IF_ERROR(model->Save(out_));
    std::printf("wrote the model, %lld parameters, to %s\n",
                static_cast<long long>(model->network().CountParameters()),
                io::DisplayName(out_).c_str());
    return absl::OkStatus();
  }

  // The model of the file, as a program that predicts.
  absl::Status Export() const {
    if (variable_names_) {
      return absl::InvalidArgumentError(
          absl::StrCat("--variable-names does not apply to ", io::DisplayName(out_),
                       ": an exported program has the names of its network"));
    }
    if (io::CanonicalName(in_) == io::CanonicalName(out_)) return IsInput();
    PENSTOCK_ASSIGN_OR_RETURN(const bool exists, keras::ExportExists(out_));
    if (exists && !overwrite_) return Exists();
    PENSTOCK_RETURN_IF_ERROR(keras::ExportFile(in_, out_, {.max_shard_bytes = max_shard_bytes_}));
    std::printf("exported the model to %s\n", io::DisplayName(out_).c_str());
    return absl::OkStatus();
  }

  absl::Status IsInput() const {
    return absl::InvalidArgumentError(
        absl::StrCat(io::DisplayName(out_), ": is the file to read; choose another destination"));
  }

  absl::Status Exists() const {
    return absl::AlreadyExistsError(
        absl::StrCat(io::DisplayName(out_), ": exists; --overwrite replaces it"));
  }

  static void ReportSkipped(const std::vector<std::string>& skipped) {
    constexpr size_t kShown = 20;
    for (size_t i = 0; i < std::min(kShown, skipped.size()); ++i) {
      std::fprintf(stderr, "convert: left out: %s\n", skipped[i].c_str());
    }
    if (skipped.size() > kShown) {
      std::fprintf(stderr, "convert: left out: %zu more\n", skipped.size() - kShown);
    }
  }

  // Removes what the format to write has no place for.
  absl::Status LeaveOutMetadata(save::Weights& weights) const {
    size_t removed = 0;
    for (auto entry = weights.metadata.begin(); entry != weights.metadata.end();) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool holds, save::HoldsMetadata(out_, entry->first));
      removed += !holds;
      entry = holds ? std::next(entry) : weights.metadata.erase(entry);
    }
    if (removed > 0) {
      std::fprintf(stderr, "convert: %zu %s left out: %s has no place for %s\n", removed,
                   removed == 1 ? "entry of metadata is" : "entries of metadata are",
                   io::DisplayName(out_).c_str(), removed == 1 ? "it" : "them");
    }
    return absl::OkStatus();
  }

  // Before anything is read.
  absl::Status CheckDestination(io::FileSystem& fs) const {
    // A TensorFlow checkpoint has two names: its prefix, and that with ".index".
    const auto index_of = [](absl::string_view uri) { return io::AppendToName(uri, ".index"); };
    if (io::CanonicalName(in_) == io::CanonicalName(out_) ||
        io::CanonicalName(index_of(in_)) == io::CanonicalName(out_) ||
        io::CanonicalName(in_) == io::CanonicalName(index_of(out_))) {
      return IsInput();
    }
    PENSTOCK_ASSIGN_OR_RETURN(const bool exists, save::WeightsExist(fs, out_));
    if (exists && !overwrite_) return Exists();
    if (exists && IsInputPartOfOutput(fs)) {
      return absl::InvalidArgumentError(
          absl::StrCat(io::DisplayName(in_), ": is one of the files of ", io::DisplayName(out_),
                       ", which would be removed; choose another destination"));
    }
    return save::CheckWeightsDestination(fs, out_);
  }

  // Whether the input is a shard of the index, or a file of the xser folder, that is replaced.
  bool IsInputPartOfOutput(io::FileSystem& fs) const {
    const std::string in = io::CanonicalName(in_), folder = io::Dirname(in);
    if (folder == io::CanonicalName(io::AppendToName(out_, ".tensors"))) return true;
    if (folder != io::Dirname(io::CanonicalName(out_))) return false;
    const absl::StatusOr<save::Contents> replaced = save::Inspect(fs, out_);
    if (!replaced.ok()) {  // assume so: an index may name shards of which one is missing
      return absl::EndsWithIgnoreCase(out_, ".json") && absl::EndsWith(in, ".safetensors");
    }
    return std::any_of(
        replaced->tensors.begin(), replaced->tensors.end(),
        [&](const save::TensorInfo& tensor) { return tensor.file == io::Basename(in); });
  }

  std::string in_, out_;
  bool overwrite_ = false, variable_names_ = false;
  int64_t max_shard_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Command> ConvertCommand() { return std::make_unique<Convert>(); }

}  // namespace penstock::cli
