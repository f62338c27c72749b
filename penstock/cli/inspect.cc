#include <cstdio>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/cli/command.h"
#include "penstock/io/file_system.h"
#include "penstock/io/glob.h"
#include "penstock/record/example.h"
#include "penstock/record/example_parser.h"
#include "penstock/record/tfrecord.h"
#include "penstock/save/checkpoint.h"
#include "penstock/save/save.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

class Inspect : public Command {
 public:
  void Describe(CLI::App& app) override {
    app.add_option("what", what_, "Shards (files or patterns), a folder of checkpoints, or a model")
        ->required();
    app.add_flag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    Json all = Json::array();
    for (const std::string& what : what_) {
      const absl::StatusOr<io::FileInfo> info = fs_->Stat(what);
      if (info.ok() && info->is_directory) {
        PENSTOCK_RETURN_IF_ERROR(Checkpoints(what, all));
        continue;
      }
      PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files, io::Glob(*fs_, what));
      for (const std::string& file : files) PENSTOCK_RETURN_IF_ERROR(File(file, all));
    }
    if (json_) std::printf("%s\n", all.dump(2).c_str());
    return absl::OkStatus();
  }

 private:
  absl::Status File(const std::string& uri, Json& all) {
    absl::StatusOr<save::Contents> weights = save::Inspect(*fs_, uri);
    if (weights.ok()) return Model(uri, *weights, all);
    return Shard(uri, all);
  }

  absl::Status Shard(const std::string& uri, Json& all) {
    PENSTOCK_ASSIGN_OR_RETURN(auto reader, record::TfRecordReader::Open(*fs_, uri));
    int64_t records = 0, bytes = 0;
    std::string schema = "none: the shard is empty", first;
    for (;;) {
      PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
      if (block.records.empty()) break;
      if (records == 0) {
        const absl::StatusOr<record::ExampleSchema> inferred = record::InferSchema(block.records);
        schema = inferred.ok() ? inferred->ToString() : "not tf.train.Example records";
        if (inferred.ok()) first = record::DescribeExample(block.records[0]);
      }
      records += static_cast<int64_t>(block.records.size());
      for (absl::string_view r : block.records) bytes += static_cast<int64_t>(r.size());
    }
    all.push_back({{"uri", uri},
                   {"kind", "tfrecord"},
                   {"records", records},
                   {"bytes", bytes},
                   {"schema", schema}});
    if (json_) return absl::OkStatus();
    std::printf("%s: TFRecord, %lld records, %.1f MB, checksums are good\n  schema: %s\n",
                uri.c_str(), static_cast<long long>(records), static_cast<double>(bytes) / 1e6,
                schema.c_str());
    if (!first.empty()) std::printf("  first record: %s\n", first.c_str());
    return absl::OkStatus();
  }

  absl::Status Model(const std::string& uri, const save::Contents& contents, Json& all) {
    Json tensors = Json::array();
    int64_t elements = 0;
    for (const save::TensorInfo& t : contents.tensors) {
      elements += t.shape.num_elements();
      tensors.push_back({{"name", t.name},
                         {"dtype", std::string(base::DTypeName(t.dtype))},
                         {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())}});
    }
    all.push_back({{"uri", uri},
                   {"kind", contents.format},
                   {"tensors", tensors},
                   {"metadata", contents.metadata}});
    if (json_) return absl::OkStatus();
    std::printf("%s: %s, %zu tensors, %lld numbers\n", uri.c_str(), contents.format.c_str(),
                contents.tensors.size(), static_cast<long long>(elements));
    for (const save::TensorInfo& t : contents.tensors) {
      std::printf("  %s %s%s\n", t.name.c_str(), std::string(base::DTypeName(t.dtype)).c_str(),
                  t.shape.ToString().c_str());
    }
    for (const auto& [key, value] : contents.metadata) {
      const std::string shown =
          value.size() > 100 ? absl::StrCat(value.substr(0, 100), "...") : value;
      std::printf("  metadata %s: %s\n", key.c_str(), absl::CHexEscape(shown).c_str());
    }
    return absl::OkStatus();
  }

  absl::Status Checkpoints(const std::string& folder, Json& all) {
    save::CheckpointManager manager(*fs_, folder);
    PENSTOCK_ASSIGN_OR_RETURN(const save::CheckpointList list, manager.List());
    if (list.whole.empty() && list.damaged.empty()) {
      return absl::NotFoundError(
          absl::StrCat(folder, " is a folder without checkpoints; for shards give a pattern: '",
                       folder, "/*.tfrec'"));
    }
    Json rows = Json::array();
    for (const save::CheckpointInfo& c : list.whole) {
      rows.push_back({{"step", c.step}, {"uri", c.uri}, {"bytes", c.num_bytes}, {"whole", true}});
      if (!json_) {
        std::printf("step %lld: whole, %.1f MB, %s\n", static_cast<long long>(c.step),
                    static_cast<double>(c.num_bytes) / 1e6, c.uri.c_str());
      }
    }
    for (const save::DamagedCheckpoint& c : list.damaged) {
      rows.push_back({{"step", c.step},
                      {"uri", c.uri},
                      {"whole", false},
                      {"why", std::string(c.why.message())}});
      if (!json_) {
        std::printf("step %lld: DAMAGED: %s\n", static_cast<long long>(c.step),
                    std::string(c.why.message()).c_str());
      }
    }
    all.push_back({{"uri", folder}, {"kind", "checkpoints"}, {"checkpoints", rows}});
    return absl::OkStatus();
  }

  std::vector<std::string> what_;
  bool json_ = false;
  std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
};

}  // namespace

std::unique_ptr<Command> InspectCommand() { return std::make_unique<Inspect>(); }

}  // namespace penstock::cli
