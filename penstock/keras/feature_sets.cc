#include "penstock/keras/feature_sets.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/base/with_commas.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/nn/losses.h"
#include "penstock/nn/optimizers.h"

namespace penstock::keras {
namespace {

using base::Array;
using base::NamedArrays;

constexpr int64_t kShardBytes = int64_t{100} << 20;

// http://www.isthe.com/chongo/tech/comp/fnv, 64 bits: the same in every program, unlike absl::Hash.
class FeatureHash {
 public:
  FeatureHash& Add(absl::string_view bytes) {
    for (const char c : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return *this;
  }
  std::string Hex() const { return absl::StrCat(absl::Hex(hash_, absl::kZeroPad16)); }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

std::string HashOf(const NamedArrays& weights) {
  FeatureHash hash;
  for (const auto& [name, array] : weights) {
    hash.Add(absl::StrCat(name, " ", array.TypeString(), "\n"));
    hash.Add({static_cast<const char*>(array.raw()), static_cast<size_t>(array.num_bytes())});
  }
  return hash.Hex();
}

// Origins of features in errors.
class FeatureRows : public data::OriginSource {
 public:
  std::string At(int64_t index) const override { return absl::StrCat("features:", index); }
};

// Rows of a set in the writer's form, in the order of the spec's columns.
absl::StatusOr<data::RowRefs> RowsFrom(const data::ElementSpec& spec, const NamedArrays& columns,
                                       const Array& features, int64_t first) {
  auto block = std::make_shared<data::Block>();
  block->rows = features.dim(0);
  for (const data::ColumnSpec& column : spec.columns()) {
    if (column.name == kFeaturesColumn) {
      block->columns.emplace_back(features);
      continue;
    }
    PENSTOCK_ASSIGN_OR_RETURN(Array array, columns.Get(column.name));
    block->columns.emplace_back(std::move(array));
  }
  block->origins.Append(std::make_shared<FeatureRows>(), first, block->rows);
  data::RowRefs rows;
  rows.Append(block, 0, block->rows);
  return rows;
}

// Free bytes on the disk of a local folder, which may not exist yet; negative: unknown.
int64_t FreeBytes(const std::string& folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(folder, error);
  while (!path.empty() && !std::filesystem::exists(path, error) && path != path.parent_path()) {
    path = path.parent_path();
  }
  const std::filesystem::space_info space = std::filesystem::space(path, error);
  return error ? -1 : static_cast<int64_t>(space.available);
}

// Number of bytes of a set; 0: unknown.
int64_t BytesOf(const FeatureSet& set) {
  if (set.rows <= 0 || set.row_bytes <= 0) return 0;
  return set.rows > INT64_MAX / set.row_bytes ? INT64_MAX : set.rows * set.row_bytes;
}

}  // namespace

FeatureSets::FeatureSets(const train::Trainer& trainer, nn::Network features, NamedArrays weights,
                         const CachedFeatures& cache, const FitOptions& options)
    : trainer_(trainer),
      features_(std::move(features)),
      weights_(std::move(weights)),
      model_(absl::StrCat("network ", features_.ToJson().dump(), "\nweights ", HashOf(weights_),
                          "\nprecision of products ",
                          static_cast<int>(trainer.objective().matmul_precision), "\n")),
      cache_(cache),
      options_(options),
      fs_(options.read.file_system != nullptr ? options.read.file_system
                                              : io::FileSystem::Default()) {}

data::IteratorOptions FeatureSets::Reading() const {
  return {.pool = options_.read.pool, .file_system = fs_, .seed = trainer_.options().seed};
}

// As train::Feed finds them.
absl::StatusOr<std::vector<std::string>> FeatureSets::InputColumns(
    const data::ElementSpec& spec) const {
  const std::vector<nn::Network::Port>& ports = trainer_.objective().network.inputs();
  std::vector<std::string> names = trainer_.columns().inputs;
  if (names.empty()) {
    for (const auto& port : ports) names.push_back(port.name);
    const bool named = std::all_of(names.begin(), names.end(),
                                   [&](const auto& name) { return spec.Find(name) >= 0; });
    const int weights = spec.Find("sample_weight") >= 0 ? 1 : 0;
    if (!named && ports.size() == 1 && spec.size() == 2 + weights) names = {spec[0].name};
  }
  for (const std::string& name : names) {
    if (spec.Find(name) >= 0 && names.size() == ports.size()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("cannot determine which columns of ", spec.ToString(),
                     " are the network's inputs; name them in CompileOptions::columns"));
  }
  return names;
}

absl::StatusOr<data::ElementSpec> FeatureSets::StoredSpec(
    const data::ElementSpec& rows, const std::vector<std::string>& inputs) const {
  data::ElementSpec spec;
  const ir::TensorType& type = features_.outputs()[0].type;
  const bool narrow = base::IsFloat(type.dtype) && base::BitWidth(type.dtype) < 32;
  spec.Set({kFeaturesColumn, narrow ? base::DType::kF32 : type.dtype, type.shape.RowShape()});
  for (const data::ColumnSpec& column : rows.columns()) {
    if (std::find(inputs.begin(), inputs.end(), column.name) != inputs.end()) continue;
    if (column.name == kFeaturesColumn) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the dataset's column '", kFeaturesColumn,
          "' is not an input of the network and has the name of the stored features; rename it"));
    }
    spec.Set(column);
  }
  for (const data::ColumnSpec& column : spec.columns()) {
    if (base::BitWidth(column.dtype) % 8 == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("column ", column.ToString(),
                                                   " cannot be stored: its type is smaller than a "
                                                   "byte"));
  }
  return spec;
}

absl::StatusOr<bool> FeatureSets::IsComplete(const data::StoredRowsKey& key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const auto files, data::FindStoredRows(*fs_, key));
  return files.has_value();
}

absl::StatusOr<FeatureSet> FeatureSets::Find(const data::Dataset& dataset) const {
  PENSTOCK_ASSIGN_OR_RETURN(SplitDataset split, SplitAtBatch(dataset));
  FeatureSet set{.dataset = std::move(split), .inputs = {}, .key = {}};
  const data::Dataset& rows = set.dataset.rows;
  PENSTOCK_ASSIGN_OR_RETURN(set.rows, rows.Cardinality(Reading()));
  if (set.rows == data::kInfiniteCardinality) {
    return absl::InvalidArgumentError(
        "the dataset has no end without its Repeat; limit its elements with Take(n)");
  }
  PENSTOCK_ASSIGN_OR_RETURN(set.inputs, InputColumns(rows.spec()));
  PENSTOCK_ASSIGN_OR_RETURN(data::ElementSpec spec, StoredSpec(rows.spec(), set.inputs));
  for (const data::ColumnSpec& column : spec.columns()) {
    if (!data::IsKnown(column.shape) || column.dtype == base::DType::kString) continue;
    set.row_bytes += column.shape.num_elements() * base::BitWidth(column.dtype) / 8;
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::string sources, rows.SourceFingerprint(Reading()));
  std::string what =
      absl::StrCat(model_, "inputs ", absl::StrJoin(set.inputs, ", "), "\n", rows.ToString());
  const std::string hash = FeatureHash().Add(what).Add(sources).Hex();
  set.key = {.kind = "snapshot",
             .folder = io::JoinPath(cache_.folder, absl::StrCat("features-", hash)),
             .pipeline = std::move(what),
             .spec = std::move(spec),
             .sources = std::move(sources)};
  PENSTOCK_ASSIGN_OR_RETURN(set.complete, IsComplete(set.key));
  return set;
}

absl::Status FeatureSets::CheckSpace(absl::Span<const FeatureSet> sets) const {
  int64_t bytes = 0;
  bool complete = true;
  for (const FeatureSet& set : sets) {
    if (set.complete) continue;
    complete = false;
    const int64_t more = BytesOf(set);
    bytes = more > INT64_MAX - bytes ? INT64_MAX : bytes + more;
  }
  if (complete) return absl::OkStatus();
  PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFolder(*fs_, cache_.folder));
  PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(cache_.folder));
  const int64_t free = uri.is_local() ? FreeBytes(uri.path) : -1;
  if (free < 0 || bytes <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the features need ", base::PrintBytes(bytes), ", but only ", base::PrintBytes(free),
      " are free in ", io::DisplayName(cache_.folder),
      "; use another folder, or a later layer with a smaller output (", features_.outputs()[0].name,
      " has ", features_.outputs()[0].type.ToString(), ")"));
}

void FeatureSets::Say(const FeatureSet& set, absl::string_view what) const {
  if (options_.verbose.value_or(1) == 0) return;
  const std::string rows =
      set.rows >= 0 ? absl::StrCat(base::WithCommas(set.rows), " examples, ") : "";
  std::fprintf(stderr, "features of '%s': %s%s%s in %s\n", features_.outputs()[0].name.c_str(),
               rows.c_str(),
               BytesOf(set) > 0 ? absl::StrCat(base::PrintBytes(BytesOf(set)), ", ").c_str() : "",
               std::string(what).c_str(), io::DisplayName(set.key.folder).c_str());
}

absl::StatusOr<data::Dataset> FeatureSets::Batches(const FeatureSet& set) const {
  // The training's set may be that of the validation, too.
  PENSTOCK_ASSIGN_OR_RETURN(const bool complete, IsComplete(set.key));
  if (complete) {
    Say(set, "stored already");
  } else {
    Say(set, "computed once and stored");
    const absl::Status computed = Compute(set);
    if (!computed.ok()) return base::WithContext(computed, "the features cannot be stored");
  }
  const data::Dataset stored = data::Dataset::FromSnapshot(set.key.folder, {.file_system = fs_});
  return set.dataset.Batches(stored, set.row_bytes);
}

absl::StatusOr<std::unique_ptr<train::Trainer>> FeatureSets::Predictor(
    const FeatureSet& set) const {
  return train::Trainer::Create(
      {.objective = {.network = features_,
                     .targets = {{.loss = nn::MeanSquaredError()}},  // not used
                     .optimizer = nn::SGD(),
                     .matmul_precision = trainer_.objective().matmul_precision},
       .strategy = trainer_.strategy(),
       .columns = {.inputs = set.inputs},
       .seed = trainer_.options().seed,
       .check_memory = trainer_.options().check_memory,
       .initial_weights = weights_});
}

absl::Status FeatureSets::Compute(const FeatureSet& set) const {
  PENSTOCK_ASSIGN_OR_RETURN(const auto predictor, Predictor(set));
  PENSTOCK_ASSIGN_OR_RETURN(const auto writer,
                            data::StoredRowsWriter::Create(fs_, set.key, kShardBytes));
  if (writer == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "another process is computing the same features in ", io::DisplayName(set.key.folder),
        "; wait until it has ended, or use another folder"));
  }
  int64_t rows = 0;
  const train::TakePredictions store = [&](const NamedArrays& others,
                                           const std::vector<Array>& outputs) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const data::RowRefs refs,
                              RowsFrom(set.key.spec, others, outputs[0], rows));
    rows += refs.size();
    if (cache_.termination != nullptr && cache_.termination->received()) {
      return absl::CancelledError("SIGTERM was received");
    }
    return writer->Append(refs);
  };
  train::ReadOptions read = options_.read;
  read.file_system = fs_;
  PENSTOCK_RETURN_IF_ERROR(
      predictor->PredictEach(set.dataset.rows.Batch(cache_.batch_size).Prefetch(2), store,
                             {.verbose = options_.verbose.value_or(1), .read = read}));
  return writer->Publish();
}

}  // namespace penstock::keras
