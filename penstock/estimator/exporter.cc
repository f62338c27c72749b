#include "penstock/estimator/exporter.h"

#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"

namespace penstock::estimator {
namespace {

// Whether to export an evaluation.
using Decision = std::function<bool(const EvalResult& result, bool is_final)>;

class DecidingExporter : public Exporter {
 public:
  DecidingExporter(std::string name, ServingInputReceiverFn receiver_fn, Decision decision,
                   int exports_to_keep)
      : name_(std::move(name)),
        receiver_fn_(std::move(receiver_fn)),
        decision_(std::move(decision)),
        keep_(exports_to_keep) {}

  std::string name() const override { return name_; }

  absl::StatusOr<std::string> Export(Estimator& estimator, const std::string& export_path,
                                     const std::string& checkpoint_path,
                                     const EvalResult& eval_result,
                                     bool is_the_final_export) override {
    if (keep_ < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("exports_to_keep is ", keep_, ", but must be at least 1"));
    }
    if (!decision_(eval_result, is_the_final_export)) return std::string();
    PENSTOCK_ASSIGN_OR_RETURN(std::string folder,
                              estimator.ExportSavedModel(export_path, receiver_fn_,
                                                         {.checkpoint_path = checkpoint_path}));
    written_.push_back(folder);
    PENSTOCK_ASSIGN_OR_RETURN(const auto fs, estimator.Files());
    // One that cannot be removed is not worth a training: it is tried again after the next export.
    while (written_.size() > static_cast<size_t>(keep_)) {
      const absl::Status removed = fs->RemoveRecursively(written_.front());
      if (!removed.ok() && !absl::IsNotFound(removed)) break;
      written_.pop_front();
    }
    return folder;
  }

 private:
  const std::string name_;
  const ServingInputReceiverFn receiver_fn_;
  const Decision decision_;
  const int keep_;
  std::deque<std::string> written_;  // oldest first
};

bool LossIsSmaller(const EvalResult& best, const EvalResult& current) {
  const auto b = best.find("loss"), c = current.find("loss");
  return b != best.end() && c != current.end() && c->second < b->second;
}

}  // namespace

std::shared_ptr<Exporter> FinalExporter(std::string name,
                                        ServingInputReceiverFn serving_input_receiver_fn) {
  return std::make_shared<DecidingExporter>(
      std::move(name), std::move(serving_input_receiver_fn),
      [](const EvalResult&, bool is_final) { return is_final; }, 1 << 30);
}

std::shared_ptr<Exporter> LatestExporter(std::string name,
                                         ServingInputReceiverFn serving_input_receiver_fn,
                                         int exports_to_keep) {
  // The last evaluation may come twice: as itself, and as the final one.
  auto exported = std::make_shared<double>(-1);
  return std::make_shared<DecidingExporter>(
      std::move(name), std::move(serving_input_receiver_fn),
      [exported](const EvalResult& result, bool) {
        const double step = result.at("global_step");
        return std::exchange(*exported, step) != step;
      },
      exports_to_keep);
}

std::shared_ptr<Exporter> BestExporter(std::string name,
                                       ServingInputReceiverFn serving_input_receiver_fn,
                                       CompareFn compare_fn, int exports_to_keep) {
  if (compare_fn == nullptr) compare_fn = LossIsSmaller;
  auto best = std::make_shared<std::optional<EvalResult>>();
  return std::make_shared<DecidingExporter>(
      std::move(name), std::move(serving_input_receiver_fn),
      [best, compare = std::move(compare_fn)](const EvalResult& result, bool) {
        const bool better = !best->has_value() || compare(**best, result);
        if (better) *best = result;
        return better;
      },
      exports_to_keep);
}

}  // namespace penstock::estimator
