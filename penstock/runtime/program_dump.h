// ProgramDump: writes compiled programs into a folder, as text (HLO dump):
//
//   FOLDER/001-train_step.stablehlo.mlir      input of the compiler
//   FOLDER/001-train_step.optimized.hlo.txt   optimized HLO, if the plugin supports it
//   FOLDER/001-train_step.buffers.txt         buffer assignment, if the plugin supports it
//
// Programs are numbered in the order in which one client compiles them; files of an earlier run are
// overwritten.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/stablehlo.h"

namespace penstock::runtime {

// Thread-safe.
class ProgramDump {
 public:
  // Creates the folder. `requested`, else the environment variable PENSTOCK_DUMP_HLO; nullptr if
  // both are empty.
  static absl::StatusOr<std::unique_ptr<ProgramDump>> Open(const std::string& requested);

  // Files of one program.
  class Files {
   public:
    // XLA flags that make the compiler write its files, for this compile.
    std::vector<std::pair<std::string, std::string>> xla_flags() const;
    // Called after the compile, also if it failed: moves the files that XLA wrote, if any.
    absl::Status CollectOptimized() const;

   private:
    friend class ProgramDump;
    std::string path_;  // without the extensions
  };
  absl::StatusOr<Files> WriteText(const ir::Program& program);

 private:
  explicit ProgramDump(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
  std::atomic<int> count_{0};
};

}  // namespace penstock::runtime
