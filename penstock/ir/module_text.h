// Programs that come as StableHLO text, from a SavedModel for example: the types of their
// arguments, and their specialization for arguments of static shapes.
//
//   absl::StatusOr<ModuleSignature> signature = ReadModuleSignature(text);  // f32[?,8], ...
//   absl::StatusOr<Program> program = SpecializeModule(text, /*batch=*/32);  // f32[32,8], ...
//
// The text is untrusted: what these functions do not recognize is an error. Everything else is left
// to the plugin that compiles it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/ir/stablehlo.h"

namespace penstock::ir {

// An argument or a result of the module's function `main`.
struct ModuleType {
  TensorType type;         // an unknown extent is -1
  std::string attributes;  // "{jax.global_constant = \"_platform_index\"}", or empty
};
struct ModuleSignature {
  std::vector<ModuleType> arguments, results;
};
absl::StatusOr<ModuleSignature> ReadModuleSignature(absl::string_view text);

// The module for a batch of this size, in place of the unknown extents ("?") of its tensors. In
// programs of this library a comment of the line, which the printer writes, lists those that are
// other multiples of the batch size; without the comment, each is the batch size. A module for
// which that is wrong does not compile, because its types contradict each other.
absl::StatusOr<Program> SpecializeModule(absl::string_view text, int64_t batch);

}  // namespace penstock::ir
