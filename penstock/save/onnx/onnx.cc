#include "penstock/save/onnx/onnx.h"

#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/ir/op_def.h"
#include "penstock/ir/rewrite.h"
#include "penstock/save/onnx.pb.h"
#include "penstock/save/onnx/model_builder.h"
#include "penstock/save/onnx/translations.h"
#include "penstock/save/onnx/translator.h"

namespace penstock::save {

namespace onnx {
namespace {

using base::Array;

// Tensors below this size stay in the model, as with onnx's own converter.
constexpr int64_t kSmallTensor = 1024;
// Position of a tensor in the data file, so that it can be mapped into memory.
constexpr int64_t kAlignment = 64;
// A model with a data file is far smaller.
constexpr int64_t kMaxReplacedModel = 64 << 20;

// ---- From the program to a model ----

bool IsUntranslated(const ir::Node& node) {
  return node.op->decompose != nullptr && FindTranslation(node) == nullptr;
}

bool HasUntranslated(const ir::Graph& graph) {
  for (int id = 0; id < graph.num_nodes(); ++id) {
    if (IsUntranslated(graph.node(id))) return true;
    for (const auto& region : graph.node(id).regions) {
      if (HasUntranslated(*region)) return true;
    }
  }
  return false;
}

// The graph with the composites decomposed that have no translation.
std::unique_ptr<ir::Graph> Lowered(std::unique_ptr<ir::Graph> graph) {
  while (graph->status().ok() && HasUntranslated(*graph)) {
    graph = ir::Rewrite(*graph, [](ir::Rewriter& r, int id) -> ir::Values {
      const ir::Node& node = r.from().node(id);
      if (!IsUntranslated(node)) return {};
      return node.op->decompose(r.to(), node, r.Operands(node));
    });
  }
  return graph;
}

absl::StatusOr<ir::SymbolicBatch> Traced(const ir::SymbolicBatch::Trace& trace) {
  return ir::SymbolicBatch::Of(
      [&](int64_t batch) -> absl::StatusOr<std::unique_ptr<ir::Graph>> {
        PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<ir::Graph> graph, trace(batch));
        return Lowered(std::move(graph));
      },
      [](ir::Rewriter&, int) { return ir::Values(); });
}

// ---- From a model to files ----

proto::TensorProto& AddTensor(proto::GraphProto& graph, const Initializer& initializer) {
  proto::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(initializer.name);
  tensor.set_data_type(ElementTypeOf(initializer.array.dtype()));
  for (const int64_t dim : initializer.array.shape()) tensor.add_dims(dim);
  return tensor;
}

absl::string_view BytesOf(const Array& array) {
  return {static_cast<const char*>(array.raw()), static_cast<size_t>(array.num_bytes())};
}

void SetProperty(proto::StringStringEntryProto& entry, absl::string_view key,
                 absl::string_view value) {
  entry.set_key(std::string(key));
  entry.set_value(std::string(value));
}

// Appends to an OutputStream, for protobuf.
class AppendingStream : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit AppendingStream(io::OutputStream& out) : out_(out) {}
  bool Write(const void* buffer, int size) override {
    status_ = out_.Append({static_cast<const char*>(buffer), static_cast<size_t>(size)});
    return status_.ok();
  }
  const absl::Status& status() const { return status_; }

 private:
  io::OutputStream& out_;
  absl::Status status_;
};

absl::Status WriteModel(io::FileSystem& fs, absl::string_view uri, const proto::ModelProto& model) {
  constexpr size_t kMax = std::numeric_limits<int32_t>::max();
  if (model.ByteSizeLong() > kMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model has ", model.ByteSizeLong(), " bytes, and a file of this format at most ", kMax,
        "; lower max_embedded_bytes (Model::Export: max_shard_bytes, penstock convert: "
        "--max-shard-size), so that its tensors go into a second file"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> out, fs.Create(uri));
  AppendingStream appending(*out);
  {
    google::protobuf::io::CopyingOutputStreamAdaptor buffer(&appending, 1 << 20);
    if (!model.SerializeToZeroCopyStream(&buffer) || !buffer.Flush()) {
      PENSTOCK_RETURN_IF_ERROR(appending.status());
      return absl::InternalError("the model could not be serialized");
    }
  }
  return out->Close();
}

// Writes the tensors that are not small into a file beside the model, and refers to them.
absl::Status WriteData(io::FileSystem& fs, const std::string& data_uri,
                       const std::vector<Initializer>& initializers, proto::GraphProto& graph) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> out, fs.Create(data_uri));
  int64_t offset = 0;
  for (const Initializer& initializer : initializers) {
    proto::TensorProto& tensor = AddTensor(graph, initializer);
    const absl::string_view bytes = BytesOf(initializer.array);
    const auto size = static_cast<int64_t>(bytes.size());
    if (size < kSmallTensor) {
      tensor.set_raw_data(std::string(bytes));
      continue;
    }
    const int64_t gap = (kAlignment - offset % kAlignment) % kAlignment;
    if (gap > 0) PENSTOCK_RETURN_IF_ERROR(out->Append(std::string(static_cast<size_t>(gap), '\0')));
    offset += gap;
    PENSTOCK_RETURN_IF_ERROR(out->Append(bytes));
    tensor.set_data_location(1);
    SetProperty(*tensor.add_external_data(), "location", io::Basename(data_uri));
    SetProperty(*tensor.add_external_data(), "offset", absl::StrCat(offset));
    SetProperty(*tensor.add_external_data(), "length", absl::StrCat(size));
    offset += size;
  }
  return out->Close();
}

// Names of the data files of the model that is about to be replaced: those that this exporter could
// have written.
std::set<std::string> DataFilesOf(io::FileSystem& fs, absl::string_view uri) {
  std::set<std::string> names;
  const absl::StatusOr<io::FileInfo> info = fs.Stat(uri);
  if (!info.ok() || info->is_directory || info->size > kMaxReplacedModel) return names;
  const absl::StatusOr<std::string> bytes = io::ReadFile(fs, uri);
  proto::ModelProto model;
  if (!bytes.ok() || !model.ParseFromString(*bytes)) return names;
  const std::string prefix = absl::StrCat(io::Basename(uri), ".");
  for (const proto::TensorProto& tensor : model.graph().initializer()) {
    for (const proto::StringStringEntryProto& entry : tensor.external_data()) {
      const std::string& name = entry.value();
      if (entry.key() == "location" && absl::StartsWith(name, prefix) &&
          absl::EndsWith(name, ".data") && name.find_first_of("/\\") == std::string::npos) {
        names.insert(name);
      }
    }
  }
  return names;
}

// The name of the data file, which does not replace that of an existing model.
absl::StatusOr<std::string> DataUri(io::FileSystem& fs, absl::string_view uri) {
  std::string data = io::AppendToName(uri, ".data");
  PENSTOCK_ASSIGN_OR_RETURN(const bool exists, fs.Exists(data));
  if (!exists) return data;
  return io::AppendToName(uri, absl::StrFormat(".%016x.data", base::EntropySeed()));
}

absl::Status WriteFiles(io::FileSystem& fs, absl::string_view uri, ModelBuilder& builder,
                        const OnnxOptions& options) {
  const std::unique_ptr<proto::ModelProto> taken = builder.TakeModel();
  proto::ModelProto& model = *taken;
  model.set_producer_name("penstock");
  for (const auto& [key, value] : options.metadata) {
    SetProperty(*model.add_metadata_props(), key, value);
  }
  int64_t bytes = 0;
  for (const Initializer& initializer : builder.initializers()) {
    bytes += initializer.array.num_bytes();
  }
  const std::set<std::string> replaced = DataFilesOf(fs, uri);
  std::string data;
  if (bytes > options.max_embedded_bytes) {
    PENSTOCK_ASSIGN_OR_RETURN(data, DataUri(fs, uri));
    const absl::Status written =
        WriteData(fs, data, builder.initializers(), *model.mutable_graph());
    if (!written.ok()) {
      fs.Remove(data).IgnoreError();
      return written;
    }
  } else {
    for (const Initializer& initializer : builder.initializers()) {
      AddTensor(*model.mutable_graph(), initializer)
          .set_raw_data(std::string(BytesOf(initializer.array)));
    }
  }
  // A store may have published the model although the write reports an error, so its data stays.
  PENSTOCK_RETURN_IF_ERROR(WriteModel(fs, uri, model));
  for (const std::string& name : replaced) {
    if (name == io::Basename(data)) continue;
    // A file that cannot be removed takes space, but the new model is complete.
    fs.Remove(io::JoinPath(io::Dirname(uri), name)).IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status Export(io::FileSystem& fs, absl::string_view uri,
                    const ir::SymbolicBatch::Trace& trace, const base::NamedArrays& weights,
                    const OnnxOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const ir::SymbolicBatch program, Traced(trace));
  ModelBuilder builder(program.graph().name());
  PENSTOCK_RETURN_IF_ERROR(Translator(program, weights, builder).Run());
  return WriteFiles(fs, uri, builder, options);
}

}  // namespace
}  // namespace onnx

absl::Status WriteOnnx(io::FileSystem& fs, absl::string_view uri,
                       const ir::SymbolicBatch::Trace& trace, const base::NamedArrays& weights,
                       const OnnxOptions& options) {
  return base::WithContext(onnx::Export(fs, uri, trace, weights, options), io::DisplayName(uri));
}

bool IsOnnxName(absl::string_view uri) {
  return absl::EndsWithIgnoreCase(io::Basename(uri), ".onnx");
}

absl::Status CheckOnnxDestination(io::FileSystem& fs, absl::string_view uri) {
  if (!IsOnnxName(uri)) {
    return absl::InvalidArgumentError(
        absl::StrCat(io::DisplayName(uri), ": the extension of an ONNX model is .onnx"));
  }
  return io::CheckWritableFile(fs, uri);
}

}  // namespace penstock::save
