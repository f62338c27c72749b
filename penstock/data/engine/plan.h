// PipelinePlan: the execution plan of a dataset. It is the description with one rewrite: row
// stages, which map one element to one (ParseExample, DecodeImage, Map), run as late as possible
// without changing the result. They move after stages that only select (Shuffle, Repeat, Take,
// Skip), whose buffers then hold small encoded elements and which then skip elements without
// computing them; and they are fused into the Batch that follows, so that they write straight into
// its memory. Cache, Prefetch and the end of the pipeline stop them. Row stages that draw random
// numbers (DecodeImage with random_crop) move like others: they draw them for the row's index at
// the node where they end up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/data/stage.h"

namespace penstock::data {

class PipelinePlan {
 public:
  static absl::StatusOr<std::unique_ptr<PipelinePlan>> Make(const Dataset::Description& description,
                                                            uint64_t seed,
                                                            const ResolveContext& resolve_context);
  ~PipelinePlan();

  // Opens a memory account for each planned stage. Called before MakeRoot, unless all nodes share
  // one account.
  void OpenAccounts(MemoryBudget& budget);
  // Enables tracing. Called before MakeRoot; `trace` may be null.
  void TraceTo(base::Trace* trace);
  // Makes the nodes for one pass; the plan and the engine must outlive them. `one_account`: the
  // account of all planned stages, which are then not tuned. ResourceExhausted if it is already
  // known that the memory budget will not suffice.
  absl::StatusOr<std::unique_ptr<Node>> MakeRoot(Engine& engine, int64_t epoch,
                                                 MemoryAccount* one_account = nullptr) const;

  // What its sources found when they were resolved (Stage::ResolvedSources).
  const std::string& resolved_sources() const { return resolved_sources_; }
  int64_t io_threads() const;
  std::vector<StageStats> Stats() const;
  std::string ToString() const;

 private:
  struct PlannedStage;
  struct SeededRowStage;
  using RowStages = std::vector<SeededRowStage>;
  struct Unfinished;
  PipelinePlan(uint64_t seed, const ResolveContext& resolve_context);

  absl::StatusOr<Unfinished> Build(const Dataset::Description& description);
  absl::StatusOr<std::unique_ptr<PlannedStage>> Finish(Unfinished unfinished);
  absl::Status FuseKernels(const RowStages& row_stages, PlannedStage& planned);
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const PlannedStage& planned, Engine& engine,
                                                 int64_t epoch, MemoryAccount* one_account) const;

  const uint64_t seed_;
  const ResolveContext resolve_context_;
  int64_t num_stages_ = 0;
  std::string resolved_sources_;
  std::unique_ptr<PlannedStage> root_;
};

}  // namespace penstock::data
