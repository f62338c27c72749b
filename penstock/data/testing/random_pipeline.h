// Random pipelines, each as a Dataset and as a program of the plain interpreter (plain_pipeline.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/testing/plain_pipeline.h"
#include "penstock/io/file_system.h"

namespace penstock::data::testing {

struct RandomPipeline {
  Dataset dataset;
  PlainStagePtr plain;
  bool is_finite = true;
  // The set of elements depends on the order in which they arrive.
  bool depends_on_order = false;
  bool is_batched = false;
  bool may_fail = false;
  // Size of the batches that machines share (HostShard); 0 if they cannot share them, or if the
  // shapes of their batches would differ.
  int64_t shared_batch = 0;
};

// Small files of all formats, in memory, used by every pipeline.
class RandomFiles {
 public:
  RandomFiles();

  struct Set {
    std::vector<std::string> names;
    std::vector<std::vector<int64_t>> values;  // one list per file
  };
  const std::shared_ptr<io::FileSystem>& file_system() const { return file_system_; }
  const std::vector<Set>& shards() const { return shards_; }
  const std::vector<Set>& csvs() const { return csvs_; }
  const std::string& npy() const { return npy_; }
  const std::vector<int64_t>& npy_values() const { return npy_values_; }

 private:
  std::shared_ptr<io::FileSystem> file_system_;
  std::vector<Set> shards_, csvs_;
  std::string npy_;
  std::vector<int64_t> npy_values_;
};

class RandomPipelines {
 public:
  // `folder`: for caches, a new one for each pipeline. `travels`: only stages that have a JSON form
  // (travel/dataset_json.h).
  RandomPipelines(const RandomFiles& files, std::string folder, uint64_t seed, bool travels = false)
      : files_(files),
        folder_(std::move(folder)),
        travels_(travels),
        random_(base::MixSeeds(seed, 99)) {}

  RandomPipeline Make();
  // Random numbers for the test's own choices.
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_.Below(static_cast<uint64_t>(n))); }
  bool OneIn(int64_t n) { return Below(n) == 0; }

 private:
  using Result = std::optional<RandomPipeline>;
  using Apply = Result (RandomPipelines::*)(const RandomPipeline& input);
  static const std::vector<Apply>& Stages();

  bool MayUse(const RandomPipeline& pipeline) const;
  RandomPipeline Tree(int64_t max_stages);
  RandomPipeline Source();
  RandomPipeline FromRange();
  RandomPipeline FromArrays();
  RandomPipeline FromGenerator();
  RandomPipeline FromRaggedGenerator();
  RandomPipeline FromTfRecords();
  RandomPipeline FromCsv();
  RandomPipeline FromNpy();
  RandomPipeline Random();

  // Add a stage. nullopt if the stage does not accept the input.
  Result Take(const RandomPipeline& input);
  Result Skip(const RandomPipeline& input);
  Result Shard(const RandomPipeline& input);
  Result Repeat(const RandomPipeline& input);
  Result Shuffle(const RandomPipeline& input);
  Result Batch(const RandomPipeline& input);
  Result PaddedBatch(const RandomPipeline& input);
  Result Unbatch(const RandomPipeline& input);
  Result Rebatch(const RandomPipeline& input);
  Result Window(const RandomPipeline& input);
  Result Affine(const RandomPipeline& input);
  Result ToScalar(const RandomPipeline& input);
  Result AddRagged(const RandomPipeline& input);
  Result FailSome(const RandomPipeline& input);
  Result Enumerate(const RandomPipeline& input);
  Result RandomSeed(const RandomPipeline& input);
  Result Scan(const RandomPipeline& input);
  Result Filter(const RandomPipeline& input);
  Result Cache(const RandomPipeline& input);
  Result Prefetch(const RandomPipeline& input);
  Result IgnoreErrors(const RandomPipeline& input);
  Result Interleave(const RandomPipeline& input);
  Result Zip(const RandomPipeline& input);
  Result Concatenate(const RandomPipeline& input);
  Result Sample(const RandomPipeline& input);

  RandomPipeline Scalar(const RandomPipeline& input);
  // The input and another pipeline with the same columns.
  std::pair<RandomPipeline, RandomPipeline> Pair(const RandomPipeline& input);
  std::string NewName(const char* prefix) { return prefix + std::to_string(names_++); }
  int64_t SeedOrNone() { return OneIn(2) ? Below(1000) : -1; }

  const RandomFiles& files_;
  const std::string folder_;
  const bool travels_;
  base::Random random_;
  int names_ = 0;
  bool is_inner_ = false;  // part of an Interleave
  bool lingers_ = false;   // user-defined functions are slow for some elements
};

}  // namespace penstock::data::testing
