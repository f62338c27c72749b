// Reference interpreter of pipelines: one element at a time, in one thread, without blocks,
// prefetching or fused stages. random_pipelines_test.cc compares the engine's result of a Dataset
// with it. It implements only what determines values and order: the stages' numbers (each has its
// own seed), epochs, and which elements fail where.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/array.h"
#include "penstock/data/iterator.h"

namespace penstock::data::testing {

// An array of int64, or of uint32 (RandomSeed's).
struct PlainArray {
  std::vector<int64_t> shape = {};
  std::vector<int64_t> values = {};
};

// Failure of an element. Row stages run as late as possible, after stages that only select, which
// still see a movable failure as an element. A stage that counts rows (Enumerate) cannot move after
// others, and neither can the stages upstream of it.
enum class PlainFailure { kNone, kMovable, kFixed };

struct PlainElement {
  std::vector<std::pair<std::string, PlainArray>> columns = {};
  PlainFailure failure = PlainFailure::kNone;

  PlainArray& operator[](const std::string& name);  // adds a missing column
  int64_t value() const { return columns[0].second.values[0]; }
};

std::string Print(const PlainElement& element);
PlainElement ToPlain(const base::NamedArrays& arrays);
base::NamedArrays ToArrays(const PlainElement& element);  // int64
// Hash of all values of the array.
int64_t Sum(const PlainArray& array);
int64_t Sum(const PlainElement& element);

// kError is a recoverable error of one element, in its position; the next call continues after it.
enum class PlainPoll { kElement, kError, kEnd };
using PlainIterator = std::function<PlainPoll(PlainElement* element)>;

// Step limit for pipelines that search for an element indefinitely. Beyond it every stage returns
// kEnd.
struct PlainLimit {
  int64_t steps_left = 0;  // calls of iterators
};

// One pass of a stage.
struct PlainPass {
  uint64_t seed = 0;  // seed of this stage
  int64_t epoch = 0;
  HostShard host = {};  // for the stage that makes the shared batches
  std::function<PlainIterator(int input, int64_t epoch)> input = {};
  std::shared_ptr<PlainLimit> limit = {};
};

struct PlainStage;
using PlainStagePtr = std::shared_ptr<const PlainStage>;
struct PlainStage {
  std::vector<PlainStagePtr> inputs = {};
  std::function<PlainIterator(const PlainPass& pass)> make = {};
  int stages = 1;  // number of stages in the Dataset that it corresponds to
  bool makes_shared_batches = false;
};

PlainIterator Start(const PlainStagePtr& stage, uint64_t seed, int64_t epoch, const HostShard& host,
                    std::shared_ptr<PlainLimit> limit);

// ---- Sources ----

PlainStagePtr PlainSource(std::function<std::vector<PlainElement>(const PlainPass& pass)> elements,
                          int stages = 1);
PlainStagePtr PlainRandom();
struct PlainFileInterleave {
  int64_t cycle_length = 8;
  int64_t block_length = 1;
  bool shuffle_files = false;
};
// The values of interleaved files.
PlainStagePtr PlainFiles(std::vector<std::vector<int64_t>> files, PlainFileInterleave interleave);
PlainStagePtr PlainGlobalShuffle(std::vector<int64_t> values);

// ---- Row stages ----

// Returns false if the element fails.
using PlainFunction = std::function<bool(PlainElement* element)>;
PlainStagePtr PlainMap(PlainStagePtr input, PlainFunction function);
PlainStagePtr PlainEnumerate(PlainStagePtr input, std::string column, int64_t start);
// seed < 0: the seed of the stage.
PlainStagePtr PlainRandomSeed(PlainStagePtr input, std::string column, int64_t seed);

// ---- Stages that only select ----

PlainStagePtr PlainTake(PlainStagePtr input, int64_t count);
PlainStagePtr PlainSkip(PlainStagePtr input, int64_t count);
PlainStagePtr PlainShard(PlainStagePtr input, int64_t count, int64_t index);
PlainStagePtr PlainRepeat(PlainStagePtr input, int64_t count);
PlainStagePtr PlainShuffle(PlainStagePtr input, int64_t buffer, int64_t seed, bool reshuffle);

// ---- Others ----

struct PlainBatching {
  int64_t size = 1;
  bool drop_remainder = false;
  bool pads = false;
  int64_t padding = 0;
  std::set<std::string> ragged = {};
};
PlainStagePtr PlainBatch(PlainStagePtr input, PlainBatching batching);
PlainStagePtr PlainUnbatch(PlainStagePtr input);
PlainStagePtr PlainWindow(PlainStagePtr input, int64_t size, int64_t shift, int64_t stride,
                          bool drop_remainder);
PlainStagePtr PlainFilter(PlainStagePtr input, std::function<bool(const PlainElement&)> keep);
// `step` changes the state and the element; if it returns false, the element fails and the state is
// unchanged.
PlainStagePtr PlainScan(PlainStagePtr input, int64_t state,
                        std::function<bool(int64_t* state, PlainElement* element)> step);
PlainStagePtr PlainCache(PlainStagePtr input);
PlainStagePtr PlainPrefetch(PlainStagePtr input);
PlainStagePtr PlainIgnoreErrors(PlainStagePtr input);
PlainStagePtr PlainConcatenate(PlainStagePtr a, PlainStagePtr b);
PlainStagePtr PlainZip(std::vector<PlainStagePtr> inputs, std::vector<std::string> prefixes);
PlainStagePtr PlainSample(std::vector<PlainStagePtr> inputs, std::vector<double> weights,
                          int64_t seed, bool stop_on_empty);
// `inner` makes the pipeline for an element.
PlainStagePtr PlainInterleave(PlainStagePtr input,
                              std::function<PlainStagePtr(const PlainElement&)> inner,
                              int64_t cycle_length, int64_t block_length);

}  // namespace penstock::data::testing
