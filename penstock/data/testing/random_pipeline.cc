#include "penstock/data/testing/random_pipeline.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/formats/npy.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data::testing {
namespace {

using base::Array;
using base::DType;
using base::NamedArrays;

constexpr int64_t kModulus = 10007;

// Keeps a thread busy for some values, so that elements become ready in a different order.
void Linger(bool lingers, int64_t value) {
  if (!lingers || ((static_cast<uint64_t>(value) * 2654435761u) >> 7) % 8 != 0) return;
  uint64_t mixed = static_cast<uint64_t>(value);
  for (uint64_t i = 0; i < 20'000; ++i) mixed = base::MixSeeds(mixed, i);
  [[maybe_unused]] const volatile uint64_t kept = mixed;  // keeps the loop from being removed
}

int64_t Remainder(int64_t value, int64_t divisor) { return (value % divisor + divisor) % divisor; }

bool IsRowSplits(const ColumnSpec& column) { return absl::EndsWith(column.name, "/row_splits"); }

bool HasRowSplits(const Dataset& dataset) {
  const auto& columns = dataset.spec().columns();
  return std::any_of(columns.begin(), columns.end(), IsRowSplits);
}

bool AllKnown(const Dataset& dataset) {
  const auto& columns = dataset.spec().columns();
  return std::all_of(columns.begin(), columns.end(),
                     [](const ColumnSpec& column) { return IsKnown(column.shape); });
}

int MaxRank(const Dataset& dataset) {
  int rank = 0;
  for (const ColumnSpec& column : dataset.spec().columns()) {
    rank = std::max(rank, column.shape.rank());
  }
  return rank;
}

bool IsScalar(const Dataset& dataset) {
  return dataset.spec() == ElementSpec{{"value", DType::kI64, {}}};
}

// Appends a stage with one input.
RandomPipeline Then(const RandomPipeline& input, Dataset dataset, PlainStagePtr plain) {
  RandomPipeline out = input;
  out.dataset = std::move(dataset);
  out.plain = std::move(plain);
  return out;
}
RandomPipeline ThenInOrder(const RandomPipeline& input, Dataset dataset, PlainStagePtr plain) {
  RandomPipeline out = Then(input, std::move(dataset), std::move(plain));
  out.depends_on_order = true;
  return out;
}
RandomPipeline ThenBatched(const RandomPipeline& input, Dataset dataset, PlainStagePtr plain,
                           int64_t size) {
  RandomPipeline out = ThenInOrder(input, std::move(dataset), std::move(plain));
  out.is_batched = true;
  out.shared_batch = size;
  return out;
}
RandomPipeline ThenNotShared(RandomPipeline pipeline, bool is_batched) {
  pipeline.is_batched = is_batched;
  pipeline.shared_batch = 0;
  return pipeline;
}

// Wraps a plain function for the engine.
MapFunction ToMap(PlainFunction function, bool lingers) {
  return [=](const NamedArrays& in, NamedArrays* out) -> absl::Status {
    PlainElement element = ToPlain(in);
    Linger(lingers, Sum(element));
    if (!function(&element)) return absl::InvalidArgumentError("an element that fails");
    *out = ToArrays(element);
    return absl::OkStatus();
  };
}

Dataset RecordsToValues(const Dataset& records, bool lingers) {
  return records.Map(
      [=](const NamedArrays& in, NamedArrays* out) {
        int64_t value;
        std::memcpy(&value, in[0].second.values<absl::string_view>()[0].data(), sizeof(value));
        Linger(lingers, value);
        out->Set("value", Array::Scalar<int64_t>(value));
        return absl::OkStatus();
      },
      {.makes = ElementSpec{{"value", DType::kI64, {}}}, .drops = {"record"}});
}

PlainElement ScalarElement(int64_t value) {
  PlainElement element;
  element["value"].values = {value};
  return element;
}

}  // namespace

RandomFiles::RandomFiles() : file_system_(io::MakeMemoryFileSystem()) {
  base::Random random(7);
  for (int64_t s = 0; s < 4; ++s) {
    Set& set = shards_.emplace_back();
    const auto files = static_cast<int64_t>(s == 0 ? 1 : 1 + random.Below(6));
    for (int64_t f = 0; f < files; ++f) {
      set.names.push_back(absl::StrCat("memory://shards/", s, "-", f, ".tfrec"));
      std::vector<int64_t>& values = set.values.emplace_back();
      const auto rows = static_cast<int64_t>(s == 0 ? 20 : random.Below(4) * random.Below(5));
      auto writer = *record::TfRecordWriter::Create(*file_system_, set.names.back());
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t value = values.emplace_back(s * 1000 + f * 100 + i);
        const absl::string_view bytes(reinterpret_cast<const char*>(&value), sizeof(value));
        PENSTOCK_CHECK_OK(writer->Append(bytes));
      }
      PENSTOCK_CHECK_OK(writer->Close());
    }
  }
  for (int64_t s = 0; s < 2; ++s) {
    Set& set = csvs_.emplace_back();
    const char* end = s == 0 ? "\n" : "\r\n";
    for (int64_t f = 0; f < 3; ++f) {
      set.names.push_back(absl::StrCat("memory://csv/", s, "-", f, ".csv"));
      std::vector<int64_t>& values = set.values.emplace_back();
      std::string text = absl::StrCat("value", end);
      for (int64_t i = 0; i < static_cast<int64_t>(random.Below(12)) + (f == 0); ++i) {
        const int64_t value = values.emplace_back(s * 500 + f * 50 + i);
        absl::StrAppend(&text, s == 0 ? absl::StrCat(value) : absl::StrCat("\"", value, "\""), end);
      }
      PENSTOCK_CHECK_OK(io::WriteFile(*file_system_, set.names.back(), text));
    }
  }
  npy_ = "memory://npy/value.npy";
  for (int64_t i = 0; i < 17; ++i) npy_values_.push_back(i * i);
  PENSTOCK_CHECK_OK(formats::WriteNpy(*file_system_, npy_, Array::Of<int64_t>({17}, npy_values_)));
}

// ---- Sources ----

RandomPipeline RandomPipelines::FromRange() {
  const int64_t begin = Below(20) - 5;
  const int64_t steps[] = {1, 1, 1, 2, -1};
  const int64_t step = steps[Below(5)], end = begin + step * Below(40);
  return {Dataset::Range(begin, end, step), PlainSource([=](const PlainPass&) {
            std::vector<PlainElement> all;
            for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
              all.push_back(ScalarElement(i));
            }
            return all;
          })};
}

RandomPipeline RandomPipelines::FromArrays() {
  const int64_t rows = Below(30);
  std::vector<PlainElement> all;
  std::vector<int64_t> values, vectors;
  for (int64_t i = 0; i < rows; ++i) {
    PlainElement& element = all.emplace_back(ScalarElement(i * 3 % 101));
    element["vec"] = {.shape = {3}, .values = {i, i + 1, i * i}};
    values.push_back(element.value());
    for (int64_t v : element["vec"].values) vectors.push_back(v);
  }
  NamedArrays arrays;
  arrays.Set("value", Array::Of<int64_t>({rows}, values));
  arrays.Set("vec", Array::Of<int64_t>({rows, 3}, vectors));
  return {Dataset::FromArrays(arrays), PlainSource([=](const PlainPass&) { return all; })};
}

// Different elements in each epoch; some epochs are empty.
RandomPipeline RandomPipelines::FromGenerator() {
  const int64_t rows = Below(30);
  const bool may_be_empty = OneIn(4), lingers = lingers_;
  const auto at = [=](int64_t i, int64_t epoch) -> std::optional<int64_t> {
    if (i >= rows || (may_be_empty && epoch % 3 == 1)) return std::nullopt;
    return i * 5 + epoch * 17;
  };
  const auto make = [=](const GeneratorContext& context) -> ElementGenerator {
    return [=, epoch = context.epoch, i = int64_t{0}](NamedArrays* element) mutable {
      const auto value = at(i++, epoch);
      Linger(lingers, i);
      if (value.has_value()) element->Set("value", Array::Scalar<int64_t>(*value));
      return value.has_value();
    };
  };
  return {Dataset::FromGenerator(make, {{"value", DType::kI64, {}}}, {.read_ahead = 1 + Below(20)}),
          PlainSource([=](const PlainPass& pass) {
            std::vector<PlainElement> all;
            for (int64_t i = 0; at(i, pass.epoch).has_value(); ++i) {
              all.push_back(ScalarElement(*at(i, pass.epoch)));
            }
            return all;
          })};
}

RandomPipeline RandomPipelines::FromRaggedGenerator() {
  std::vector<PlainElement> all(static_cast<size_t>(Below(30)));
  for (int64_t i = 0; i < static_cast<int64_t>(all.size()); ++i) {
    PlainArray& value = all[static_cast<size_t>(i)]["value"];
    value.shape = {i * 7 % 4};
    for (int64_t k = 0; k < value.shape[0]; ++k) value.values.push_back(i * 10 + k);
  }
  const auto make = [=](const GeneratorContext&) -> ElementGenerator {
    return [=, i = size_t{0}](NamedArrays* element) mutable {
      if (i == all.size()) return false;
      *element = ToArrays(all[i++]);
      return true;
    };
  };
  return {Dataset::FromGenerator(make, {{"value", DType::kI64, {-1}}}),
          PlainSource([=](const PlainPass&) { return all; })};
}

RandomPipeline RandomPipelines::FromTfRecords() {
  const RandomFiles::Set& set = files_.shards()[static_cast<size_t>(Below(4))];
  if (OneIn(3)) {
    std::vector<int64_t> values;
    for (const auto& file : set.values) values.insert(values.end(), file.begin(), file.end());
    const TfRecordOptions options = {.parallel_files = static_cast<int>(Below(3)),
                                     .global_shuffle = true};
    return {RecordsToValues(Dataset::FromTfRecords(set.names, options), lingers_),
            PlainGlobalShuffle(values)};
  }
  const int64_t parallel = Below(5), block_length = 1 + Below(5);
  const bool shuffle = OneIn(2);
  const TfRecordOptions options = {.parallel_files = static_cast<int>(parallel),
                                   .block_length = block_length,
                                   .shuffle_files = shuffle,
                                   .block_bytes = OneIn(2) ? 64 : 1 << 20};
  return {RecordsToValues(Dataset::FromTfRecords(set.names, options), lingers_),
          PlainFiles(set.values, {.cycle_length = parallel == 0 ? 8 : parallel,
                                  .block_length = block_length,
                                  .shuffle_files = shuffle})};
}

RandomPipeline RandomPipelines::FromCsv() {
  const RandomFiles::Set& set = files_.csvs()[static_cast<size_t>(Below(2))];
  const int64_t parallel = Below(4), block_length = 1 + Below(5);
  const bool shuffle = OneIn(2);
  return {Dataset::FromCsv(set.names, {.parallel_files = static_cast<int>(parallel),
                                       .block_length = block_length,
                                       .shuffle_files = shuffle,
                                       .block_bytes = OneIn(2) ? 16 : 1 << 20,
                                       .file_system = files_.file_system()}),
          PlainFiles(set.values, {.cycle_length = parallel == 0 ? 8 : parallel,
                                  .block_length = block_length,
                                  .shuffle_files = shuffle})};
}

RandomPipeline RandomPipelines::FromNpy() {
  std::vector<PlainElement> all;
  for (int64_t value : files_.npy_values()) all.push_back(ScalarElement(value));
  const NpyOptions options = {.access = OneIn(2) ? NpyAccess::kStream : NpyAccess::kAuto,
                              .block_bytes = 1 + Below(100),
                              .file_system = files_.file_system()};
  return {Dataset::FromNpy(files_.npy(), options),
          PlainSource([=](const PlainPass&) { return all; })};
}

RandomPipeline RandomPipelines::Random() {
  return {.dataset = Dataset::Random(), .plain = PlainRandom(), .is_finite = false};
}

RandomPipeline RandomPipelines::Source() {
  switch (Below(9)) {
    case 0:
      return FromRange();
    case 1:
      return FromArrays();
    case 2:
      return FromGenerator();
    case 3:
      return FromRaggedGenerator();
    case 4:
      return FromCsv();
    case 5:
      return FromNpy();
    case 6:
      return Random();
    default:
      return FromTfRecords();
  }
}

// ---- Stages that only select ----

RandomPipelines::Result RandomPipelines::Take(const RandomPipeline& input) {
  const int64_t count = OneIn(6) ? 0 : Below(30);
  RandomPipeline out = ThenInOrder(input, input.dataset.Take(count), PlainTake(input.plain, count));
  out.is_finite = true;
  return out;
}

RandomPipelines::Result RandomPipelines::Skip(const RandomPipeline& input) {
  const int64_t count = Below(OneIn(4) ? 60 : 10);
  return ThenInOrder(input, input.dataset.Skip(count), PlainSkip(input.plain, count));
}

RandomPipelines::Result RandomPipelines::Shard(const RandomPipeline& input) {
  const int64_t count = 1 + Below(4), index = Below(count);
  return ThenInOrder(input, input.dataset.Shard(count, index),
                     PlainShard(input.plain, count, index));
}

RandomPipelines::Result RandomPipelines::Repeat(const RandomPipeline& input) {
  if (!input.is_finite) return std::nullopt;
  const int64_t count = OneIn(4) ? -1 : Below(4);
  RandomPipeline out = Then(input, input.dataset.Repeat(count), PlainRepeat(input.plain, count));
  out.is_finite = count >= 0;
  return out;
}

RandomPipelines::Result RandomPipelines::Shuffle(const RandomPipeline& input) {
  const int64_t buffer = 1 + Below(OneIn(4) ? 100 : 12), seed = SeedOrNone();
  ShuffleOptions options = {.reshuffle_each_epoch = !OneIn(3)};
  if (seed >= 0) options.seed = static_cast<uint64_t>(seed);
  return Then(input, input.dataset.Shuffle(buffer, options),
              PlainShuffle(input.plain, buffer, seed, options.reshuffle_each_epoch));
}

// ---- Batches ----

RandomPipelines::Result RandomPipelines::Batch(const RandomPipeline& input) {
  if (MaxRank(input.dataset) > 3 || HasRowSplits(input.dataset)) return std::nullopt;
  PlainBatching batching = {.size = 1 + Below(7), .drop_remainder = OneIn(2)};
  BatchOptions options = {.drop_remainder = batching.drop_remainder};
  for (const ColumnSpec& column : input.dataset.spec().columns()) {
    if (IsKnown(column.shape)) continue;
    if (!IsKnown(column.shape.RowShape())) return std::nullopt;
    batching.ragged.insert(column.name);
    options.ragged.push_back(column.name);
  }
  return ThenBatched(input, input.dataset.Batch(batching.size, options),
                     PlainBatch(input.plain, batching),
                     AllKnown(input.dataset) ? batching.size : 0);
}

RandomPipelines::Result RandomPipelines::PaddedBatch(const RandomPipeline& input) {
  if (MaxRank(input.dataset) > 3 || HasRowSplits(input.dataset)) return std::nullopt;
  const PlainBatching batching = {
      .size = 1 + Below(7), .drop_remainder = OneIn(2), .pads = true, .padding = OneIn(2) ? 0 : -7};
  PaddedBatchOptions options = {.drop_remainder = batching.drop_remainder};
  for (const ColumnSpec& column : input.dataset.spec().columns()) {
    if (column.dtype != DType::kI64) return std::nullopt;
    options.padding_values.Set(column.name, Array::Scalar<int64_t>(batching.padding));
  }
  return ThenBatched(input, input.dataset.PaddedBatch(batching.size, options),
                     PlainBatch(input.plain, batching),
                     AllKnown(input.dataset) ? batching.size : 0);
}

RandomPipelines::Result RandomPipelines::Unbatch(const RandomPipeline& input) {
  if (!input.is_batched) return std::nullopt;
  return ThenNotShared(Then(input, input.dataset.Unbatch(), PlainUnbatch(input.plain)), false);
}

RandomPipelines::Result RandomPipelines::Rebatch(const RandomPipeline& input) {
  const Dataset rows = input.dataset.Unbatch();
  if (!input.is_batched || !rows.status().ok()) return std::nullopt;
  PlainBatching batching = {.size = 1 + Below(9), .drop_remainder = OneIn(2)};
  for (const ColumnSpec& column : rows.spec().columns()) {
    const bool is_ragged = input.dataset.spec().Find(column.name + "/row_splits") >= 0;
    if (is_ragged) batching.ragged.insert(column.name);
    if (!is_ragged && !IsKnown(column.shape)) return std::nullopt;
  }
  return ThenBatched(input, input.dataset.Rebatch(batching.size, batching.drop_remainder),
                     PlainBatch(PlainUnbatch(input.plain), batching),
                     batching.ragged.empty() ? batching.size : 0);
}

RandomPipelines::Result RandomPipelines::Window(const RandomPipeline& input) {
  if (!AllKnown(input.dataset) || MaxRank(input.dataset) > 3) return std::nullopt;
  const int64_t size = 1 + Below(5), shift = 1 + Below(6);
  const WindowOptions options = {
      .shift = shift, .stride = 1 + Below(3), .drop_remainder = OneIn(2)};
  return ThenNotShared(
      ThenInOrder(input, input.dataset.Window(size, options),
                  PlainWindow(input.plain, size, shift, options.stride, options.drop_remainder)),
      true);
}

// ---- Row stages ----

RandomPipelines::Result RandomPipelines::Affine(const RandomPipeline& input) {
  std::vector<std::string> names;
  for (const ColumnSpec& column : input.dataset.spec().columns()) {
    if (column.dtype == DType::kI64 && !IsRowSplits(column) && !OneIn(3)) {
      names.push_back(column.name);
    }
  }
  if (names.empty()) return std::nullopt;
  const PlainFunction function = [names](PlainElement* element) {
    for (const std::string& name : names) {
      for (int64_t& value : (*element)[name].values) value = (value % kModulus * 31 + 7) % kModulus;
    }
    return true;
  };
  return Then(input,
              input.dataset.Map(ToMap(function, lingers_), {.name = "affine", .reads = names}),
              PlainMap(input.plain, function));
}

RandomPipeline RandomPipelines::Scalar(const RandomPipeline& input) {
  const PlainFunction function = [](PlainElement* element) {
    *element = ScalarElement(Sum(*element));
    return true;
  };
  MapOptions options = {.name = "scalar", .makes = ElementSpec{{"value", DType::kI64, {}}}};
  for (const ColumnSpec& column : input.dataset.spec().columns()) {
    if (column.name != "value") options.drops.push_back(column.name);
  }
  return ThenNotShared(Then(input, input.dataset.Map(ToMap(function, lingers_), options),
                            PlainMap(input.plain, function)),
                       false);
}

RandomPipelines::Result RandomPipelines::ToScalar(const RandomPipeline& input) {
  return Scalar(input);
}

RandomPipelines::Result RandomPipelines::AddRagged(const RandomPipeline& input) {
  if (!IsScalar(input.dataset)) return std::nullopt;
  const PlainFunction add = [](PlainElement* element) {
    const int64_t value = element->value();
    PlainArray& ragged = (*element)["rag"];
    ragged.shape = {Remainder(value, 4), 2};
    for (int64_t i = 0; i < 2 * ragged.shape[0]; ++i) {
      ragged.values.push_back(
          static_cast<int64_t>(static_cast<uint64_t>(value + 0) + static_cast<uint64_t>(i)));
    }
    return true;
  };
  return Then(input,
              input.dataset.Map(ToMap(add, lingers_),
                                {.name = "ragged",
                                 .reads = {"value"},
                                 .makes = ElementSpec{{"rag", DType::kI64, {-1, 2}}}}),
              PlainMap(input.plain, add));
}

RandomPipelines::Result RandomPipelines::FailSome(const RandomPipeline& input) {
  const int64_t divisor = 3 + Below(5), rest = Below(divisor);
  for (const ColumnSpec& column : input.dataset.spec().columns()) {
    if (column.dtype != DType::kI64) return std::nullopt;
  }
  const PlainFunction fail = [=](PlainElement* element) { return Sum(*element) % divisor != rest; };
  RandomPipeline out =
      ThenInOrder(input, input.dataset.Map(ToMap(fail, lingers_), {.name = "fail"}),
                  PlainMap(input.plain, fail));
  out.may_fail = true;
  return out;
}

RandomPipelines::Result RandomPipelines::Enumerate(const RandomPipeline& input) {
  const int64_t start = Below(100);
  const std::string column = NewName("e");
  return ThenNotShared(ThenInOrder(input, input.dataset.Enumerate(start, {.column = column}),
                                   PlainEnumerate(input.plain, column, start)),
                       false);
}

RandomPipelines::Result RandomPipelines::RandomSeed(const RandomPipeline& input) {
  const int64_t seed = SeedOrNone();
  RandomSeedOptions options = {.column = NewName("s")};
  if (seed >= 0) options.seed = static_cast<uint64_t>(seed);
  return ThenNotShared(ThenInOrder(input, input.dataset.RandomSeed(options),
                                   PlainRandomSeed(input.plain, options.column, seed)),
                       false);
}

// ---- Others of one input ----

RandomPipelines::Result RandomPipelines::Scan(const RandomPipeline& input) {
  if (!IsScalar(input.dataset)) return std::nullopt;
  const int64_t start = Below(100);
  const bool fails = OneIn(4), lingers = lingers_;
  const auto step = [=](int64_t* state, PlainElement* element) {
    if (fails && Remainder(element->value(), 5) == 2) return false;
    *state = (*state * 3 + Sum((*element)["value"])) % kModulus;
    (*element)["value"].values = {*state};
    return true;
  };
  const ScanFunction function = [=](const NamedArrays& in, NamedArrays* state, NamedArrays* out) {
    PlainElement element = ToPlain(in);
    int64_t now = state->Find("state")->item<int64_t>();
    Linger(lingers, now);
    if (!step(&now, &element)) return absl::InvalidArgumentError("a step that fails");
    state->Set("state", Array::Scalar<int64_t>(now));
    *out = ToArrays(element);
    return absl::OkStatus();
  };
  NamedArrays first;
  first.Set("state", Array::Scalar<int64_t>(start));
  RandomPipeline out = ThenNotShared(
      ThenInOrder(input, input.dataset.Scan(first, function), PlainScan(input.plain, start, step)),
      false);
  out.may_fail |= fails;
  return out;
}

RandomPipelines::Result RandomPipelines::Filter(const RandomPipeline& input) {
  const int64_t divisor = 2 + Below(4), rest = Below(divisor);
  const bool lingers = lingers_;
  FilterOptions options;
  if (OneIn(2)) {
    options.reads.push_back(input.dataset.spec()[Below(input.dataset.spec().size())].name);
  }
  const auto keep = [=](const PlainElement& element) { return Sum(element) % divisor != rest; };
  const auto keep_of = [=](const PlainElement& element) {
    if (options.reads.empty()) return keep(element);
    PlainElement read = element, given;
    given[options.reads[0]] = read[options.reads[0]];
    return keep(given);
  };
  RandomPipeline out = Then(input,
                            input.dataset.Filter(
                                [=](const NamedArrays& in) -> absl::StatusOr<bool> {
                                  const PlainElement element = ToPlain(in);
                                  Linger(lingers, Sum(element));
                                  return keep(element);
                                },
                                options),
                            PlainFilter(input.plain, keep_of));
  out.shared_batch = 0;
  return out;
}

RandomPipelines::Result RandomPipelines::Cache(const RandomPipeline& input) {
  if (is_inner_ || !input.is_finite) return std::nullopt;
  const PlainStagePtr plain = PlainCache(input.plain);
  const std::string name = NewName("/c");
  const int64_t kind = Below(5);
  Dataset dataset = input.dataset.Cache();
  if (kind == 1) dataset = input.dataset.Cache(folder_ + name);
  if (kind == 2) dataset = input.dataset.Cache(folder_ + name, {.memory_first = true});
  if (kind == 3) dataset = input.dataset.Snapshot(folder_ + name, {.shard_bytes = 1 + Below(3000)});
  RandomPipeline out = Then(input, dataset, plain);
  out.shared_batch = 0;
  return out;
}

RandomPipelines::Result RandomPipelines::Prefetch(const RandomPipeline& input) {
  return Then(input, input.dataset.Prefetch(Below(4)), PlainPrefetch(input.plain));
}

RandomPipelines::Result RandomPipelines::IgnoreErrors(const RandomPipeline& input) {
  RandomPipeline out = Then(input, input.dataset.IgnoreErrors(), PlainIgnoreErrors(input.plain));
  out.may_fail = false;
  out.shared_batch = 0;
  return out;
}

RandomPipelines::Result RandomPipelines::Interleave(const RandomPipeline& input) {
  if (is_inner_ || !input.is_finite || !IsScalar(input.dataset)) return std::nullopt;
  is_inner_ = true;
  const RandomPipeline inner = Scalar(Tree(2));
  is_inner_ = false;
  const auto add = [](int64_t value) -> PlainFunction {
    return [=](PlainElement* element) {
      (*element)["value"].values = {(element->value() + value) % kModulus};
      return true;
    };
  };
  const bool lingers = lingers_;
  const auto of = [=](const NamedArrays& in) -> absl::StatusOr<Dataset> {
    const int64_t value = ToPlain(in).value() % kModulus;
    Linger(lingers, value);
    return inner.dataset.Map(ToMap(add(value), false)).Take(Remainder(value, 7));
  };
  const auto plain_of = [=](const PlainElement& element) {
    const int64_t value = element.value() % kModulus;
    return PlainTake(PlainMap(inner.plain, add(value)), Remainder(value, 7));
  };
  const int64_t cycle_length = 1 + Below(5);
  const int64_t block_length = cycle_length == 1 ? 1 : 1 + Below(4);
  Dataset dataset = cycle_length == 1 ? input.dataset.FlatMap(of)
                                      : input.dataset.Interleave(of, {.cycle_length = cycle_length,
                                                                      .block_length = block_length,
                                                                      .parallel = Below(4)});
  RandomPipeline out =
      ThenNotShared(ThenInOrder(input, std::move(dataset),
                                PlainInterleave(input.plain, plain_of, cycle_length, block_length)),
                    false);
  out.may_fail |= inner.may_fail;
  return out;
}

// ---- Several inputs ----

namespace {

RandomPipeline Join(const RandomPipeline& a, const RandomPipeline& b, Dataset dataset,
                    PlainStagePtr plain) {
  return {.dataset = std::move(dataset),
          .plain = std::move(plain),
          .is_finite = a.is_finite && b.is_finite,
          .depends_on_order = a.depends_on_order || b.depends_on_order,
          .is_batched = a.is_batched && b.is_batched,
          .may_fail = a.may_fail || b.may_fail};
}

}  // namespace

std::pair<RandomPipeline, RandomPipeline> RandomPipelines::Pair(const RandomPipeline& input) {
  RandomPipeline other = Tree(2);
  if (input.dataset.spec() == other.dataset.spec()) return {input, other};
  return {Scalar(input), Scalar(other)};
}

RandomPipelines::Result RandomPipelines::Zip(const RandomPipeline& input) {
  const RandomPipeline other = Tree(2);
  const std::vector<std::string> prefixes = {NewName("p"), NewName("p")};
  const bool swaps = OneIn(2);
  const RandomPipeline &a = swaps ? other : input, &b = swaps ? input : other;
  RandomPipeline out = Join(a, b, Dataset::Zip({a.dataset, b.dataset}, {.prefixes = prefixes}),
                            PlainZip({a.plain, b.plain}, prefixes));
  out.is_finite = a.is_finite || b.is_finite;
  out.depends_on_order = true;
  out.is_batched = false;
  return out;
}

RandomPipelines::Result RandomPipelines::Concatenate(const RandomPipeline& input) {
  const auto [a, b] = Pair(input);
  return Join(a, b, a.dataset.Concatenate(b.dataset), PlainConcatenate(a.plain, b.plain));
}

RandomPipelines::Result RandomPipelines::Sample(const RandomPipeline& input) {
  const auto [a, b] = Pair(input);
  const int64_t seed = SeedOrNone();
  SampleOptions options = {.stop_on_empty = OneIn(2)};
  if (seed >= 0) options.seed = static_cast<uint64_t>(seed);
  std::vector<double> weights;
  if (OneIn(2)) weights = {1.0 + static_cast<double>(Below(3)), static_cast<double>(Below(3))};
  RandomPipeline out = Join(a, b, Dataset::Sample({a.dataset, b.dataset}, weights, options),
                            PlainSample({a.plain, b.plain}, weights, seed, options.stop_on_empty));
  out.depends_on_order = true;
  return out;
}

// ---- Trees ----

const std::vector<RandomPipelines::Apply>& RandomPipelines::Stages() {
  using R = RandomPipelines;
  static const auto* const kStages = new std::vector<Apply>{
      &R::Take,        &R::Skip,      &R::Shard,      &R::Repeat, &R::Repeat,      &R::Shuffle,
      &R::Shuffle,     &R::Batch,     &R::Batch,      &R::Batch,  &R::PaddedBatch, &R::Unbatch,
      &R::Rebatch,     &R::Window,    &R::Affine,     &R::Affine, &R::ToScalar,    &R::AddRagged,
      &R::FailSome,    &R::Enumerate, &R::RandomSeed, &R::Scan,   &R::Filter,      &R::Cache,
      &R::Prefetch,    &R::Prefetch,  &R::Interleave, &R::Zip,    &R::Concatenate, &R::Sample,
      &R::IgnoreErrors};
  return *kStages;
}

bool RandomPipelines::MayUse(const RandomPipeline& pipeline) const {
  return !travels_ || DatasetToJson(pipeline.dataset).ok();
}

RandomPipeline RandomPipelines::Tree(int64_t max_stages) {
  RandomPipeline pipeline = Source();
  while (!MayUse(pipeline)) pipeline = Source();
  for (int64_t stages = 1 + Below(max_stages); stages > 0;) {
    const Apply apply = Stages()[static_cast<size_t>(Below(static_cast<int64_t>(Stages().size())))];
    const Result next = (this->*apply)(pipeline);
    if (!next.has_value() || !MayUse(*next)) continue;
    pipeline = *next;
    --stages;
  }
  return pipeline;
}

RandomPipeline RandomPipelines::Make() {
  lingers_ = OneIn(3);
  const RandomPipeline pipeline = Tree(7);
  return pipeline.may_fail ? *IgnoreErrors(pipeline) : pipeline;
}

}  // namespace penstock::data::testing
