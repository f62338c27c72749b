// Weights that PyTorch saved, for the networks of this room: detects from the names in a file which
// library they belong to, and converts them to the names and layouts of this room.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const MatchedWeights weights, MatchWeights(network, arrays_of_file));
//   if (!weights.complete()) return absl::InvalidArgumentError(weights.ToString());
//   PENSTOCK_RETURN_IF_ERROR(model.SetWeights(weights.arrays));
//
// keras::Model::LoadWeights does so. The names of a family's layers are in a table beside its
// networks (torch_layout.h). PyTorch's num_batches_tracked has no counterpart here and is ignored.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/nn/network.h"

namespace penstock::models {

// Arrays of a file, matched with the variables of a network.
struct MatchedWeights {
  // Layout of the file's names: "torchvision", "timm", or another layout of the tables; "Keras":
  // the network's own names.
  std::string layout = "";
  base::NamedArrays arrays = {};  // those that fit, by the network's names and in its layouts
  // The others: of another shape, by the network's names; without a variable, by the file's.
  base::NamedArrays others = {};

  std::vector<std::string> missing = {};     // variables without an array
  std::vector<std::string> unused = {};      // arrays without a variable
  std::vector<std::string> mismatched = {};  // variables with an array of another shape, with both
  std::string likely_cause = "";             // of the differences; may be empty

  bool is_torch() const { return layout != "Keras"; }
  bool complete() const { return missing.empty() && unused.empty() && mismatched.empty(); }
  // Report of matches and differences, at most twenty lines.
  std::string ToString() const;
};

// Matches the arrays with the network's variables, by the names of the layout that fits best. The
// network may contain a network of this room as a layer; its variables then have the names
// "<layer>/...". PyTorch's names may have a common prefix ("module." of DataParallel,
// "state_dict/model."); arrays without this prefix are ignored. FAILED_PRECONDITION if the file's
// weights fit the network but PyTorch's network computes something else
// (TorchLayout::required_layer); the error names the networks that compute the same.
absl::StatusOr<MatchedWeights> MatchWeights(const nn::Network& network,
                                            const base::NamedArrays& arrays);

// The network's weights with PyTorch's names and layouts, of the first layout of its family, or of
// the one called `layout`. They do not include num_batches_tracked, which
// torch.nn.Module.load_state_dict does not need.
absl::StatusOr<base::NamedArrays> ToTorch(const nn::Network& network,
                                          const base::NamedArrays& weights,
                                          absl::string_view layout = "");

}  // namespace penstock::models
