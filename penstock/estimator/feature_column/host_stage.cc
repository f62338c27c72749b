// The stage of a dataset that makes ids of strings.
#include <map>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

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

}  // namespace

data::Dataset ConvertOnHost(const data::Dataset& dataset, const FeatureColumns& columns) {
  auto lookups = std::make_shared<std::map<std::string, IdLookup>>();       // by host key
  auto host_keys = std::make_shared<std::map<std::string, std::string>>();  // host key -> key
  auto identities = std::make_shared<std::map<std::string, ColumnDef>>();   // by key
  for (const FeatureColumn& column : columns) {
    const ColumnDef& inner = Innermost(column.def());
    if (IsConvertedOnHost(inner)) {
      if (lookups->try_emplace(HostKeyOf(inner), inner).second) {
        host_keys->emplace(HostKeyOf(inner), inner.key);
      }
    } else if (inner.kind == ColumnDef::Kind::kIdentity && !inner.identity_default.has_value()) {
      // Ids of several columns of one feature have to fit them all.
      const auto [smallest, added] = identities->emplace(inner.key, inner);
      if (!added && inner.buckets < smallest->second.buckets) smallest->second = inner;
    }
  }
  if (lookups->empty() && identities->empty()) return dataset;

  data::MapOptions options{.name = "feature_columns"};
  const auto read = [&](const std::string& key) {
    for (const std::string& other : options.reads) {
      if (other == key) return;
    }
    options.reads.push_back(key);
  };
  const data::ElementSpec& spec = dataset.spec();
  for (const auto& [host_key, key] : *host_keys) {
    read(key);
    const int place = spec.Find(key);
    if (place < 0) continue;  // an error of Map, which reads it
    options.makes.Set({.name = host_key, .dtype = DType::kI64, .shape = spec[place].shape});
    if (spec[place].dtype == DType::kString) options.drops.push_back(key);
  }
  for (const auto& [key, column] : *identities) {
    read(key);
    if (const int place = spec.Find(key); place >= 0) options.makes.Set(spec[place]);
  }
  return dataset.Map(
      [lookups, host_keys, identities](const base::NamedArrays& in,
                                       base::NamedArrays* out) -> absl::Status {
        for (const auto& [host_key, lookup] : *lookups) {
          absl::StatusOr<Array> values = in.Get(host_keys->at(host_key));
          if (!values.ok()) return values.status();
          absl::StatusOr<Array> ids = lookup(*values);
          if (!ids.ok()) return ids.status();
          out->Set(host_key, *std::move(ids));
        }
        for (const auto& [key, column] : *identities) {
          absl::StatusOr<Array> values = in.Get(key);
          if (!values.ok()) return values.status();
          if (absl::Status status = CheckIdentity(column, *values); !status.ok()) return status;
          out->Set(key, *std::move(values));
        }
        return absl::OkStatus();
      },
      std::move(options));
}

}  // namespace penstock::feature_column
