#include "penstock/estimator/restore.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/session/train/saver.h"
#include "penstock/session/variable.h"

namespace penstock::estimator {
namespace {

constexpr size_t kMaxListed = 8;

// "'a', 'b' and 3 more".
std::string NameList(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (size_t i = 0; i < names.size() && i < kMaxListed; ++i) {
    quoted.push_back(absl::StrCat("'", names[i], "'"));
  }
  std::string text = absl::StrJoin(quoted, ", ");
  if (names.size() > kMaxListed)
    absl::StrAppend(&text, " and ", names.size() - kMaxListed, " more");
  return text;
}

// Name of the newest complete checkpoint in the folder; empty: there is none.
absl::StatusOr<std::string> NewestIn(io::FileSystem& fs, const std::string& folder) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> files, fs.List(folder));
  std::pair<int64_t, std::string> newest = {-1, ""};
  for (const io::FileInfo& file : files) {
    const std::string name = io::Basename(file.uri);
    absl::string_view step = name;
    int64_t number = -1;
    if (!file.is_directory && absl::ConsumePrefix(&step, "model.ckpt-") &&
        absl::ConsumeSuffix(&step, ".index") && absl::SimpleAtoi(step, &number)) {
      newest = std::max(newest, {number, absl::StrCat("model.ckpt-", step)});
    }
  }
  return newest.second;
}

struct Differences {
  std::vector<std::string> missing, other_type, superfluous;
};

Differences Compare(const session::Variables& variables, const base::NamedArrays& arrays) {
  Differences differences;
  absl::flat_hash_set<std::string> used;
  for (const session::Variable& variable : variables) {
    const session::VariableDef& def = *variable.def();
    used.insert(def.name);
    const base::Array* array = arrays.Find(def.name);
    if (array == nullptr) {
      differences.missing.push_back(def.name);
    } else if (!(array->shape() == def.shape) || array->dtype() != def.dtype) {
      differences.other_type.push_back(absl::StrCat(def.name, "' (", base::DTypeName(def.dtype),
                                                    def.shape.ToString(), ", in the checkpoint ",
                                                    array->TypeString(), ")"));
    }
  }
  for (const auto& entry : arrays) {
    if (!used.contains(entry.first)) differences.superfluous.push_back(entry.first);
  }
  return differences;
}

std::string Describe(const Differences& differences) {
  std::vector<std::string> parts;
  if (!differences.missing.empty()) {
    parts.push_back(absl::StrCat("the checkpoint lacks ", NameList(differences.missing)));
  }
  if (!differences.other_type.empty()) {
    parts.push_back(absl::StrCat("of another shape or type ",
                                 differences.other_type.size() > 1 ? "are '" : "is '",
                                 absl::StrJoin(differences.other_type, ", '")));
  }
  if (!differences.superfluous.empty()) {
    parts.push_back(absl::StrCat("only the checkpoint has ", NameList(differences.superfluous)));
  }
  return absl::StrJoin(parts, "; ");
}

}  // namespace

absl::StatusOr<std::string> NewestCheckpoint(io::FileSystem& fs, const std::string& folder,
                                             const std::function<void(absl::string_view)>& log) {
  std::vector<std::string> before;
  for (;;) {
    const auto state = session::train::GetCheckpointState(folder, "checkpoint", &fs);
    if (absl::IsNotFound(state.status())) return std::string();
    if (absl::IsDataLoss(state.status())) {
      return absl::DataLossError(
          absl::StrCat(state.status().message(),
                       "; empty this file, and the newest checkpoint in the folder is used"));
    }
    if (!state.ok()) return state.status();
    // The newest one, or one before it if that is incomplete.
    std::vector<std::string> paths = state->all_model_checkpoint_paths;
    paths.push_back(state->model_checkpoint_path);
    for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
      if (path->empty()) continue;
      PENSTOCK_ASSIGN_OR_RETURN(const bool exists, session::train::CheckpointExists(*path, &fs));
      if (exists) return *path;
    }
    // A training may have saved newer ones since the file was read, and removed these.
    if (paths == before) break;
    before = std::move(paths);
  }
  // The file was emptied, or another training removed what it names. To begin again would replace what is left.
  PENSTOCK_ASSIGN_OR_RETURN(const std::string newest, NewestIn(fs, folder));
  if (newest.empty()) return newest;
  if (log != nullptr) {
    log(absl::StrCat(io::DisplayName(io::JoinPath(folder, "checkpoint")),
                     " names no checkpoint that exists, using ", newest,
                     ", the newest one in the folder"));
  }
  return io::JoinPath(folder, newest);
}

absl::Status RestoreVariables(io::FileSystem& fs, session::Session& session,
                              const std::string& checkpoint, bool training,
                              const RunConfig& config) {
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays arrays,
                            session::train::LoadCheckpoint(checkpoint, &fs));
  const auto scope = session.graph()->AsDefault();
  const session::Variables variables = session::GlobalVariables();
  const Differences differences = Compare(variables, arrays);
  if (!differences.missing.empty() || !differences.other_type.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the graph of the model_fn does not fit ",
                                                   io::DisplayName(checkpoint), ": ",
                                                   Describe(differences),
                                                   "; use another model_dir, or the model_fn that "
                                                   "wrote it"));
  }
  if (training && !differences.superfluous.empty()) {
    config.Log(absl::StrCat("the graph lacks variables of ", io::DisplayName(checkpoint), ": ",
                            NameList(differences.superfluous)));
  }
  for (const session::Variable& variable : variables) {
    const std::string& name = variable.def()->name;
    PENSTOCK_RETURN_IF_ERROR(session.SetVariableValue(name, *arrays.Find(name)));
  }
  return absl::OkStatus();
}

absl::Status InitializeLocalVariables(session::Session& session) {
  if (session::LocalVariables().empty()) return absl::OkStatus();
  return session.Run(session::LocalVariablesInitializer());
}

}  // namespace penstock::estimator
