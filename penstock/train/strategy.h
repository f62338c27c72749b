// Room train: from a network and a dataset to trained weights. It may use every room above it.
//
//   PENSTOCK_ASSIGN_OR_RETURN(Strategy strategy, Strategy::Create(client, {.replicas = 8}));
//   PENSTOCK_ASSIGN_OR_RETURN(auto trainer, Trainer::Create({.network = net, .targets = {{.loss =
//   loss}}, .optimizer = SGD(),
//                                                            .metrics = {Accuracy()}, .strategy =
//                                                            strategy}));
//   PENSTOCK_ASSIGN_OR_RETURN(History history, trainer->Fit(dataset, {.epochs = 10}));
//   PENSTOCK_ASSIGN_OR_RETURN(Logs logs, trainer->Evaluate(test_set));
//
//   strategy.h       how many replicas, on which devices
//   trainer.h        Trainer: Fit, Evaluate, Predict; the loop
//   step_program.h   the programs that run on the devices
//   state.h          what a training run keeps on the devices
//   feed.h           batches on their way to the devices
//   callback.h       what may happen between steps; callbacks.h has those that come with the house
//   progress.h       the progress line
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/kernels/kernels.h"
#include "penstock/runtime/client.h"

namespace penstock::train {

struct StrategyOptions {
  // How many copies of the model work together; each takes an equal part of every batch. 0: all
  // devices.
  int replicas = 1;
};

// How a model is spread over devices. Every replica holds all variables; gradients are summed over
// replicas, so that N replicas take the same steps as one device would with the whole batch. Layers
// that look at other examples (batch normalisation) see their replica's part only.
class Strategy {
 public:
  // The error names the devices there are when more are asked for.
  static absl::StatusOr<Strategy> Create(std::shared_ptr<runtime::Client> client,
                                         const StrategyOptions& options = {});

  runtime::Client& client() const { return *client_; }
  const std::shared_ptr<runtime::Client>& shared_client() const { return client_; }
  // How graphs are printed for these devices.
  const kernels::Lowering& lowering() const { return lowering_; }
  int num_replicas() const { return static_cast<int>(devices_.size()); }
  const runtime::Device& device(int replica) const { return devices_[replica]; }

 private:
  Strategy() = default;

  std::shared_ptr<runtime::Client> client_;
  kernels::Lowering lowering_;
  std::vector<runtime::Device> devices_;
};

}  // namespace penstock::train
