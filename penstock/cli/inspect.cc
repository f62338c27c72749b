#include <algorithm>
#include <cstdio>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/cli/command.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/report/shard_report.h"
#include "penstock/io/file_system.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/save/checkpoint.h"
#include "penstock/save/checkpoint_format.h"
#include "penstock/save/save.h"
#include "penstock/save/saved_model/saved_model.h"
#include "penstock/save/tensor_bundle.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

class Inspect : public Command {
 public:
  void Describe(Options& options) override {
    options
        .Add("what", uris_,
             "Shards (files or patterns), a folder of checkpoints, one checkpoint, or a model (a "
             "file "
             "or a folder)")
        .Required();
    options.AddFlag("--show", show_,
                    "Draw some images of each shard; default for a single shard on a terminal");
    options.Add("--html", html_, "HTML file to write, with some images of each shard");
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    if (!html_.empty()) {
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(io::CheckWritableText(*fs_, html_), "--html"));
    }
    Json all = Json::array();
    for (const std::string& uri : uris_) {
      const absl::StatusOr<io::FileInfo> info = fs_->Stat(uri);
      if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
      PENSTOCK_ASSIGN_OR_RETURN(const bool is_prefix, IsPrefix(uri, info));
      if (is_prefix) {
        PENSTOCK_ASSIGN_OR_RETURN(const save::Contents weights, save::Inspect(*fs_, uri));
        PENSTOCK_RETURN_IF_ERROR(Model(uri, weights, all));
        continue;
      }
      if (info.ok() && info->is_directory) {
        PENSTOCK_RETURN_IF_ERROR(Folder(uri, all));
        continue;
      }
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files, io::Glob(*fs_, uri));
      if (files.size() == 1 && uris_.size() == 1 && ::isatty(STDOUT_FILENO) == 1) show_ = true;
      for (const std::string& file : files) PENSTOCK_RETURN_IF_ERROR(File(file, all));
    }
    if (!html_.empty()) PENSTOCK_RETURN_IF_ERROR(WritePage());
    if (json_) PrintJson(all);
    return absl::OkStatus();
  }

 private:
  // Whether `uri` is the prefix of a TensorFlow checkpoint, which is no file.
  absl::StatusOr<bool> IsPrefix(const std::string& uri,
                                const absl::StatusOr<io::FileInfo>& info) const {
    if (info.ok() && !info->is_directory) return false;
    return save::IsTensorBundlePrefix(*fs_, uri);
  }

  absl::Status WritePage() const {
    if (reports_.empty())
      return absl::InvalidArgumentError("--html requires shards, but none were given");
    return io::WriteFile(*fs_, html_, HtmlPage(reports_));
  }

  // A model that is a folder, such as a SavedModel or one checkpoint, or a folder of checkpoints,
  // which are listed.
  absl::Status Folder(const std::string& uri, Json& all) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool is_checkpoint, save::IsCheckpointFolder(*fs_, uri));
    PENSTOCK_ASSIGN_OR_RETURN(const bool is_saved_model, save::SavedModelExists(*fs_, uri));
    return is_checkpoint || is_saved_model ? File(uri, all) : Checkpoints(uri, all);
  }

  absl::Status File(const std::string& uri, Json& all) {
    absl::StatusOr<save::Contents> weights = save::Inspect(*fs_, uri);
    if (weights.ok()) return Model(uri, *weights, all);
    // A file that is not a weights file may be a shard. Other errors would occur for a shard, too.
    const bool is_model = save::HoldsMetadata(uri).ok();  // by its extension
    if (is_model || !absl::IsDataLoss(weights.status())) return weights.status();
    return Shard(uri, all);
  }

  absl::Status Shard(const std::string& uri, Json& all) {
    constexpr int kSamples = 9;
    PENSTOCK_ASSIGN_OR_RETURN(ShardReport report, MakeShardReport(*fs_, uri, kSamples));
    all.push_back({{"uri", io::DisplayName(uri)},
                   {"kind", "tfrecord"},
                   {"records", report.records},
                   {"bytes", report.bytes},
                   {"schema", report.schema},
                   {"labels", report.labels}});
    if (!json_) PrintShard(report);
    if (!html_.empty()) reports_.push_back(std::move(report));
    return absl::OkStatus();
  }

  void PrintShard(const ShardReport& report) const {
    std::printf("%s: TFRecord, %lld records, %.1f MB, all checksums are valid\n  schema: %s\n",
                report.uri.c_str(), static_cast<long long>(report.records),
                static_cast<double>(report.bytes) / 1e6, report.schema.c_str());
    if (!report.first.empty()) std::printf("  first record: %s\n", report.first.c_str());
    if (!report.labels.empty()) std::printf("  labels: %s\n", MostFrequent(report).c_str());
    if (show_) std::printf("\n%s", DrawSamples(report).c_str());
  }

  // Returns the most frequent labels: "cat 512, dog 488 and 98 more".
  static std::string MostFrequent(const ShardReport& report) {
    constexpr size_t kShown = 10;
    std::vector<std::pair<int64_t, std::string>> labels;
    for (const auto& [label, count] : report.labels) labels.emplace_back(-count, label);
    std::sort(labels.begin(), labels.end());
    std::string text;
    for (size_t i = 0; i < std::min(kShown, labels.size()); ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ", ", LegibleLine(labels[i].second), " ",
                      -labels[i].first);
    }
    if (labels.size() > kShown) absl::StrAppend(&text, " and ", labels.size() - kShown, " more");
    return text;
  }

  absl::Status Model(const std::string& uri, const save::Contents& contents, Json& all) {
    Json tensors = Json::array();
    int64_t elements = 0;
    for (const save::TensorInfo& t : contents.tensors) {
      elements += t.shape.num_elements();
      tensors.push_back({{"name", t.name},
                         {"dtype", std::string(base::DTypeName(t.dtype))},
                         {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())}});
      if (!t.variable.empty()) tensors.back()["variable"] = t.variable;
    }
    all.push_back({{"uri", io::DisplayName(uri)},
                   {"kind", contents.format},
                   {"tensors", tensors},
                   {"metadata", contents.metadata},
                   {"skipped", contents.skipped}});
    if (json_) return absl::OkStatus();
    std::printf("%s: %s, %zu tensors, %lld elements\n", io::DisplayName(uri).c_str(),
                contents.format.c_str(), contents.tensors.size(), static_cast<long long>(elements));
    for (const save::TensorInfo& t : contents.tensors) {
      const bool renamed = !t.variable.empty() && t.variable != t.name;
      std::printf("  %s %s%s%s%s\n", LegibleLine(t.name).c_str(),
                  std::string(base::DTypeName(t.dtype)).c_str(), t.shape.ToString().c_str(),
                  renamed ? ", variable " : "", renamed ? LegibleLine(t.variable).c_str() : "");
    }
    for (const std::string& what : contents.skipped) {
      std::printf("  left out: %s\n", Legible(what).c_str());
    }
    for (const auto& [key, value] : contents.metadata) {
      const std::string shown =
          value.size() > 100 ? absl::StrCat(value.substr(0, 100), "...") : value;
      std::printf("  metadata %s: %s\n", LegibleLine(key).c_str(), absl::CHexEscape(shown).c_str());
    }
    return absl::OkStatus();
  }

  absl::Status Checkpoints(const std::string& folder, Json& all) {
    save::CheckpointManager manager(*fs_, folder);
    PENSTOCK_ASSIGN_OR_RETURN(const save::CheckpointList list, manager.List());
    if (list.complete.empty() && list.corrupt.empty()) {
      return absl::NotFoundError(absl::StrCat(
          io::DisplayName(folder),
          " contains no checkpoints and is no model; to inspect shards use a pattern: '",
          io::DisplayName(folder), "/*.tfrec'"));
    }
    Json rows = Json::array();
    for (const save::CheckpointInfo& c : list.complete) {
      rows.push_back({{"step", c.step},
                      {"uri", io::DisplayName(c.uri)},
                      {"bytes", c.num_bytes},
                      {"whole", true}});
      if (!json_) {
        std::printf("step %lld: complete, %.1f MB, %s\n", static_cast<long long>(c.step),
                    static_cast<double>(c.num_bytes) / 1e6, io::DisplayName(c.uri).c_str());
      }
    }
    for (const save::CorruptCheckpoint& c : list.corrupt) {
      rows.push_back({{"step", c.step},
                      {"uri", io::DisplayName(c.uri)},
                      {"whole", false},
                      {"why", std::string(c.why.message())}});
      if (!json_) {
        std::printf("step %lld: CORRUPT: %s\n", static_cast<long long>(c.step),
                    std::string(c.why.message()).c_str());
      }
    }
    all.push_back(
        {{"uri", io::DisplayName(folder)}, {"kind", "checkpoints"}, {"checkpoints", rows}});
    return absl::OkStatus();
  }

  std::vector<std::string> uris_;
  std::string html_;
  bool json_ = false, show_ = false;
  std::vector<ShardReport> reports_;  // for the HTML page
  std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
};

}  // namespace

std::unique_ptr<Command> InspectCommand() { return std::make_unique<Inspect>(); }

}  // namespace penstock::cli
