#include "penstock/cli/training/transfer.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/io/uri.h"
#include "penstock/save/save.h"

namespace penstock::cli {
namespace {

// Word for --freeze that selects every layer except the head.
constexpr char kBackbone[] = "backbone";
// Maximum number of lines about weights that do not match.
constexpr size_t kMaxLines = 20;

// Variables that have kept their values although they are not the head's, one per line.
std::string Missing(const keras::WeightsReport& report, const std::string& head) {
  std::string text;
  size_t count = 0;
  for (const keras::WeightsReport::Skipped& one : report.skipped) {
    if (absl::StartsWith(one.name, head + "/")) continue;
    if (++count <= kMaxLines) absl::StrAppend(&text, "\n  ", one.name, ": ", one.reason);
  }
  if (count > kMaxLines) absl::StrAppend(&text, "\n  and ", count - kMaxLines, " more");
  return text;
}

// The error of weights that do not fit, with its cause if only the classifier differs.
absl::Status WithCause(const absl::Status& error, keras::Model& model, const std::string& uri) {
  const std::string head = HeadOf(model.network());
  const auto report = model.LoadWeights(uri, {.by_name = true, .skip_mismatch = true});
  if (!report.ok() || report->loaded.empty() || !Missing(*report, head).empty()) return error;
  return absl::Status(
      error.code(), absl::StrCat(error.message(), "\nonly the classifier '", head,
                                 "' differs: --new-head initializes it for the classes of --data"));
}

}  // namespace

std::string HeadOf(const nn::Network& network) {
  const std::vector<nn::Network::Use>& uses = network.uses();
  for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
    if (use->layer.valid() && !network.VariablesUnder(use->name).empty()) return use->name;
  }
  return "";
}

std::string LayerBeforeHead(const nn::Network& network) {
  const std::vector<nn::Network::Use>& uses = network.uses();
  const std::string head = HeadOf(network);
  auto use = std::find_if(uses.begin(), uses.end(), [&](const auto& u) { return u.name == head; });
  if (use == uses.end()) return "";
  do {
    if (use->inputs.empty()) break;
    use = uses.begin() + use->inputs[0].use;
  } while (use->layer.valid() && use->layer.class_name() == "Dropout");
  return use->name;
}

void Transfer::Describe(Options& options) {
  options.Add("--weights", weights_,
              "File with the initial weights, in any format that `penstock inspect` knows");
  options
      .AddFlag("--new-head", new_head_,
               "Initialize the classifier at random instead of loading it, for other classes")
      .Needs("--weights");
  options.Add("--freeze", freeze_,
              "Layers that are not trained, by name or pattern (quote the *); 'backbone' is every "
              "layer except the classifier");
  options
      .Add("--unfreeze-after", unfreeze_after_,
           "Train the layers of --freeze, too, after this number of epochs")
      .Range(1, 1000000)
      .Needs("--freeze");
  options
      .Add("--unfreeze-factor", unfreeze_factor_,
           "Factor of the learning rate after --unfreeze-after")
      .AboveZero(1e3)
      .ShowDefault();
  options
      .Add("--cache-features", features_folder_,
           "Folder for the frozen layers' outputs: each image passes through them once (in "
           "inference "
           "mode, without dropout) instead of in every epoch, and later runs use them again")
      .Needs("--freeze");
}

absl::Status Transfer::Check(int epochs) const {
  if (unfreeze_after_ >= epochs && has_second_stage()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--unfreeze-after ", unfreeze_after_, " is not below --epochs ", epochs));
  }
  if (weights_.empty()) {
    if (!freeze_.empty()) {
      std::fprintf(stderr,
                   "warning: without --weights, --freeze keeps the random initial weights of these "
                   "layers\n");
    }
    return absl::OkStatus();
  }
  return base::WithContext(save::Inspect(*io::FileSystem::Default(), weights_).status(),
                           "--weights");
}

int Transfer::FrozenEpochs(int epochs) const {
  return has_second_stage() ? unfreeze_after_ : epochs;
}

absl::Status Transfer::Freeze(const keras::Model& model) const {
  if (freeze_.empty()) return absl::OkStatus();
  for (const std::string& pattern : freeze_) {
    if (pattern != kBackbone || model.GetLayer(kBackbone).status().ok()) {
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(model.SetTrainable(false, {pattern}), "--freeze"));
      continue;
    }
    PENSTOCK_RETURN_IF_ERROR(model.SetTrainable(false));
    PENSTOCK_RETURN_IF_ERROR(model.SetTrainable(true, {HeadOf(model.network())}));
  }
  if (model.network().Refreshed().CountParameters(/*trainable_only=*/true) == 0) {
    return absl::InvalidArgumentError(
        "--freeze leaves no layer to train; 'backbone' freezes all but the classifier");
  }
  return absl::OkStatus();
}

absl::Status Transfer::LoadWeights(keras::Model& model) const {
  if (weights_.empty()) return absl::OkStatus();
  if (!new_head_) {
    absl::StatusOr<keras::WeightsReport> report =
        model.LoadWeights(weights_, keras::PartialWeightsOptions{});
    if (!report.ok()) {
      return base::WithContext(WithCause(report.status(), model, weights_), "--weights");
    }
    std::fprintf(stderr, "weights: %zu variables loaded from %s\n", report->loaded.size(),
                 io::DisplayName(weights_).c_str());
    return absl::OkStatus();
  }
  const std::string head = HeadOf(model.network());
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays initial, model.GetWeights());
  absl::StatusOr<keras::WeightsReport> report =
      model.LoadWeights(weights_, {.by_name = true, .skip_mismatch = true});
  if (!report.ok()) return base::WithContext(report.status(), "--weights");
  if (const std::string missing = Missing(*report, head); !missing.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--weights: ", io::DisplayName(weights_),
                     " lacks weights of this network; is it a file of another --model?", missing));
  }
  PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays all, model.GetWeights());
  for (const auto& [name, array] : initial) {
    if (absl::StartsWith(name, head + "/")) all.Set(name, array);
  }
  PENSTOCK_RETURN_IF_ERROR(model.SetWeights(all));
  const auto heads =
      static_cast<size_t>(std::count_if(initial.begin(), initial.end(), [&](const auto& one) {
        return absl::StartsWith(one.first, head + "/");
      }));
  std::fprintf(stderr,
               "weights: %zu variables loaded from %s; the %zu of the classifier '%s' are new; %zu "
               "arrays of the file are not used\n",
               initial.size() - heads, io::DisplayName(weights_).c_str(), heads, head.c_str(),
               report->unused.size());
  return absl::OkStatus();
}

}  // namespace penstock::cli
