// Plan: how a dataset is run. It is the description with one thing changed: stages that make one
// element of each (ParseExample, DecodeImage, Map) are done as late as can be without changing the
// result. They move behind stages that only select (Shuffle, Repeat, Take, Skip), whose buffers
// then hold small encoded elements and which then pass over elements without computing them; and
// into the Batch that follows, which lets them write straight into its memory. Cache, Prefetch and
// the end of the pipeline stop them. Those that draw random numbers (DecodeImage with random_crop)
// move like others: they draw them for the row's number in the place where they end up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/data/stage.h"

namespace penstock::data {

class Plan {
 public:
  static absl::StatusOr<std::unique_ptr<Plan>> Make(const Dataset::Description& description,
                                                    uint64_t seed, const LookUpContext& look_up);
  ~Plan();

  // An account for each step. Before MakeRoot, but for a plan whose nodes are charged to one.
  void OpenAccounts(MemoryBudget& budget);
  // What the stages do is traced there; before MakeRoot. May be null.
  void TraceTo(base::Trace* trace);
  // Nodes for one pass; the plan and the engine outlive them. `one_account`: of all steps, which
  // are then not tuned. ResourceExhausted when it is known already that the memory will not
  // suffice.
  absl::StatusOr<std::unique_ptr<Node>> MakeRoot(Engine& engine, int64_t epoch,
                                                 MemoryAccount* one_account = nullptr) const;

  // What its sources found when they looked (Stage::Found).
  const std::string& found() const { return found_; }
  int64_t io_threads() const;
  std::vector<StageStats> Stats() const;
  std::string ToString() const;

 private:
  struct Step;
  struct SeededRowStage;
  using RowStages = std::vector<SeededRowStage>;
  struct Unfinished;
  Plan(uint64_t seed, const LookUpContext& look_up);

  absl::StatusOr<Unfinished> Build(const Dataset::Description& description);
  absl::StatusOr<std::unique_ptr<Step>> Finish(Unfinished unfinished);
  absl::Status MakeChain(const RowStages& row_stages, Step& step);
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const Step& step, Engine& engine, int64_t epoch,
                                                 MemoryAccount* one_account) const;

  const uint64_t seed_;
  const LookUpContext look_up_;
  int num_stages_ = 0;
  std::string found_;
  std::unique_ptr<Step> root_;
};

}  // namespace penstock::data
