// The part of a dataset upstream of Cache("worker"), when it is computed in another process than the rest: its
// elements are serialized there, sent once, and kept in the memory of the process that runs the rest.
//
//   // Where the data is:
//   Dataset records = SerializedRows(part, first_stage);  // elements: "rows", a string for the other side
//   // At the other side:
//   auto kept = std::make_shared<UploadedRows>(*PartDescription::FromJson(text));
//   PENSTOCK_RETURN_IF_ERROR(kept->Add(record));
//   Dataset same = FromUploadedRows(kept, 0);
//
// The rest runs as it does in one process: same elements and errors, with their origins, in the same order; same
// seeds; the same printed dataset, so that iterator states of either are those of the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/data/cache/cached_rows.h"
#include "penstock/data/dataset.h"
#include "penstock/data/spec.h"

namespace penstock::data {

// What the rest of a dataset depends on.
struct PartDescription {
  std::string printed;  // Dataset::ToString
  int64_t num_stages = 1;
  std::string sources;  // what its sources found (Stage::ResolvedSources)
  ElementSpec spec;

  std::string ToJson() const;
  // From anywhere.
  static absl::StatusOr<PartDescription> FromJson(absl::string_view text);
  // Looks up the files of the sources.
  static absl::StatusOr<PartDescription> Of(const Dataset::Description& part,
                                            const ResolveContext& context);
};

// Number of stages of a description, counting inputs that several stages share once for each.
int64_t CountStages(const Dataset::Description& last);

// A dataset of one column, "rows" (string), and "elements" (int64): the elements of `part`, errors included,
// about a MiB in each. first_stage: number of stages of the whole dataset that stand before `part`'s.
Dataset SerializedRows(std::shared_ptr<const Dataset::Description> part, int64_t first_stage);

// Used by one thread until it is complete, then by any number.
class UploadedRows {
 public:
  explicit UploadedRows(PartDescription part) : part_(std::move(part)) {}

  // Adds the elements of one record, a copy. DATA_LOSS if it is none.
  absl::Status Add(std::string record);

  const PartDescription& part() const { return part_; }
  int64_t elements() const { return elements_; }
  int64_t bytes() const { return bytes_; }  // of the records
  std::shared_ptr<const CachedPortions> portions() const { return portions_; }

 private:
  const PartDescription part_;
  const std::shared_ptr<CachedPortions> portions_ = std::make_shared<CachedPortions>();
  int64_t elements_ = 0, bytes_ = 0;
};

// `number`: how a description names them (StageFields::uploaded_rows).
Dataset FromUploadedRows(std::shared_ptr<const UploadedRows> rows, int64_t number);

}  // namespace penstock::data
