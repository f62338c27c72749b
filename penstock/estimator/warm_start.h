// WarmStartSettings: initial values of variables from another model's checkpoint
// (tf.estimator.WarmStartSettings). They count only when training begins: if model_dir has a
// checkpoint, that one is restored.
//
// Difference from TensorFlow 1.15: var_name_to_vocab_info is left out, so that an embedding whose
// vocabulary has changed is an error, because its shape has.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"

#include "penstock/base/array.h"
#include "penstock/io/file_system.h"
#include "penstock/session/session.h"

namespace penstock::estimator {

struct WarmStartSettings {
  WarmStartSettings() = default;
  // As in TensorFlow, a path alone stands for all trainable variables.
  WarmStartSettings(std::string path) : ckpt_to_initialize_from(std::move(path)) {}  // NOLINT
  WarmStartSettings(const char* path) : ckpt_to_initialize_from(path) {}             // NOLINT
  WarmStartSettings(std::string path, std::string vars,
                    std::map<std::string, std::string> names = {})
      : ckpt_to_initialize_from(std::move(path)),
        vars_to_warm_start(std::move(vars)),
        var_name_to_prev_var_name(std::move(names)) {}

  // A checkpoint, or a folder, of which the newest checkpoint counts.
  std::string ckpt_to_initialize_from;
  // Regular expression (ECMAScript) that matches the beginning of the names of the trainable
  // variables to initialize.
  std::string vars_to_warm_start = ".*";
  // Names in the checkpoint of variables that have another name there.
  std::map<std::string, std::string> var_name_to_prev_var_name = {};
};

// Sets the variables of a session; `fs` has the checkpoint. An error names a variable that the
// checkpoint lacks, or has with another shape; a pattern that matches no variable; a name in
// var_name_to_prev_var_name that is not a variable's.
absl::Status WarmStart(io::FileSystem& fs, session::Session& session,
                       const WarmStartSettings& settings);

}  // namespace penstock::estimator
