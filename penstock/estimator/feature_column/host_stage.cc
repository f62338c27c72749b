// The stage of a dataset that makes ids of strings.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/estimator/feature_column/column_def.h"
#include "penstock/estimator/feature_column/fingerprint.h"

namespace penstock::feature_column {
namespace {

using base::Array;
using base::DType;

// Looks up the ids of one column.
class IdLookup {
 public:
  explicit IdLookup(const ColumnDef& column) : column_(column) {
    for (size_t i = 0; i < column.vocabulary.size(); ++i) {
      places_.emplace(column.vocabulary[i], static_cast<int64_t>(i));
    }
  }

  const std::string& key() const { return column_.key; }

  absl::StatusOr<Array> operator()(const Array& values) const {
    if (values.dtype() == DType::kString) {
      Array ids = Array::Uninitialized(DType::kI64, values.shape());
      int64_t* out = ids.mutable_data<int64_t>();
      for (const absl::string_view value : values.values<absl::string_view>()) {
        *out++ = value.empty() ? -1 : IdOf(value);
      }
      return ids;
    }
    if (!base::IsNumeric(values.dtype()) || base::IsFloat(values.dtype())) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", column_.key, "' is ", values.TypeString(),
                       ", but its feature column needs strings or integers"));
    }
    const absl::StatusOr<Array> integers = values.Cast(DType::kI64);
    if (!integers.ok()) return integers.status();
    Array ids = Array::Uninitialized(DType::kI64, values.shape());
    int64_t* out = ids.mutable_data<int64_t>();
    for (const int64_t value : integers->values<int64_t>()) {
      *out++ = value == -1 ? -1 : IdOf(absl::StrCat(value));
    }
    return ids;
  }

 private:
  int64_t IdOf(absl::string_view value) const {
    if (column_.kind == ColumnDef::Kind::kHashBucket) return HashBucket(value, column_.buckets);
    if (const auto found = places_.find(value); found != places_.end()) return found->second;
    const VocabularyListOptions& options = column_.vocabulary_options;
    if (options.num_oov_buckets == 0) return options.default_value;
    return static_cast<int64_t>(column_.vocabulary.size()) +
           HashBucket(value, options.num_oov_buckets);
  }

  const ColumnDef column_;
  absl::flat_hash_map<std::string, int64_t> places_;
};

absl::Status CheckIdentity(const ColumnDef& column, const Array& values) {
  if (!base::IsNumeric(values.dtype()) || base::IsFloat(values.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat("feature '", column.key, "' is ",
                                                   values.TypeString(),
                                                   ", but its feature column needs integers"));
  }
  const absl::StatusOr<Array> ids = values.Cast(DType::kI64);
  if (!ids.ok()) return ids.status();
  for (const int64_t id : ids->values<int64_t>()) {
    if (id < -1 || id >= column.buckets) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", column.key, "' has the value ", id,
                       ", but its feature column has ids from 0 to ", column.buckets - 1,
                       ": give num_buckets above it, or a default_value"));
    }
  }
  return absl::OkStatus();
}

// What the stage does to an element: ids are looked up, and those of identity columns are checked.
class HostStage {
 public:
  explicit HostStage(const FeatureColumns& columns) {
    for (const FeatureColumn& column : columns) Add(Innermost(column.def()));
  }

  bool empty() const { return lookups_.empty() && identities_.empty(); }

  // The columns of `spec` that it reads, makes and drops. A key that `spec` lacks is read, too: an
  // error of Map.
  data::MapOptions Options(const data::ElementSpec& spec) const {
    data::MapOptions options{.name = "feature_columns"};
    const auto read = [&](const std::string& key) {
      const auto& reads = options.reads;
      if (std::find(reads.begin(), reads.end(), key) == reads.end()) options.reads.push_back(key);
      return spec.Find(key);
    };
    for (const auto& [host_key, lookup] : lookups_) {
      const int place = read(lookup.key());
      if (place < 0) continue;
      options.makes.Set({.name = host_key, .dtype = DType::kI64, .shape = spec[place].shape});
      if (spec[place].dtype == DType::kString) options.drops.push_back(lookup.key());
    }
    for (const auto& [key, column] : identities_) {
      if (const int place = read(key); place >= 0) options.makes.Set(spec[place]);
    }
    return options;
  }

  absl::Status operator()(const base::NamedArrays& in, base::NamedArrays* out) const {
    for (const auto& [host_key, lookup] : lookups_) {
      PENSTOCK_ASSIGN_OR_RETURN(const Array values, in.Get(lookup.key()));
      PENSTOCK_ASSIGN_OR_RETURN(Array ids, lookup(values));
      out->Set(host_key, std::move(ids));
    }
    for (const auto& [key, column] : identities_) {
      PENSTOCK_ASSIGN_OR_RETURN(Array values, in.Get(key));
      PENSTOCK_RETURN_IF_ERROR(CheckIdentity(column, values));
      out->Set(key, std::move(values));
    }
    return absl::OkStatus();
  }

 private:
  void Add(const ColumnDef& column) {
    if (IsConvertedOnHost(column)) {
      lookups_.try_emplace(HostKeyOf(column), column);
    } else if (column.kind == ColumnDef::Kind::kIdentity && !column.identity_default.has_value()) {
      // Ids of several columns of one feature have to fit them all.
      const auto [smallest, added] = identities_.emplace(column.key, column);
      if (!added && column.buckets < smallest->second.buckets) smallest->second = column;
    }
  }

  std::map<std::string, IdLookup> lookups_;      // by host key
  std::map<std::string, ColumnDef> identities_;  // by key
};

}  // namespace

data::Dataset ConvertOnHost(const data::Dataset& dataset, const FeatureColumns& columns) {
  const auto stage = std::make_shared<const HostStage>(columns);
  if (stage->empty()) return dataset;
  return dataset.Map(
      [stage](const base::NamedArrays& in, base::NamedArrays* out) { return (*stage)(in, out); },
      stage->Options(dataset.spec()));
}

}  // namespace penstock::feature_column
