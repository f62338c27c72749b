// FromSnapshot: reads the elements that Snapshot has stored, without the pipeline that made them.
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/cache/stored_rows.h"
#include "penstock/data/dataset.h"
#include "penstock/data/sources/file_interleave.h"
#include "penstock/data/sources/files.h"
#include "penstock/data/sources/source_files.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/io/file_system.h"
#include "penstock/io/uri.h"

namespace penstock::data {
namespace {

struct FromSnapshotFields {
  std::string folder = {};
  FromSnapshotOptions options = {};
};
void Fields(StageFields& f, FromSnapshotFields& p) {
  FromSnapshotOptions& o = p.options;
  f.Reads(&p.folder);
  FileInterleaveFields(f, o, kMaxParallelFiles);
}

class FromSnapshotStage : public Stage {
 public:
  FromSnapshotStage(std::string folder, FromSnapshotOptions options,
                    std::shared_ptr<io::FileSystem> file_system, absl::StatusOr<StoredRows> stored)
      : folder_(std::move(folder)),
        options_(std::move(options)),
        file_system_(std::move(file_system)),
        stored_(std::move(stored)) {}

  absl::string_view name() const override { return "FromSnapshot"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, FromSnapshotFields{folder_, options_});
  }
  Varies varies() const override {
    return options_.shuffle_files ? Varies::kOrder : Varies::kNothing;
  }
  std::string Parameters() const override {
    return absl::StrCat(io::DisplayName(folder_),
                        PrintFileInterleave(options_.parallel_files, options_.block_length),
                        options_.shuffle_files ? ", shuffle files" : "");
  }
  int io_threads() const override {
    return stored_.ok() ? ThreadsForFiles(options_.parallel_files, stored_->files.size()) : 0;
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    PENSTOCK_RETURN_IF_ERROR(stored_.status());
    if (options_.parallel_files < 1 || options_.block_length < 1 || options_.read_ahead_bytes < 1) {
      return absl::InvalidArgumentError("options that are counts must be at least 1");
    }
    return stored_->spec;
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext&) const override {
    return stored_->elements;
  }
  absl::StatusOr<std::string> SourceFingerprint(const ResolveContext& context) const override {
    return FilesFingerprint({.file_system = file_system_, .exact = context.exact}, stored_->files);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    const auto open = [file_system = file_system_, spec = stored_->spec](io::FileSystem&,
                                                                         const std::string& uri) {
      return OpenStoredRows(*file_system, uri, spec);
    };
    return MakeFileInterleave(context, FilesOfPass(context, stored_->files, options_.shuffle_files),
                              open,
                              {.parallel_files = options_.parallel_files,
                               .block_length = options_.block_length,
                               .read_ahead_bytes = options_.read_ahead_bytes});
  }

 private:
  const std::string folder_;
  const FromSnapshotOptions options_;
  const std::shared_ptr<io::FileSystem> file_system_;
  const absl::StatusOr<StoredRows> stored_;
};

}  // namespace

Dataset Dataset::FromSnapshot(std::string folder, FromSnapshotOptions options) {
  auto file_system =
      options.file_system != nullptr ? options.file_system : io::FileSystem::Default();
  absl::StatusOr<StoredRows> stored = ReadStoredRows(*file_system, "snapshot", folder);
  return From(std::make_shared<FromSnapshotStage>(std::move(folder), std::move(options),
                                                  std::move(file_system), std::move(stored)));
}

absl::StatusOr<Dataset> ReadFromSnapshot(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<FromSnapshotFields>(in));
  p.options.file_system = in.file_system();
  return Dataset::FromSnapshot(std::move(p.folder), std::move(p.options));
}

}  // namespace penstock::data
