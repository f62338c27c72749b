// SourceFiles: the files of a source. It holds the patterns of the description until the stage is
// resolved, and the files that match them afterwards. Every stage that looks up its files has one
// as a member and forwards Stage::Resolve, ResolvedSources and SourceFingerprint to it. Sources
// that read their files block by block need no stage of their own (interleaved_source.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/data/sources/files.h"
#include "penstock/data/stage.h"

namespace penstock::data {

// Immutable; copies share the names.
class SourceFiles {
 public:
  enum class Content {
    kAny,
    kTfRecords,  // the indices beside the shards are no files of the source (FindShards)
  };
  explicit SourceFiles(std::vector<std::string> patterns, Content content = Content::kAny);

  // The patterns, or the files once resolved.
  const std::vector<std::string>& names() const { return found_->files; }
  // Error if there are no patterns, for Stage::OutputSpec.
  absl::Status CheckNotEmpty() const;

  // Looks up the files that match now.
  absl::StatusOr<SourceFiles> Resolve(const ResolveContext& context) const;
  // Value of Stage::ResolvedSources: a line for each name.
  std::string ResolvedSources() const;
  // Value of Stage::SourceFingerprint: FilesFingerprint of the files that match now.
  absl::StatusOr<std::string> Fingerprint(const ResolveContext& context) const;

  // Version (generation, ETag) of a resolved file that holds TFRecords; empty if unknown.
  std::string VersionOf(const std::string& file) const { return found_->VersionOf(file); }
  // Warning about empty shards, for StageCounters::SetHint; usually empty.
  const std::string& warning() const { return found_->empty_shards_warning; }

 private:
  SourceFiles(std::shared_ptr<const Shards> found, Content content)
      : found_(std::move(found)), content_(content) {}

  std::shared_ptr<const Shards> found_;
  Content content_;
};

// Files in the order in which one pass reads them: as listed, or shuffled by the stage's seed and
// the epoch.
std::vector<std::string> FilesOfPass(const NodeContext& context, std::vector<std::string> files,
                                     bool shuffle);

// Tunable limit of a source's read-ahead in bytes, which starts at `automatic`; a number of bytes
// other than 0 is the user's choice and is not tuned.
std::shared_ptr<const Knob> ReadAheadKnob(const NodeContext& context, int64_t bytes,
                                          int64_t automatic);

}  // namespace penstock::data
