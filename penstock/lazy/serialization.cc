#include "penstock/lazy/serialization.h"

#include <algorithm>
#include <any>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/lazy/replicas.h"
#include "penstock/lazy/xm.h"
#include "penstock/lazy/xm_collectives.h"
#include "penstock/save/pytorch.h"
#include "penstock/save/save.h"

namespace penstock::lazy {
namespace {

absl::Status WriteArrays(const save::Format& format, base::NamedArrays arrays,
                         absl::string_view path) {
  return format.write(*io::FileSystem::Default(), path, {.arrays = std::move(arrays)}, {});
}

// Writes on the master, or on every ordinal; all ordinals return when all files are written, or
// with the first error.
absl::Status WriteTogether(const save::Format& format, const StateDict& data,
                           absl::string_view path, bool master_only, SourceLocation where) {
  // A step with collectives can only be executed by all ordinals together.
  PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
  struct File {
    std::string path;
    base::NamedArrays arrays;
  };
  // An error of one ordinal, which the others wait for, is an error of all.
  struct Files {
    std::vector<File> files = {};
    absl::Status status = {};
  } mine;
  if (!master_only || xm::is_master_ordinal()) {
    absl::StatusOr<base::NamedArrays> arrays = data.ToHost();
    mine.status = arrays.status();
    if (arrays.ok()) mine.files.push_back({std::string(path), *std::move(arrays)});
  }
  const ReplicaContext* const self = CurrentReplica();
  if (self == nullptr) {
    PENSTOCK_RETURN_IF_ERROR(mine.status);
    return WriteArrays(format, std::move(mine.files[0].arrays), path);
  }
  const MeetingPoint point = {.key = absl::StrCat("save:", format.name), .describe = [&] {
                                return absl::StrCat("xm::save of '", path, "' (",
                                                    xm::internal::LineOf(where), ")");
                              }};
  // Written by the last ordinal to arrive: the others wait for as long as that takes.
  const auto write = [&](std::vector<std::any>& payloads) -> absl::Status {
    for (const std::any& payload : payloads) {
      PENSTOCK_RETURN_IF_ERROR(std::any_cast<Files>(&payload)->status);
    }
    for (std::any& payload : payloads) {
      for (File& file : std::any_cast<Files>(&payload)->files) {
        PENSTOCK_RETURN_IF_ERROR(WriteArrays(format, std::move(file.arrays), file.path));
      }
    }
    return absl::OkStatus();
  };
  return self->replicas->Meet(self->ordinal, point, std::any(std::move(mine)), write).status();
}

}  // namespace

StateDict::StateDict(base::NamedArrays arrays) {
  for (const auto& [name, array] : arrays) Set(name, array);
}

StateDict::StateDict(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  for (const auto& [name, tensor] : tensors) Set(name, tensor);
}

void StateDict::Set(absl::string_view name, base::Array array) {
  entries_.push_back({.name = std::string(name), .array = std::move(array)});
}

void StateDict::Set(absl::string_view name, Tensor tensor) {
  entries_.push_back({.name = std::string(name), .tensor = std::move(tensor)});
}

void StateDict::Set(absl::string_view prefix, const StateDict& other) {
  for (Entry entry : std::vector<Entry>(other.entries_)) {
    entry.name = absl::StrCat(prefix, "/", entry.name);
    entries_.push_back(std::move(entry));
  }
}

bool StateDict::has_tensors() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.tensor.defined(); });
}

absl::StatusOr<base::NamedArrays> StateDict::ToHost() const {
  base::NamedArrays arrays;
  for (const Entry& entry : entries_) {
    base::Array array = entry.array;
    if (entry.tensor.defined()) {
      PENSTOCK_ASSIGN_OR_RETURN(array, entry.tensor.cpu());
    }
    if (!array.valid()) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot save '", entry.name, "': the tensor is undefined"));
    }
    arrays.Append(entry.name, std::move(array));  // the writer rejects a name that comes twice
  }
  return arrays;
}

absl::Status save(const StateDict& data, absl::string_view path) {
  PENSTOCK_ASSIGN_OR_RETURN(base::NamedArrays arrays, data.ToHost());
  return WriteArrays(save::PyTorchZipFormat(), std::move(arrays), path);
}

absl::StatusOr<base::NamedArrays> load(absl::string_view path) {
  PENSTOCK_ASSIGN_OR_RETURN(save::Weights weights,
                            save::ReadWeights(*io::FileSystem::Default(), path));
  return std::move(weights.arrays);
}

namespace xm {

absl::Status save(const StateDict& data, absl::string_view path, bool master_only, bool,
                  SourceLocation where) {
  return WriteTogether(::penstock::save::PyTorchZipFormat(), data, path, master_only, where);
}

}  // namespace xm

namespace xser {

absl::Status save(const StateDict& data, absl::string_view path, bool master_only, bool,
                  SourceLocation where) {
  return WriteTogether(::penstock::save::XserFormat(), data, path, master_only, where);
}

absl::StatusOr<base::NamedArrays> load(absl::string_view path) { return lazy::load(path); }

}  // namespace xser
}  // namespace penstock::lazy
