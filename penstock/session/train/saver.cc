#include "penstock/session/train/saver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/io/canonical_name.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/nn/names.h"
#include "penstock/save/tensor_bundle_format.h"
#include "penstock/save/tensor_bundle_write.h"
#include "penstock/train/file_host.h"

namespace penstock::session::train {
namespace {

std::string List(std::vector<std::string> names) {
  constexpr size_t kMaxListed = 10;
  const size_t more = names.size() > kMaxListed ? names.size() - kMaxListed : 0;
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

std::string TypeOf(const VariableDef& variable) {
  return ir::TensorType{variable.dtype, variable.shape}.ToString();
}

// The value of a checkpoint for a variable.
absl::StatusOr<Array> ValueFor(const VariableDef& variable, const std::string& key,
                               const Array& array, bool reshape) {
  const bool fits = array.shape() == variable.shape ||
                    (reshape && array.num_elements() == variable.shape.num_elements());
  if (array.dtype() != variable.dtype || !fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", variable.name, "' is ", TypeOf(variable), " (", variable.where.file, ":",
        variable.where.line, "), '", key, "' of the checkpoint is ", array.TypeString()));
  }
  return array.Reshape(variable.shape);
}

// One text for all spellings of a checkpoint's path: GetCheckpointState(".") has "./model.ckpt-5"
// for the "model.ckpt-5" that Save writes, and removing the one would remove the other. The name is
// as it was given, because no file has it: links of that name are others'.
std::string PlaceOf(absl::string_view path) {
  return absl::StrCat(io::CanonicalName(io::Dirname(path)), "/", io::Basename(path));
}

// Removes the files of a checkpoint, the index first: data files without an index are none.
absl::Status RemoveCheckpoint(io::FileSystem& fs, const std::string& prefix) {
  const absl::StatusOr<std::vector<io::FileInfo>> files = fs.List(io::Dirname(prefix));
  if (absl::IsNotFound(files.status())) return absl::OkStatus();
  if (!files.ok()) return files.status();
  const absl::Status index = fs.Remove(save::tensor_bundle::IndexFile(prefix));
  if (!index.ok() && !absl::IsNotFound(index)) return index;
  for (const io::FileInfo& file : *files) {
    const std::string name = io::Basename(file.uri);
    const bool data = save::tensor_bundle::ShardsOfDataFile(name, io::Basename(prefix)) > 0;
    if (file.is_directory || !data) continue;
    const absl::Status removed = fs.Remove(file.uri);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  return absl::OkStatus();
}

std::map<std::string, Variable> ByName(const Variables& variables) {
  std::map<std::string, Variable> named;
  for (const Variable& variable : variables) {
    named[variable.valid() ? variable.def()->name : ""] = variable;
  }
  return named;
}

// The state file is written last, so that it must be none of a checkpoint's files.
absl::Status CheckPaths(absl::string_view save_path, absl::string_view latest_filename) {
  if (save_path.empty()) return absl::InvalidArgumentError("Saver: save_path is empty");
  const bool is_name = !latest_filename.empty() && !absl::StrContains(latest_filename, '/') &&
                       latest_filename != "." && latest_filename != "..";
  if (is_name && !absl::EndsWith(latest_filename, ".index") &&
      !absl::StrContains(latest_filename, ".data-")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Saver: latest_filename is '", latest_filename,
      "', but must be the name of a file in the checkpoints' folder that is no checkpoint's, like "
      "\"checkpoint\""));
}

// Writes values of the same moment, which stay where the files are if both are on a worker.
absl::Status WriteVariables(io::FileSystem& fs, const Session& session,
                            const std::map<std::string, const VariableDef*>& variables,
                            const std::string& path) {
  std::vector<std::string> keys, names;
  for (const auto& [name, variable] : variables) {
    keys.push_back(name);
    names.push_back(variable->name);
  }
  auto* const there = dynamic_cast<::penstock::train::BufferFiles*>(&fs);
  bool written = false;
  base::NamedArrays arrays;
  PENSTOCK_RETURN_IF_ERROR(
      session.UseVariables(names, [&](const runtime::Buffers& values) -> absl::Status {
        written = there != nullptr &&
                  std::all_of(values.begin(), values.end(),
                              [&](const runtime::Buffer& b) { return there->Has(b); });
        if (written) return there->WriteBundle(path, keys, values);
        for (size_t i = 0; i < values.size(); ++i) {
          PENSTOCK_ASSIGN_OR_RETURN(Array value, values[i].Get());
          arrays.Append(keys[i], std::move(value));
        }
        return absl::OkStatus();
      }));
  if (written) return absl::OkStatus();
  return save::tensor_bundle::WriteBundle(fs, path, arrays, {.name_based = true});
}

}  // namespace

Saver::Saver(const SaverOptions& options)
    : fs_(options.file_system != nullptr ? options.file_system : io::FileSystem::Default()),
      options_(options),
      keep_next_after_(options.clock->UnixSeconds() +
                       options.keep_checkpoint_every_n_hours * 3600) {}

Saver::Saver(const Variables& var_list, const SaverOptions& options)
    : Saver(ByName(var_list), options) {}

Saver::Saver(std::map<std::string, Variable> var_list, const SaverOptions& options)
    : Saver(options) {
  variables_ = std::move(var_list);
}

absl::StatusOr<std::map<std::string, const VariableDef*>> Saver::VariablesOf(
    const Session& session) const {
  Graph* const graph = session.graph();
  if (graph == nullptr) return absl::FailedPreconditionError("the session has no graph");
  std::map<std::string, Variable> given;
  if (variables_.has_value()) {
    given = *variables_;
  } else {
    const Graph::DefaultScope scope = graph->AsDefault();
    given = ByName(GlobalVariables());
  }
  std::map<std::string, const VariableDef*> variables;
  for (const auto& [name, variable] : given) {
    if (!variable.valid()) {
      return absl::InvalidArgumentError(absl::StrCat("Saver: variable '", name, "' is invalid"));
    }
    if (variable.def()->graph != graph) {
      return absl::InvalidArgumentError(
          absl::StrCat("Saver: variable '", name, "' is of another graph than the session's"));
    }
    variables[name] = variable.def();
  }
  if (variables.empty()) return absl::InvalidArgumentError("Saver: no variables to save");
  return variables;
}

absl::StatusOr<std::string> Saver::Save(const Session& session, absl::string_view save_path,
                                        const Variable& global_step, const SaveOptions& options) {
  if (!global_step.valid()) return Save(session, save_path, std::optional<int64_t>(), options);
  PENSTOCK_ASSIGN_OR_RETURN(const Array step, session.GetVariableValue(global_step.def()->name));
  if (step.num_elements() != 1 || !base::IsNumeric(step.dtype()) || base::IsFloat(step.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Saver: the global step '", global_step.def()->name, "' is ", step.TypeString(),
        ", but must be an integer scalar; GetOrCreateGlobalStep() makes one"));
  }
  return Save(session, save_path, step.item<int64_t>(), options);
}

absl::StatusOr<std::string> Saver::Save(const Session& session, absl::string_view save_path,
                                        std::optional<int64_t> global_step,
                                        const SaveOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckPaths(save_path, options.latest_filename));
  PENSTOCK_ASSIGN_OR_RETURN(const auto variables, VariablesOf(session));
  const std::vector<std::string> missing = session.UninitializedVariables();
  std::vector<std::string> uninitialized;
  for (const auto& [name, variable] : variables) {
    if (std::find(missing.begin(), missing.end(), variable->name) != missing.end()) {
      uninitialized.push_back(variable->name);
    }
  }
  if (!uninitialized.empty()) {
    // A session that another thread closed meanwhile has no values, either.
    PENSTOCK_RETURN_IF_ERROR(
        session.UseVariables({}, [](const runtime::Buffers&) { return absl::OkStatus(); }));
    return absl::FailedPreconditionError(
        absl::StrCat("Saver: variables without a value: ", List(uninitialized),
                     "; run their initializers first (GlobalVariablesInitializer)"));
  }
  const std::string path = global_step.has_value()
                               ? io::AppendToName(save_path, absl::StrCat("-", *global_step))
                               : std::string(save_path);
  const absl::Status written = WriteVariables(*fs_, session, variables, path);
  if (!written.ok()) return base::WithContext(written, io::DisplayName(path));
  // Maybe one that could not be removed, and is a new one now.
  KeepFromRemoval(path);
  if (!options.write_state) return path;
  Count({path, options_.clock->UnixSeconds()});
  const auto limit = static_cast<size_t>(std::max(options_.max_to_keep, 0));
  while (limit > 0 && kept_.size() > limit) {
    const Kept oldest = kept_.front();
    kept_.erase(kept_.begin());
    if (oldest.unix_seconds > keep_next_after_) {
      keep_next_after_ += options_.keep_checkpoint_every_n_hours * 3600;
    } else {
      to_remove_.push_back(oldest.path);
    }
  }
  PENSTOCK_RETURN_IF_ERROR(WriteState(path, options));
  RemoveOld();
  return path;
}

absl::Status Saver::WriteState(absl::string_view save_path, const SaveOptions& options) {
  CheckpointState state{.model_checkpoint_path = std::string(save_path)};
  for (const Kept& kept : kept_) {
    state.all_model_checkpoint_paths.push_back(kept.path);
    state.all_model_checkpoint_timestamps.push_back(kept.unix_seconds);
  }
  state.last_preserved_timestamp = keep_next_after_ - options_.keep_checkpoint_every_n_hours * 3600;
  return UpdateCheckpointState(io::Dirname(save_path), state, options.latest_filename, fs_.get());
}

// A checkpoint that cannot be removed is tried again at the next Save: the new one is complete.
void Saver::RemoveOld() {
  std::erase_if(to_remove_,
                [&](const std::string& path) { return RemoveCheckpoint(*fs_, path).ok(); });
}

absl::Status Saver::Restore(Session& session, absl::string_view save_path) const {
  PENSTOCK_ASSIGN_OR_RETURN(const auto variables, VariablesOf(session));
  PENSTOCK_ASSIGN_OR_RETURN(const bool exists, CheckpointExists(save_path, fs_.get()));
  if (!exists) {
    return absl::NotFoundError(absl::StrCat(
        "Saver: there is no checkpoint ", io::DisplayName(save_path), ": no file ",
        io::Basename(save::tensor_bundle::IndexFile(save_path)),
        "; the path is that of the checkpoint without \".index\" (LatestCheckpoint finds it)"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays arrays, LoadCheckpoint(save_path, fs_.get()));
  absl::flat_hash_map<std::string, const Array*> by_name;
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) {
    by_name[name] = &array;
    names.push_back(name);
  }
  std::vector<std::string> missing, different;
  std::vector<std::pair<const VariableDef*, Array>> values;
  for (const auto& [name, variable] : variables) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      missing.push_back(name);
      continue;
    }
    absl::StatusOr<Array> value = ValueFor(*variable, name, *found->second, options_.reshape);
    if (!value.ok()) {
      different.emplace_back(value.status().message());
      continue;
    }
    values.emplace_back(variable, *std::move(value));
  }
  if (!missing.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "Saver: checkpoint ", io::DisplayName(save_path), " lacks the variables ", List(missing),
        "; the most similar of its names are ", ::penstock::nn::SimilarNames(missing[0], names),
        different.empty() ? "" : absl::StrCat("; besides, ", List(different))));
  }
  if (!different.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Saver: checkpoint ", io::DisplayName(save_path), " does not fit: ", List(different),
        "; restore into the graph that wrote it, or give Saver the variables that fit"));
  }
  for (const auto& [variable, value] : values) {
    PENSTOCK_RETURN_IF_ERROR(session.SetVariableValue(variable->name, value));
  }
  return absl::OkStatus();
}

absl::Status Saver::CheckWritable(absl::string_view save_path) const {
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(save::tensor_bundle::CheckPrefix(*fs_, save_path),
                                             io::DisplayName(save_path)));
  return base::WithContext(io::CheckWritableFile(*fs_, save::tensor_bundle::IndexFile(save_path)),
                           "Saver");
}

std::vector<std::string> Saver::last_checkpoints() const {
  std::vector<std::string> paths;
  for (const Kept& kept : kept_) paths.push_back(kept.path);
  return paths;
}

void Saver::SetLastCheckpoints(const std::vector<std::string>& paths) {
  kept_.clear();
  for (const std::string& path : paths) Count({path, options_.clock->UnixSeconds()});
}

void Saver::KeepFromRemoval(absl::string_view path) {
  const std::string place = PlaceOf(path);
  std::erase_if(to_remove_, [&](const std::string& other) { return PlaceOf(other) == place; });
}

void Saver::Count(Kept kept) {
  KeepFromRemoval(kept.path);
  const std::string place = PlaceOf(kept.path);
  std::erase_if(kept_, [&](const Kept& other) { return PlaceOf(other.path) == place; });
  kept_.push_back(std::move(kept));
}

absl::Status Saver::RecoverLastCheckpoints(const std::vector<std::string>& paths) {
  std::vector<Kept> found;
  for (const std::string& path : paths) {
    const absl::StatusOr<io::FileInfo> index = fs_->Stat(save::tensor_bundle::IndexFile(path));
    if (absl::IsNotFound(index.status())) continue;
    if (!index.ok()) return index.status();
    found.push_back({path, index->modified_unix_seconds});
  }
  kept_.clear();
  for (Kept& kept : found) Count(std::move(kept));
  return absl::OkStatus();
}

}  // namespace penstock::session::train
