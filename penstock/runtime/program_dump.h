// What is compiled, written into a folder for people to read:
//
//   FOLDER/001-train_step.stablehlo.mlir      as it is given to the compiler
//   FOLDER/001-train_step.optimized.hlo.txt   as the compiler runs it, where the plugin writes that
//   FOLDER/001-train_step.buffers.txt         which values share which memory; the same
//
// Programs are numbered in the order in which one client compiles them; files of an earlier run are
// written over.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/ir/stablehlo.h"

namespace penstock::runtime {

// Any thread may use it.
class ProgramDump {
 public:
  // Makes the folder. `asked`, else the environment's PENSTOCK_DUMP_HLO; nullptr when both are
  // empty.
  static absl::StatusOr<std::unique_ptr<ProgramDump>> Open(const std::string& asked);

  // Of one program.
  class Files {
   public:
    // What makes XLA write its side, for this compile.
    std::vector<std::pair<std::string, std::string>> xla_flags() const;
    // After the compile, also one that failed: takes what XLA wrote, or nothing where it wrote
    // nothing.
    absl::Status TakeOptimized() const;

   private:
    friend class ProgramDump;
    std::string path_;  // without the endings
  };
  absl::StatusOr<Files> WriteText(const ir::Program& program);

 private:
  explicit ProgramDump(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
  std::atomic<int> count_{0};
};

}  // namespace penstock::runtime
