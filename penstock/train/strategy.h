// Room train: trains networks. It may use every room above it.
//
//   PENSTOCK_ASSIGN_OR_RETURN(Strategy strategy, Strategy::Create(client, {.replicas = 8}));
//   PENSTOCK_ASSIGN_OR_RETURN(
//       auto trainer,
//       Trainer::Create({.objective = {.network = net,
//                                      .targets = {{.loss = loss, .metrics = {nn::Accuracy()}}},
//                                      .optimizer = nn::SGD()},
//                        .strategy = strategy}));
//   PENSTOCK_ASSIGN_OR_RETURN(History history, trainer->Fit(dataset, {.epochs = 10}));
//   PENSTOCK_ASSIGN_OR_RETURN(Logs logs, trainer->Evaluate(test_set));
//
// Public:
//   strategy.h       replicas and their devices
//   objective.h      network, losses, metrics, optimizer; custom training steps
//   options.h        options of Trainer, Fit, Evaluate, Predict; arrays.h: arrays as data
//   trainer.h        Trainer: Fit, Evaluate, Predict
//   history.h        History, the result of Fit; fit_stats.h: where the time went; live_training.h:
//                    what a monitor reads of a running training
//   callback.h       Callback and its hooks; progress.h: the progress line
//   callbacks/       built-in callbacks, which check before the first step their options and whether
//                    files can be written
// Internal:
//   loop/            training_loop.h: one Fit; evaluation_loop.h, prediction_loop.h: one Evaluate,
//                    one Predict; their parts: progress, iterators, executions in flight, idle
//                    time, profile
//   callbacks/       callback_list.h: the callbacks of one call; parts of built-in ones
//   feed.h           transfers batches to the devices
//   program_cache.h  compiled programs; step_program.h: their graphs; forward.h: the forward pass
//   device_model.h   the state on the devices (state.h) and the programs
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/kernels/kernels.h"
#include "penstock/runtime/client.h"

namespace penstock::train {

struct StrategyOptions {
  // Number of replicas of the model; each takes an equal part of every batch. 0: all devices.
  int replicas = 1;
};

// Data parallelism: replicas of a model on several devices. Every replica has all variables;
// gradients are summed over replicas, so that N replicas take the same steps as one device with the
// whole batch. Layers that mix examples (batch normalization) see their replica's part only.
class Strategy {
 public:
  // INVALID_ARGUMENT, with the number of devices, if there are fewer than replicas.
  static absl::StatusOr<Strategy> Create(std::shared_ptr<runtime::Client> client,
                                         const StrategyOptions& options = {});

  runtime::Client& client() const { return *client_; }
  const std::shared_ptr<runtime::Client>& shared_client() const { return client_; }
  // Lowering of graphs for these devices.
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
