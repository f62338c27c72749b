#include "penstock/data/sources/interleaved_source.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"

namespace penstock::data {
namespace {

class InterleavedSourceStage : public Stage {
 public:
  explicit InterleavedSourceStage(InterleavedSource source) : source_(std::move(source)) {
    if (source_.status.ok()) open_ = source_.make_open(source_.files);
  }

  absl::string_view name() const override { return source_.name; }
  absl::Status WriteFields(StageFields& out) const override {
    return source_.write_fields == nullptr ? Stage::WriteFields(out) : source_.write_fields(out);
  }
  absl::string_view adds_stage() const override { return source_.adds_stage; }
  Varies varies() const override {
    return source_.shuffle_files ? Varies::kOrder : Varies::kNothing;
  }
  std::string Parameters() const override {
    return absl::StrCat(
        PrintPatterns(source_.files.names()),
        PrintFileInterleave(source_.interleave.parallel_files, source_.interleave.block_length),
        source_.parameters);
  }
  std::string memory_advice() const override {
    return "fewer parallel_files, or smaller block_bytes";
  }
  int io_threads() const override {
    return ThreadsForFiles(source_.interleave.parallel_files, source_.files.names().size());
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    PENSTOCK_RETURN_IF_ERROR(source_.files.CheckNotEmpty());
    const FileInterleaveOptions& interleave = source_.interleave;
    if (interleave.parallel_files < 0 || interleave.block_length < 1 ||
        interleave.read_ahead_bytes < 0) {
      return absl::InvalidArgumentError(kCountsAtLeastOne);
    }
    PENSTOCK_RETURN_IF_ERROR(source_.status);
    return source_.spec;
  }

  absl::StatusOr<std::shared_ptr<const Stage>> Resolve(
      const ResolveContext& context) const override {
    InterleavedSource resolved = source_;
    PENSTOCK_ASSIGN_OR_RETURN(resolved.files, source_.files.Resolve(context));
    return std::make_shared<InterleavedSourceStage>(std::move(resolved));
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext& context) const override {
    if (source_.cardinality == nullptr) return kUnknownCardinality;
    PENSTOCK_ASSIGN_OR_RETURN(const SourceFiles found, source_.files.Resolve(context));
    return source_.cardinality(*context.file_system, found);
  }
  std::string ResolvedSources() const override { return source_.files.ResolvedSources(); }
  absl::StatusOr<std::string> SourceFingerprint(const ResolveContext& context) const override {
    return source_.files.Fingerprint(context);
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    context.counters.SetHint(source_.files.warning());
    return MakeFileInterleave(context,
                              FilesOfPass(context, source_.files.names(), source_.shuffle_files),
                              open_, source_.interleave);
  }

 private:
  const InterleavedSource source_;
  OpenFileReader open_;  // null if the options are wrong
};

}  // namespace

std::shared_ptr<const Stage> MakeInterleavedSource(InterleavedSource source) {
  return std::make_shared<InterleavedSourceStage>(std::move(source));
}

}  // namespace penstock::data
