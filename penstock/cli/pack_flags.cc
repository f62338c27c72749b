#include "penstock/cli/pack_flags.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/cli/convert_progress.h"
#include "penstock/cli/print_json.h"
#include "penstock/io/uri.h"

namespace penstock::cli {
namespace {

nlohmann::ordered_json ToJson(const pack::Packed& packed) {
  nlohmann::ordered_json json{{packed.noun, packed.records}};
  if (!packed.classes.empty()) json["classes"] = packed.classes;
  json["shards"] = packed.shards;
  json["unreadable"] = nlohmann::ordered_json::array();
  for (const pack::UnreadableInput& u : packed.unreadable)
    json["unreadable"].push_back({{"uri", u.name}, {"why", u.why}});
  return json;
}

void PrintText(const pack::Packed& packed, absl::string_view verb, const std::string& out) {
  const std::string classes =
      packed.classes.empty() ? "" : absl::StrCat(" of ", packed.classes.size(), " classes");
  std::printf("%s %lld %s%s into %zu %s in %s\n", std::string(verb).c_str(),
              static_cast<long long>(packed.records), packed.noun, classes.c_str(),
              packed.shards.size(), packed.shards.size() == 1 ? "shard" : "shards",
              io::DisplayName(out).c_str());
}

absl::Status CheckUnreadable(const pack::Packed& packed, bool skip) {
  if (packed.unreadable.empty()) return absl::OkStatus();
  const std::string report = io::DisplayName(packed.unreadable_report);
  const std::string count =
      absl::StrCat(packed.unreadable.size(), " of ", packed.inputs, " ", packed.noun);
  if (skip && !packed.shards.empty()) {
    std::fprintf(stderr, "skipped %s that are unreadable; see %s\n", count.c_str(), report.c_str());
    return absl::OkStatus();
  }
  const std::string place = absl::StrCat(packed.unreadable[0].name, ": ");  // once
  return absl::DataLossError(absl::StrCat(
      count, " are unreadable, for example ", place,
      absl::StripPrefix(packed.unreadable[0].why, place), "; see ", report,
      packed.shards.empty()
          ? ". Nothing is left to write; repair the inputs"
          : ". The shards contain all others. Repair the inputs and start over with --overwrite, "
            "or accept the shards with --skip-unreadable"));
}

}  // namespace

void RecompressFlags::Describe(Options& options) {
  options
      .Add("--size", size,
           "Height and width to which images are resized, after a center crop to that aspect "
           "ratio; default: the files' bytes are kept")
      .Count(2)
      .Range(1, 65500);
  options
      .Add("--quality", quality,
           "Encode all images as JPEG with this quality; default: with --size, 95 for JPEG, and "
           "PNG stays PNG; otherwise the files' bytes are kept")
      .Range(1, 100);
}

pack::RecompressOptions RecompressFlags::Value() const {
  pack::RecompressOptions value{.quality = quality};
  if (!size.empty()) value.size = {size[0], size[1]};
  return value;
}

void PackFlags::Describe(Options& described) {
  described.Add("--out", options.out, "Output folder for the shards: local, gs:// or s3://")
      .Required();
  described.Add("--shards", options.shards, "Number of shards; default: determined by --shard-size")
      .Range(1, 1000000);
  described.Add("--shard-size", options.shard_bytes, "Maximum size of a shard: 100MB, 1GiB")
      .Bytes()
      .Range(1, uint64_t{1} << 50)
      .ShowDefault("100MB")
      .Excludes("--shards");
  described.Add("--seed", options.seed, "Random seed of the shuffle").AnySeed().ShowDefault();
  described.AddFlag("--keep-order", options.keep_order, "Do not shuffle");
  described
      .Add("--threads", options.threads,
           "Number of worker threads; default: one per core, at least 32 for inputs in object "
           "storage")
      .Range(1, 1024);
  described.AddFlag("--overwrite", options.overwrite,
                    "Remove existing shards in --out and start over");
  described.AddFlag("--skip-unreadable", skip_unreadable,
                    "Succeed even if some inputs are unreadable; they are skipped and listed in "
                    "unreadable.csv");
  described.AddFlag("--json", json, "Print JSON");
}

absl::Status RunPacking(
    const PackFlags& flags, absl::string_view verb,
    const std::function<absl::StatusOr<pack::Packed>(const pack::PackOptions&)>& pack) {
  const absl::StatusOr<pack::Packed> packed = [&] {
    ConvertProgress progress;
    pack::PackOptions options = flags.options;
    options.on_progress = [&](const pack::Progress& p) { progress.Update(p); };
    options.on_message = [](absl::string_view line) {
      std::fprintf(stderr, "%s\n", std::string(line).c_str());
    };
    return pack(options);
  }();
  PENSTOCK_RETURN_IF_ERROR(packed.status());
  if (flags.json) {
    PrintJson(ToJson(*packed));
  } else {
    PrintText(*packed, verb, flags.options.out);
  }
  return CheckUnreadable(*packed, flags.skip_unreadable);
}

}  // namespace penstock::cli
