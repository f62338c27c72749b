#include "penstock/save/onnx/onnx_format.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/checked_size.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/save/onnx.pb.h"
#include "penstock/save/onnx/onnx.h"
#include "penstock/save/quoted.h"

namespace penstock::save {

namespace onnx_format {
namespace {

using base::DType;

constexpr int64_t kMaxModel = int64_t{1} << 31;  // a limit of protobuf's messages
// The first field of a model is its version: a tag, and a number.
constexpr char kFirstByte = 8;

// onnx.TensorProto.DataType, from 1; the only one that Penstock lacks is complex128.
constexpr DType kTypes[] = {DType::kF32,  DType::kU8,  DType::kI8,      DType::kU16,
                            DType::kI16,  DType::kI32, DType::kI64,     DType::kString,
                            DType::kBool, DType::kF16, DType::kF64,     DType::kU32,
                            DType::kU64,  DType::kC64, DType::kInvalid, DType::kBF16};

bool Recognizes(const Probe& probe) {
  return !probe.is_directory && IsOnnxName(probe.uri) && !probe.head.empty() &&
         probe.head[0] == kFirstByte;
}

DType TypeOf(int32_t type) {
  return type >= 1 && type <= static_cast<int32_t>(std::size(kTypes)) ? kTypes[type - 1]
                                                                      : DType::kInvalid;
}

// "image: float32[batch,224,224,3]".
std::string TextOf(const onnx::proto::ValueInfoProto& value) {
  std::vector<std::string> dims;
  const onnx::proto::TypeProto::Tensor& type = value.type().tensor_type();
  for (const auto& dim : type.shape().dim()) {
    dims.push_back(dim.has_dim_value() ? absl::StrCat(dim.dim_value()) : dim.dim_param());
  }
  const DType dtype = TypeOf(type.elem_type());
  return absl::StrCat(
      value.name(), ": ",
      dtype == DType::kInvalid ? absl::StrCat("type ", type.elem_type()) : base::DTypeName(dtype),
      "[", absl::StrJoin(dims, ","), "]");
}

absl::StatusOr<TensorInfo> InfoOf(const onnx::proto::TensorProto& tensor) {
  TensorInfo info{.name = tensor.name(), .dtype = TypeOf(tensor.data_type())};
  const std::vector<int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  const bool negative = std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; });
  if (info.dtype == DType::kInvalid || dims.size() > base::kMaxRank || negative ||
      !base::CheckedBytes(info.dtype, base::Shape(dims)).has_value()) {
    return absl::DataLossError(absl::StrCat("tensor ", Quoted(tensor.name()), " has type ",
                                            tensor.data_type(), " and shape [",
                                            absl::StrJoin(dims, ","), "]"));
  }
  info.shape = base::Shape(dims);
  info.num_bytes = *base::CheckedBytes(info.dtype, info.shape);
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") info.file = entry.value();
  }
  return info;
}

absl::StatusOr<Contents> ContentsOf(const onnx::proto::ModelProto& model) {
  Contents contents{.format = "ONNX"};
  for (const auto& tensor : model.graph().initializer()) {
    PENSTOCK_ASSIGN_OR_RETURN(TensorInfo info, InfoOf(tensor));
    contents.tensors.push_back(std::move(info));
  }
  std::vector<std::string> inputs, outputs, sets;
  for (const auto& value : model.graph().input()) inputs.push_back(TextOf(value));
  for (const auto& value : model.graph().output()) outputs.push_back(TextOf(value));
  for (const auto& set : model.opset_import()) {
    sets.push_back(absl::StrCat(set.domain(), set.domain().empty() ? "" : " ", set.version()));
  }
  for (const auto& entry : model.metadata_props()) contents.metadata[entry.key()] = entry.value();
  contents.metadata["signature"] =
      absl::StrCat(absl::StrJoin(inputs, ", "), " -> ", absl::StrJoin(outputs, ", "));
  contents.metadata["opset"] = absl::StrJoin(sets, ", ");
  contents.metadata["nodes"] = absl::StrCat(model.graph().node_size());
  return contents;
}

absl::StatusOr<Contents> InspectFile(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo file, fs.Stat(uri));
  if (file.size >= kMaxModel) {
    return absl::DataLossError(absl::StrCat(
        io::DisplayName(uri), ": has ", file.size,
        " bytes; an ONNX model holds at most 2 GiB, larger ones have a file of their own"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, io::ReadFile(fs, uri));
  onnx::proto::ModelProto model;
  if (!model.ParseFromString(bytes) || !model.has_graph()) {
    return absl::DataLossError(
        absl::StrCat(io::DisplayName(uri), ": is damaged, or not an ONNX model"));
  }
  absl::StatusOr<Contents> contents = ContentsOf(model);
  if (!contents.ok()) return base::WithContext(contents.status(), io::DisplayName(uri));
  return contents;
}

absl::StatusOr<Weights> NotRead(io::FileSystem&, absl::string_view uri) {
  return absl::UnimplementedError(absl::StrCat(
      io::DisplayName(uri),
      ": ONNX models are exported for other programs and not read back; use the file of "
      "the model (.safetensors, .keras) that it was exported from"));
}

absl::Status CheckDestination(io::FileSystem&, absl::string_view uri) {
  return NeedsModel(uri, "an ONNX model");
}

}  // namespace
}  // namespace onnx_format

Format OnnxFormat() {
  return {.name = "ONNX",
          .extensions = {".onnx"},
          .recognizes = onnx_format::Recognizes,
          .inspect = onnx_format::InspectFile,
          .read = onnx_format::NotRead,
          .write = [](io::FileSystem& fs, absl::string_view uri, const Weights&,
                      const WriteOptions&) { return onnx_format::CheckDestination(fs, uri); },
          .holds_metadata = true,
          .check_destination = onnx_format::CheckDestination};
}

}  // namespace penstock::save
