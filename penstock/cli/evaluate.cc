#include <cstdio>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/command.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/shared_options.h"
#include "penstock/keras/keras.h"

namespace penstock::cli {
namespace {

class Evaluate : public Command {
 public:
  void Describe(Options& options) override {
    options.Add("--model", model_, "Model file written by `penstock train --save`").Required();
    shards_.Describe(options);
    device_.Describe(options);
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    PENSTOCK_RETURN_IF_ERROR(FindShards(shards_.data).status());
    PENSTOCK_ASSIGN_OR_RETURN(auto client, device_.Open());
    PENSTOCK_ASSIGN_OR_RETURN(
        keras::Model model,
        keras::Model::Load(model_, {.client = client,
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
    for (const auto& [name, value] : logs) {
      if (name == "accuracy") {
        std::printf("held-out accuracy: %.1f %%\n", 100 * value);
      } else {
        std::printf("held-out %s: %.4f\n", name.c_str(), value);
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string model_;
  ShardOptions shards_;
  DeviceOptions device_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> EvaluateCommand() { return std::make_unique<Evaluate>(); }

}  // namespace penstock::cli
