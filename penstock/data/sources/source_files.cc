#include "penstock/data/sources/source_files.h"

#include <utility>

#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"

namespace penstock::data {

SourceFiles::SourceFiles(std::vector<std::string> patterns, Content content)
    : found_(std::make_shared<const Shards>(Shards{.files = std::move(patterns)})),
      content_(content) {}

absl::Status SourceFiles::CheckNotEmpty() const {
  if (!names().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("the list of files is empty");
}

absl::StatusOr<SourceFiles> SourceFiles::Resolve(const ResolveContext& context) const {
  Shards found;
  if (content_ == Content::kTfRecords) {
    PENSTOCK_ASSIGN_OR_RETURN(found, FindShards(*context.file_system, names()));
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(found.files, FindFiles(*context.file_system, names()));
  }
  return SourceFiles(std::make_shared<const Shards>(std::move(found)), content_);
}

std::string SourceFiles::ResolvedSources() const { return absl::StrJoin(names(), "\n"); }

absl::StatusOr<std::string> SourceFiles::Fingerprint(const ResolveContext& context) const {
  PENSTOCK_ASSIGN_OR_RETURN(const SourceFiles found, Resolve(context));
  return FilesFingerprint(context, found.names());
}

std::vector<std::string> FilesOfPass(const NodeContext& context, std::vector<std::string> files,
                                     bool shuffle) {
  if (shuffle) {
    base::Random random(base::MixSeeds(context.seed, static_cast<uint64_t>(context.epoch)));
    base::Shuffle(random, files);
  }
  return files;
}

std::shared_ptr<const Knob> ReadAheadKnob(const NodeContext& context, int64_t bytes,
                                          int64_t automatic) {
  KnobOptions knob = {.what = "read-ahead",
                      .evidence = KnobOptions::kQueueFull,
                      .initial = automatic,
                      .min = int64_t{1} << 20,
                      .max = 4 * automatic,
                      .bytes = true};
  if (bytes == 0) return context.MakeKnob(knob);
  knob.initial = bytes;
  return std::make_shared<const Knob>(knob);
}

}  // namespace penstock::data
