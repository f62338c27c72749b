#include "penstock/data/testing/plain_pipeline.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/permutation.h"
#include "penstock/base/random.h"
#include "penstock/base/status.h"

namespace penstock::data::testing {
namespace {

using base::MixSeeds;

constexpr char kRowSplits[] = "/row_splits";

int NumStages(const PlainStage& stage) {
  int stages = stage.stages;
  for (const PlainStagePtr& input : stage.inputs) stages += NumStages(*input);
  return stages;
}

PlainIterator StartAt(const PlainStagePtr& stage, int first_stage, uint64_t seed, int64_t epoch,
                      const HostShard& host, const std::shared_ptr<PlainLimit>& limit) {
  std::vector<int> first_of_input;
  int number = first_stage;
  for (const PlainStagePtr& input : stage->inputs) {
    first_of_input.push_back(number);
    number += NumStages(*input);
  }
  const HostShard of_inputs = stage->makes_shared_batches ? HostShard{} : host;
  PlainIterator iterator =
      stage->make({.seed = MixSeeds(seed, static_cast<uint64_t>(number)),
                   .epoch = epoch,
                   .host = stage->makes_shared_batches ? host : HostShard{},
                   .input =
                       [=](int input, int64_t input_epoch) {
                         return StartAt(stage->inputs[input], first_of_input[input], seed,
                                        input_epoch, of_inputs, limit);
                       },
                   .limit = limit});
  return [limit, iterator = std::move(iterator)](PlainElement* element) {
    return limit->steps_left-- > 0 ? iterator(element) : PlainPoll::kEnd;
  };
}

PlainStagePtr Make(std::vector<PlainStagePtr> inputs,
                   std::function<PlainIterator(const PlainPass&)> make) {
  return std::make_shared<PlainStage>(
      PlainStage{.inputs = std::move(inputs), .make = std::move(make)});
}

// Input of a stage: elements that failed at `least` or more severely are errors.
PlainIterator FailFrom(PlainIterator input, PlainFailure least) {
  return [=](PlainElement* element) {
    const PlainPoll poll = input(element);
    const bool fails = poll == PlainPoll::kElement && element->failure >= least;
    return fails ? PlainPoll::kError : poll;
  };
}
// Input of a stage that only selects: row stages before it may run after it.
PlainIterator SelectsFrom(const PlainPass& pass) {
  return FailFrom(pass.input(0, pass.epoch), PlainFailure::kFixed);
}
// Input of any other stage: row stages run before it.
PlainIterator ReadsFrom(const PlainPass& pass, int input = 0) {
  return FailFrom(pass.input(input, pass.epoch), PlainFailure::kMovable);
}

// State shared by the copies of an iterator.
template <typename T>
std::shared_ptr<T> Shared(T state) {
  return std::make_shared<T>(std::move(state));
}

int64_t NumElements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Index in an array of shape `larger` of the element at `index` of an array of `shape`.
int64_t IndexIn(int64_t index, const std::vector<int64_t>& shape,
                const std::vector<int64_t>& larger) {
  int64_t at = 0, stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    at += index % shape[d] * stride;
    index /= shape[d];
    stride *= larger[d];
  }
  return at;
}

PlainArray Stack(const std::vector<const PlainArray*>& rows, bool pads, int64_t padding) {
  PlainArray out = {.shape = rows[0]->shape};
  for (const PlainArray* row : rows) {
    PENSTOCK_CHECK(pads || row->shape == out.shape);
    for (size_t d = 0; d < out.shape.size(); ++d) {
      out.shape[d] = std::max(out.shape[d], row->shape[d]);
    }
  }
  const std::vector<int64_t> row_shape = out.shape;
  const int64_t row_elements = NumElements(row_shape);
  out.values.assign(row_elements * rows.size(), padding);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < rows[r]->values.size(); ++i) {
      const int64_t at = IndexIn(static_cast<int64_t>(i), rows[r]->shape, row_shape);
      out.values[r * row_elements + at] = rows[r]->values[i];
    }
  }
  out.shape.insert(out.shape.begin(), static_cast<int64_t>(rows.size()));
  return out;
}

void AddRagged(const std::string& name, const std::vector<const PlainArray*>& rows,
               PlainElement* out) {
  PlainArray values = {.shape = rows[0]->shape}, splits = {.values = {0}};
  values.shape[0] = 0;
  for (const PlainArray* row : rows) {
    values.shape[0] += row->shape[0];
    splits.values.push_back(values.shape[0]);
    values.values.insert(values.values.end(), row->values.begin(), row->values.end());
  }
  splits.shape = {static_cast<int64_t>(splits.values.size())};
  (*out)[name] = values;
  (*out)[name + kRowSplits] = splits;
}

// kError if one of the rows has failed.
PlainPoll StackElements(const std::vector<PlainElement>& rows, const PlainBatching& batching,
                        PlainElement* out) {
  *out = {};
  for (const PlainElement& row : rows) {
    if (row.failure != PlainFailure::kNone) return PlainPoll::kError;
  }
  for (size_t c = 0; c < rows[0].columns.size(); ++c) {
    std::vector<const PlainArray*> column;
    for (const PlainElement& row : rows) column.push_back(&row.columns[c].second);
    const std::string& name = rows[0].columns[c].first;
    if (batching.ragged.count(name) > 0) {
      AddRagged(name, column, out);
    } else {
      (*out)[name] = Stack(column, batching.pads, batching.padding);
    }
  }
  return PlainPoll::kElement;
}

PlainArray RowsOf(const PlainArray& array, int64_t begin, int64_t end, bool keeps_axis) {
  PlainArray out = {.shape = std::vector<int64_t>(array.shape.begin() + 1, array.shape.end())};
  const int64_t row = NumElements(out.shape);
  if (keeps_axis) out.shape.insert(out.shape.begin(), end - begin);
  out.values.assign(array.values.begin() + begin * row, array.values.begin() + end * row);
  return out;
}

std::vector<PlainElement> RowsOf(PlainElement batch) {
  std::vector<PlainElement> rows;
  const std::vector<std::pair<std::string, PlainArray>> columns = batch.columns;
  const auto splits_of = [&](const std::string& name) -> const PlainArray* {
    for (const auto& [other, array] : columns) {
      if (other == name + kRowSplits) return &array;
    }
    return nullptr;
  };
  for (const auto& [name, array] : columns) {
    const std::string base = name.substr(0, name.rfind('/'));
    if (absl::EndsWith(name, kRowSplits) &&
        std::any_of(columns.begin(), columns.end(),
                    [&](const auto& column) { return column.first == base; })) {
      continue;
    }
    const PlainArray* splits = splits_of(name);
    const auto count =
        splits != nullptr ? splits->values.size() - 1 : static_cast<size_t>(array.shape[0]);
    rows.resize(std::max(rows.size(), count));
    for (size_t i = 0; i < count; ++i) {
      const auto at = static_cast<int64_t>(i);
      rows[i][name] = splits != nullptr
                          ? RowsOf(array, splits->values[i], splits->values[i + 1], true)
                          : RowsOf(array, at, at + 1, false);
    }
  }
  return rows;
}

}  // namespace

// ---- Elements ----

PlainArray& PlainElement::operator[](const std::string& name) {
  for (auto& [other, array] : columns) {
    if (other == name) return array;
  }
  columns.emplace_back(name, PlainArray());
  return columns.back().second;
}

std::string Print(const PlainElement& element) {
  std::string out;
  for (const auto& [name, array] : element.columns) {
    absl::StrAppend(&out, name, "[", absl::StrJoin(array.shape, ","), "]={",
                    absl::StrJoin(array.values, " "), "} ");
  }
  return out;
}

PlainElement ToPlain(const base::NamedArrays& arrays) {
  PlainElement out;
  for (const auto& [name, array] : arrays) {
    PlainArray& to = out[name];
    to.shape.assign(array.shape().begin(), array.shape().end());
    if (array.dtype() == base::DType::kU32) {
      for (uint32_t value : array.values<uint32_t>()) to.values.push_back(value);
    } else {
      for (int64_t value : array.values<int64_t>()) to.values.push_back(value);
    }
  }
  return out;
}

base::NamedArrays ToArrays(const PlainElement& element) {
  base::NamedArrays out;
  for (const auto& [name, array] : element.columns) {
    out.Set(name, base::Array::Of<int64_t>(base::Shape(array.shape), array.values));
  }
  return out;
}

int64_t Sum(const PlainArray& array) {
  uint64_t sum = 1000 * array.values.size();
  for (int64_t value : array.values) sum = sum * 3 + static_cast<uint64_t>(value);
  return static_cast<int64_t>(sum % 10007);
}

int64_t Sum(const PlainElement& element) {
  uint64_t sum = 0;
  for (const auto& [name, array] : element.columns) {
    sum = sum * 5 + static_cast<uint64_t>(Sum(array));
  }
  return static_cast<int64_t>(sum % 10007);
}

PlainIterator Start(const PlainStagePtr& stage, uint64_t seed, int64_t epoch, const HostShard& host,
                    std::shared_ptr<PlainLimit> limit) {
  return FailFrom(StartAt(stage, 0, seed, epoch, host, limit), PlainFailure::kMovable);
}

// ---- Sources ----

PlainStagePtr PlainSource(std::function<std::vector<PlainElement>(const PlainPass& pass)> elements,
                          int stages) {
  return std::make_shared<PlainStage>(
      PlainStage{.make = [=](const PlainPass& pass) -> PlainIterator {
                   return [all = elements(pass), next = Shared(size_t{0})](PlainElement* element) {
                     if (*next == all.size()) return PlainPoll::kEnd;
                     *element = all[(*next)++];
                     return PlainPoll::kElement;
                   };
                 },
                 .stages = stages});
}

PlainStagePtr PlainRandom() {
  return Make({}, [](const PlainPass& pass) -> PlainIterator {
    const uint64_t seed = MixSeeds(pass.seed, static_cast<uint64_t>(pass.epoch));
    return [=, next = Shared(uint64_t{0})](PlainElement* element) {
      *element = {};
      (*element)["value"].values = {static_cast<int64_t>(MixSeeds(seed, (*next)++))};
      return PlainPoll::kElement;
    };
  });
}

namespace {

std::vector<PlainElement> Scalars(const std::vector<int64_t>& values) {
  std::vector<PlainElement> out(values.size());
  for (size_t i = 0; i < values.size(); ++i) out[i]["value"].values = {values[i]};
  return out;
}

// tf.data's interleave: block_length elements of each slot in turn; when a file ends, the next file
// takes its slot, and the turn passes to the next slot.
std::vector<int64_t> InterleaveFiles(const std::vector<std::vector<int64_t>>& files,
                                     const PlainFileInterleave& interleave) {
  struct Slot {
    const std::vector<int64_t>* file;
    size_t next = 0;
  };
  std::vector<Slot> slots;
  size_t next_file = 0;
  while (next_file < files.size() && static_cast<int64_t>(slots.size()) < interleave.cycle_length) {
    slots.push_back({&files[next_file++]});
  }
  std::vector<int64_t> out;
  size_t turn = 0;
  while (!slots.empty()) {
    Slot& slot = slots[turn];
    int64_t left = interleave.block_length;
    for (; left > 0 && slot.next < slot.file->size(); --left) {
      out.push_back((*slot.file)[slot.next++]);
    }
    if (left == 0 || next_file < files.size()) {
      if (left > 0) slot = {&files[next_file++]};
      ++turn;
    } else {
      slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(turn));
    }
    if (turn >= slots.size()) turn = 0;
  }
  return out;
}

}  // namespace

PlainStagePtr PlainFiles(std::vector<std::vector<int64_t>> files, PlainFileInterleave interleave) {
  return PlainSource(
      [=](const PlainPass& pass) {
        std::vector<std::vector<int64_t>> ordered = files;
        if (interleave.shuffle_files) {
          base::Random random(MixSeeds(pass.seed, static_cast<uint64_t>(pass.epoch)));
          for (size_t i = ordered.size(); i > 1; --i) {
            std::swap(ordered[i - 1], ordered[random.Below(i)]);
          }
        }
        return Scalars(InterleaveFiles(ordered, interleave));
      },
      2);
}

PlainStagePtr PlainGlobalShuffle(std::vector<int64_t> values) {
  return PlainSource(
      [=](const PlainPass& pass) {
        const base::IndexPermutation order(values.size(),
                                           MixSeeds(pass.seed, static_cast<uint64_t>(pass.epoch)));
        std::vector<int64_t> shuffled;
        for (size_t i = 0; i < values.size(); ++i) shuffled.push_back(values[order(i)]);
        return Scalars(shuffled);
      },
      2);
}

// ---- Row stages ----

PlainStagePtr PlainMap(PlainStagePtr input, PlainFunction function) {
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    return [=, in = pass.input(0, pass.epoch)](PlainElement* element) {
      const PlainPoll poll = in(element);
      if (poll == PlainPoll::kElement && element->failure == PlainFailure::kNone &&
          !function(element)) {
        element->failure = PlainFailure::kMovable;
      }
      return poll;
    };
  });
}

namespace {

// Adds a column with a function of the element's number in the pass.
PlainStagePtr Counting(PlainStagePtr input,
                       std::function<void(const PlainPass&, int64_t number, PlainElement*)> add) {
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    return [=, in = pass.input(0, pass.epoch), next = Shared(int64_t{0})](PlainElement* element) {
      const PlainPoll poll = in(element);
      const int64_t number = (*next)++;
      if (poll != PlainPoll::kElement) return poll;
      if (element->failure == PlainFailure::kNone) add(pass, number, element);
      if (element->failure == PlainFailure::kMovable) element->failure = PlainFailure::kFixed;
      return poll;
    };
  });
}

}  // namespace

PlainStagePtr PlainEnumerate(PlainStagePtr input, std::string column, int64_t start) {
  return Counting(std::move(input), [=](const PlainPass&, int64_t number, PlainElement* element) {
    (*element)[column].values = {start + number};
  });
}

PlainStagePtr PlainRandomSeed(PlainStagePtr input, std::string column, int64_t seed) {
  return Counting(std::move(input), [=](const PlainPass& pass, int64_t number,
                                        PlainElement* element) {
    const uint64_t own = seed < 0 ? pass.seed : static_cast<uint64_t>(seed);
    const uint64_t mixed =
        MixSeeds(MixSeeds(own, static_cast<uint64_t>(pass.epoch)), static_cast<uint64_t>(number));
    (*element)[column] = {
        .shape = {2},
        .values = {static_cast<int64_t>(mixed >> 32), static_cast<int64_t>(mixed & 0xffffffff)}};
  });
}

// ---- Stages that only select ----

PlainStagePtr PlainTake(PlainStagePtr input, int64_t count) {
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    return [in = SelectsFrom(pass), left = Shared(count)](PlainElement* element) {
      if (*left == 0) return PlainPoll::kEnd;
      --*left;
      return in(element);
    };
  });
}

PlainStagePtr PlainSkip(PlainStagePtr input, int64_t count) {
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    return [in = SelectsFrom(pass), left = Shared(count)](PlainElement* element) {
      for (;; --*left) {
        const PlainPoll poll = in(element);
        if (*left == 0 || poll == PlainPoll::kEnd) return poll;
      }
    };
  });
}

PlainStagePtr PlainShard(PlainStagePtr input, int64_t count, int64_t index) {
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    return [=, in = SelectsFrom(pass), others = Shared(index)](PlainElement* element) {
      for (;; --*others) {
        const PlainPoll poll = in(element);
        if (poll == PlainPoll::kEnd) return poll;
        if (*others > 0) continue;
        *others = count - 1;
        return poll;
      }
    };
  });
}

PlainStagePtr PlainRepeat(PlainStagePtr input, int64_t count) {
  struct State {
    PlainIterator round = nullptr;
    int64_t next_round = 0;
    bool gave_some = true;
  };
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    return [=, state = Shared(State())](PlainElement* element) {
      for (;;) {
        if (state->round == nullptr) {
          const bool ends = count < 0 ? !state->gave_some : state->next_round == count;
          if (ends) return PlainPoll::kEnd;
          const int64_t first = count < 0 ? pass.epoch : pass.epoch * count;
          state->round = FailFrom(pass.input(0, first + state->next_round++), PlainFailure::kFixed);
          state->gave_some = false;
        }
        const PlainPoll poll = state->round(element);
        if (poll != PlainPoll::kEnd) {
          state->gave_some = true;
          return poll;
        }
        state->round = nullptr;
      }
    };
  });
}

PlainStagePtr PlainShuffle(PlainStagePtr input, int64_t buffer, int64_t seed, bool reshuffle) {
  struct State {
    base::Random random;
    std::vector<PlainElement> buffer = {};
    bool ended = false;
  };
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    const uint64_t own = seed < 0 ? pass.seed : static_cast<uint64_t>(seed);
    const uint64_t epoch = reshuffle ? static_cast<uint64_t>(pass.epoch) : 0;
    return [=, in = SelectsFrom(pass),
            state = Shared(State{base::Random(MixSeeds(own, epoch))})](PlainElement* element) {
      std::vector<PlainElement>& waiting = state->buffer;
      while (!state->ended) {
        PlainElement next;
        const PlainPoll poll = in(&next);
        if (poll == PlainPoll::kError) return poll;
        state->ended = poll == PlainPoll::kEnd;
        if (state->ended) break;
        if (static_cast<int64_t>(waiting.size()) < buffer) {
          waiting.push_back(next);
          continue;
        }
        *element = std::exchange(waiting[state->random.Below(waiting.size())], next);
        return PlainPoll::kElement;
      }
      if (waiting.empty()) return PlainPoll::kEnd;
      const size_t drawn = state->random.Below(waiting.size());
      *element = std::exchange(waiting[drawn], waiting.back());
      waiting.pop_back();
      return PlainPoll::kElement;
    };
  });
}

// ---- Batches ----

PlainStagePtr PlainBatch(PlainStagePtr input, PlainBatching batching) {
  struct State {
    std::vector<PlainElement> rows = {};
    bool ended = false;
  };
  auto make = [=](const PlainPass& pass) -> PlainIterator {
    return [=, in = pass.input(0, pass.epoch), state = Shared(State())](PlainElement* element) {
      while (!state->ended && static_cast<int64_t>(state->rows.size()) < batching.size) {
        PlainElement row;
        const PlainPoll poll = in(&row);
        if (poll == PlainPoll::kError) row.failure = PlainFailure::kFixed;
        state->ended = poll == PlainPoll::kEnd;
        if (!state->ended) state->rows.push_back(row);
      }
      std::vector<PlainElement> rows = std::exchange(state->rows, {});
      const auto size = static_cast<int64_t>(rows.size());
      if (rows.empty() || size < pass.host.count) return PlainPoll::kEnd;
      if (batching.drop_remainder && size < batching.size) return PlainPoll::kEnd;
      const auto [begin, end] = pass.host.RowsOf(size);
      return StackElements({rows.begin() + begin, rows.begin() + end}, batching, element);
    };
  };
  return std::make_shared<PlainStage>(PlainStage{
      .inputs = {std::move(input)}, .make = std::move(make), .makes_shared_batches = true});
}

PlainStagePtr PlainUnbatch(PlainStagePtr input) {
  return Make({std::move(input)}, [](const PlainPass& pass) -> PlainIterator {
    return
        [in = ReadsFrom(pass), rows = Shared(std::deque<PlainElement>())](PlainElement* element) {
          while (rows->empty()) {
            PlainElement batch;
            const PlainPoll poll = in(&batch);
            if (poll != PlainPoll::kElement) return poll;
            const std::vector<PlainElement> all = RowsOf(batch);
            rows->assign(all.begin(), all.end());
          }
          *element = rows->front();
          rows->pop_front();
          return PlainPoll::kElement;
        };
  });
}

PlainStagePtr PlainWindow(PlainStagePtr input, int64_t size, int64_t shift, int64_t stride,
                          bool drop_remainder) {
  struct State {
    std::deque<PlainElement> ahead = {};
    int64_t to_skip = 0;
    bool ended = false;
  };
  const int64_t span = (size - 1) * stride + 1;
  auto make = [=](const PlainPass& pass) -> PlainIterator {
    // Windows that overlap compute their elements first.
    const PlainIterator in = shift >= span ? SelectsFrom(pass) : ReadsFrom(pass);
    return [=, state = Shared(State())](PlainElement* element) {
      std::deque<PlainElement>& ahead = state->ahead;
      for (; state->to_skip > 0 && !ahead.empty(); --state->to_skip) ahead.pop_front();
      while (!state->ended && (state->to_skip > 0 || static_cast<int64_t>(ahead.size()) < span)) {
        PlainElement next;
        const PlainPoll poll = in(&next);
        if (poll == PlainPoll::kError) next.failure = PlainFailure::kFixed;
        state->ended = poll == PlainPoll::kEnd;
        if (state->ended) break;
        if (state->to_skip > 0) {
          --state->to_skip;
        } else {
          ahead.push_back(next);
        }
      }
      const bool is_short = static_cast<int64_t>(ahead.size()) < span;
      if (ahead.empty() || (drop_remainder && is_short)) return PlainPoll::kEnd;
      std::vector<PlainElement> rows;
      for (size_t i = 0; i < ahead.size(); i += static_cast<size_t>(stride)) {
        rows.push_back(ahead[i]);
      }
      state->to_skip = shift;
      return StackElements(rows, {}, element);
    };
  };
  return std::make_shared<PlainStage>(
      PlainStage{.inputs = {std::move(input)}, .make = std::move(make), .stages = 2});
}

// ---- Others of one input ----

PlainStagePtr PlainFilter(PlainStagePtr input, std::function<bool(const PlainElement&)> keep) {
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    return [=, in = ReadsFrom(pass)](PlainElement* element) {
      for (;;) {
        const PlainPoll poll = in(element);
        if (poll != PlainPoll::kElement || keep(*element)) return poll;
      }
    };
  });
}

PlainStagePtr PlainScan(PlainStagePtr input, int64_t state,
                        std::function<bool(int64_t* state, PlainElement* element)> step) {
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    return [=, in = ReadsFrom(pass), now = Shared(state)](PlainElement* element) {
      const PlainPoll poll = in(element);
      if (poll != PlainPoll::kElement) return poll;
      int64_t next = *now;
      if (!step(&next, element)) return PlainPoll::kError;
      *now = next;
      return poll;
    };
  });
}

PlainStagePtr PlainCache(PlainStagePtr input) {
  return Make({std::move(input)}, [](const PlainPass& pass) {
    return FailFrom(pass.input(0, 0), PlainFailure::kMovable);  // the cache holds the first epoch
  });
}

PlainStagePtr PlainPrefetch(PlainStagePtr input) {
  return Make({std::move(input)}, [](const PlainPass& pass) { return ReadsFrom(pass); });
}

PlainStagePtr PlainIgnoreErrors(PlainStagePtr input) {
  return Make({std::move(input)}, [](const PlainPass& pass) -> PlainIterator {
    return [in = ReadsFrom(pass)](PlainElement* element) {
      for (;;) {
        const PlainPoll poll = in(element);
        if (poll != PlainPoll::kError) return poll;
      }
    };
  });
}

// ---- Several inputs ----

PlainStagePtr PlainConcatenate(PlainStagePtr a, PlainStagePtr b) {
  return Make({std::move(a), std::move(b)}, [](const PlainPass& pass) -> PlainIterator {
    return [=, in = Shared(ReadsFrom(pass, 0)), second = Shared(false)](PlainElement* element) {
      const PlainPoll poll = (*in)(element);
      if (poll != PlainPoll::kEnd || *second) return poll;
      *second = true;
      *in = ReadsFrom(pass, 1);
      return (*in)(element);
    };
  });
}

PlainStagePtr PlainZip(std::vector<PlainStagePtr> inputs, std::vector<std::string> prefixes) {
  const int count = static_cast<int>(inputs.size());
  return Make(std::move(inputs), [=](const PlainPass& pass) -> PlainIterator {
    std::vector<PlainIterator> ins;
    for (int i = 0; i < count; ++i) ins.push_back(ReadsFrom(pass, i));
    return [=, ended = Shared(false)](PlainElement* element) {
      if (*ended) return PlainPoll::kEnd;
      *element = {};
      bool fails = false;
      for (int i = 0; i < count; ++i) {
        PlainElement part;
        const PlainPoll poll = ins[i](&part);
        fails |= poll == PlainPoll::kError;  // the other inputs' elements are dropped with it
        *ended |= poll == PlainPoll::kEnd;
        if (*ended) break;
        for (const auto& [name, array] : part.columns) {
          (*element)[absl::StrCat(prefixes[i], "/", name)] = array;
        }
      }
      if (fails) return PlainPoll::kError;
      return *ended ? PlainPoll::kEnd : PlainPoll::kElement;
    };
  });
}

PlainStagePtr PlainSample(std::vector<PlainStagePtr> inputs, std::vector<double> weights,
                          int64_t seed, bool stop_on_empty) {
  struct State {
    base::Random random;
    std::vector<double> weights;
    std::optional<size_t> drawn = {};
    bool ended = false;

    bool Draw() {
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      double at = random.Uniform() * sum;
      for (size_t i = 0; i < weights.size() && at >= 0; ++i) {
        if (weights[i] == 0) continue;
        drawn = i;
        at -= weights[i];
      }
      return drawn.has_value();
    }
  };
  const size_t count = inputs.size();
  if (weights.empty()) weights.assign(count, 1.0);
  return Make(std::move(inputs), [=](const PlainPass& pass) -> PlainIterator {
    std::vector<PlainIterator> ins;
    for (size_t i = 0; i < count; ++i) ins.push_back(ReadsFrom(pass, static_cast<int>(i)));
    const uint64_t own = seed < 0 ? pass.seed : static_cast<uint64_t>(seed);
    const base::Random random(MixSeeds(own, static_cast<uint64_t>(pass.epoch)));
    return [=, state = Shared(State{random, weights})](PlainElement* element) {
      while (!state->ended) {
        if (!state->drawn.has_value() && !state->Draw()) break;
        const PlainPoll poll = ins[*state->drawn](element);
        const size_t drawn = *std::exchange(state->drawn, std::nullopt);
        if (poll != PlainPoll::kEnd) return poll;
        state->weights[drawn] = 0;
        state->ended = stop_on_empty;
      }
      state->ended = true;
      return PlainPoll::kEnd;
    };
  });
}

PlainStagePtr PlainInterleave(PlainStagePtr input,
                              std::function<PlainStagePtr(const PlainElement&)> inner,
                              int64_t cycle_length, int64_t block_length) {
  struct Slot {
    PlainIterator in = nullptr;
    int64_t left = 0;
  };
  struct State {
    std::vector<Slot> slots;
    size_t turn = 0;
    uint64_t next = 0;  // number of this input's next element
  };
  return Make({std::move(input)}, [=](const PlainPass& pass) -> PlainIterator {
    const Slot slot = {.left = block_length};
    State first = {.slots = std::vector<Slot>(static_cast<size_t>(cycle_length), slot)};
    return [=, in = ReadsFrom(pass), state = Shared(std::move(first))](PlainElement* element) {
      std::vector<Slot>& slots = state->slots;
      const auto give_turn_to = [&](size_t turn) {
        if (slots.empty()) return;
        state->turn = turn % slots.size();
        slots[state->turn].left = block_length;
      };
      while (!slots.empty()) {
        Slot& slot = slots[state->turn];
        if (slot.in == nullptr) {
          PlainElement of;
          const PlainPoll poll = in(&of);
          if (poll == PlainPoll::kError) return poll;
          if (poll == PlainPoll::kEnd) {
            slots.erase(slots.begin() + static_cast<std::ptrdiff_t>(state->turn));
            give_turn_to(state->turn);
          } else {
            slot.in =
                Start(inner(of), MixSeeds(pass.seed, state->next++), pass.epoch, {}, pass.limit);
          }
          continue;
        }
        const PlainPoll poll = slot.in(element);
        if (poll == PlainPoll::kEnd) slot.in = nullptr;
        if (poll == PlainPoll::kEnd || --slot.left == 0) give_turn_to(state->turn + 1);
        if (poll != PlainPoll::kEnd) return poll;
      }
      return PlainPoll::kEnd;
    };
  });
}

}  // namespace penstock::data::testing
