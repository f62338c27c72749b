#include "penstock/save/pytorch_state.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "penstock/base/checked_size.h"
#include "penstock/base/status.h"
#include "penstock/save/pytorch.h"
#include "penstock/save/quoted.h"

namespace penstock::save {
namespace pytorch_state {
namespace {

using base::Array;
using base::DType;
using Kind = Pickle::Kind;
using Value = Pickle::Value;

constexpr PyTorchDType kDTypes[] = {
    {DType::kF32, "FloatStorage", "float32"},
    {DType::kF64, "DoubleStorage", "float64"},
    {DType::kF16, "HalfStorage", "float16"},
    {DType::kBF16, "BFloat16Storage", "bfloat16"},
    {DType::kI64, "LongStorage", "int64"},
    {DType::kI32, "IntStorage", "int32"},
    {DType::kI16, "ShortStorage", "int16"},
    {DType::kI8, "CharStorage", "int8"},
    {DType::kU8, "ByteStorage", "uint8"},
    {DType::kBool, "BoolStorage", "bool"},
    {DType::kC64, "ComplexFloatStorage", "complex64"},
    // Saved by torch._utils._rebuild_tensor_v3, with an untyped storage.
    {DType::kU16, "", "uint16"},
    {DType::kU32, "", "uint32"},
    {DType::kU64, "", "uint64"},
    {DType::kF8E4M3, "", "float8_e4m3fn"},
    {DType::kF8E5M2, "", "float8_e5m2"},
    {DType::kF8E4M3Fnuz, "", "float8_e4m3fnuz"},
    {DType::kF8E5M2Fnuz, "", "float8_e5m2fnuz"},
    {DType::kF8E8M0, "", "float8_e8m0fnu"},
};

constexpr absl::string_view kUntyped = "torch.storage.UntypedStorage";
constexpr absl::string_view kReference = "torch_xla.utils.serialization.TensorReference";
constexpr absl::string_view kTensorV1 = "torch._utils._rebuild_tensor";
constexpr absl::string_view kTensorV2 = "torch._utils._rebuild_tensor_v2";
constexpr absl::string_view kTensorV3 = "torch._utils._rebuild_tensor_v3";
constexpr absl::string_view kParameter = "torch._utils._rebuild_parameter";
constexpr absl::string_view kParameterWithState = "torch._utils._rebuild_parameter_with_state";
constexpr absl::string_view kFromType = "torch._tensor._rebuild_from_type_v2";
constexpr absl::string_view kSize = "torch.Size";
constexpr absl::string_view kDevice = "torch.device";
constexpr absl::string_view kJoin = "/";
constexpr absl::string_view kOnlyTensor = "tensor";
// Limits of what a pickle of shared values could otherwise multiply.
constexpr int kMaxDepth = 100;
constexpr int64_t kMaxVisits = 1 << 20;
constexpr size_t kMaxNameBytes = 128 << 20;  // of all names together

class Interpreter {
 public:
  explicit Interpreter(const Pickle& pickle) : pickle_(pickle) {}

  absl::StatusOr<PyTorchState> Run() {
    PENSTOCK_RETURN_IF_ERROR(Visit(pickle_.root(), "", 0));
    return std::move(state_);
  }

 private:
  absl::Status Visit(const Value& value, const std::string& name, int depth);
  absl::Status VisitCall(const Value& call, const std::string& name, int depth);
  absl::Status AddTensor(absl::string_view function, const std::vector<Pickle::Id>& arguments,
                         const std::string& name);
  absl::Status AddReference(const Value& call, const std::string& name);
  absl::StatusOr<size_t> FindStorage(const Value& persistent, int64_t* offset);
  absl::StatusOr<std::vector<int64_t>> Integers(const Value& value, absl::string_view what) const;

  absl::Status AddName(const std::string& name) {
    name_bytes_ += name.size();
    if (name_bytes_ > kMaxNameBytes) {
      return absl::DataLossError("the names of the file have more bytes than are supported");
    }
    if (names_.insert(name).second) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("the name ", Quoted(name), " appears twice"));
  }
  absl::Status AddMetadata(const std::string& name, std::string text) {
    const std::string key = name.empty() ? "value" : name;
    PENSTOCK_RETURN_IF_ERROR(AddName(key));
    state_.metadata.emplace(key, std::move(text));
    return absl::OkStatus();
  }
  const Value& At(const std::vector<Pickle::Id>& items, size_t i) const {
    return pickle_[items[i]];
  }
  static std::string Join(const std::string& prefix, absl::string_view key) {
    return prefix.empty() ? std::string(key) : absl::StrCat(prefix, kJoin, key);
  }

  const Pickle& pickle_;
  PyTorchState state_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::string, size_t> storages_;
  int64_t visits_ = 0;
  size_t name_bytes_ = 0;
};

absl::Status Malformed(const std::string& name, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("tensor ", Quoted(name), ": ", what));
}

absl::Status Interpreter::Visit(const Value& value, const std::string& name, int depth) {
  if (depth > kMaxDepth || ++visits_ > kMaxVisits) {
    return absl::DataLossError(absl::StrCat(
        "at ", Quoted(name), ": the values of the pickle are nested too deep, or too many"));
  }
  switch (value.kind) {
    case Kind::kNone:
    case Kind::kBytes:
      return absl::OkStatus();
    case Kind::kBool:
      return AddMetadata(name, value.integer != 0 ? "true" : "false");
    case Kind::kInt:
      return AddMetadata(name, absl::StrCat(value.integer));
    case Kind::kFloat:
      return AddMetadata(name, absl::StrFormat("%.17g", value.real));
    case Kind::kText:
    case Kind::kGlobal:
      return AddMetadata(name, std::string(value.text));
    case Kind::kTuple:
    case Kind::kList:
      for (size_t i = 0; i < value.items.size(); ++i) {
        PENSTOCK_RETURN_IF_ERROR(Visit(At(value.items, i), Join(name, absl::StrCat(i)), depth + 1));
      }
      return absl::OkStatus();
    case Kind::kDict:
      for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
        const Value& key = At(value.items, i);
        std::string text;
        if (key.kind == Kind::kText) {
          text = std::string(key.text);
        } else if (key.kind == Kind::kInt) {
          text = absl::StrCat(key.integer);
        } else {
          return absl::UnimplementedError(absl::StrCat(
              "at ", Quoted(name), ": a dict has a key that is neither a text nor an integer"));
        }
        PENSTOCK_RETURN_IF_ERROR(Visit(At(value.items, i + 1), Join(name, text), depth + 1));
      }
      return absl::OkStatus();
    case Kind::kCall:
      return VisitCall(value, name, depth);
    case Kind::kLong:
      return absl::UnimplementedError(
          absl::StrCat("at ", Quoted(name), ": an integer of more than 64 bits"));
    case Kind::kPersistent:
      return absl::UnimplementedError(
          absl::StrCat("at ", Quoted(name), ": a storage that belongs to no tensor"));
  }
  return absl::OkStatus();
}

absl::Status Interpreter::VisitCall(const Value& call, const std::string& name, int depth) {
  const absl::string_view function = At(call.items, 0).text;
  const std::vector<Pickle::Id>& arguments = At(call.items, 1).items;
  if (function == kTensorV1 || function == kTensorV2 || function == kTensorV3) {
    return AddTensor(function, arguments, name.empty() ? std::string(kOnlyTensor) : name);
  }
  if (function == kReference) return AddReference(call, name.empty() ? "tensor" : name);
  if ((function == kParameter || function == kParameterWithState) && !arguments.empty()) {
    return Visit(At(arguments, 0), name, depth + 1);
  }
  if (function == kFromType && arguments.size() >= 3 && At(arguments, 0).kind == Kind::kGlobal &&
      At(arguments, 2).kind == Kind::kTuple) {
    const absl::string_view inner = At(arguments, 0).text;
    if (inner == kTensorV2 || inner == kTensorV3) {
      return AddTensor(inner, At(arguments, 2).items, name);
    }
  }
  if ((function == kSize || function == kDevice) && !arguments.empty()) {
    return Visit(At(arguments, 0), name, depth + 1);
  }
  return absl::UnimplementedError(
      absl::StrCat("at ", Quoted(name), ": a call of ", Quoted(function), " is not supported"));
}

absl::StatusOr<std::vector<int64_t>> Interpreter::Integers(const Value& value,
                                                           absl::string_view what) const {
  const Value* tuple = &value;
  if (value.kind == Kind::kCall && At(value.items, 0).text == kSize &&
      !At(value.items, 1).items.empty()) {
    tuple = &At(At(value.items, 1).items, 0);
  }
  std::vector<int64_t> out;
  if (tuple->kind != Kind::kTuple && tuple->kind != Kind::kList) {
    return absl::DataLossError(absl::StrCat("its ", what, " is not a tuple"));
  }
  for (const Pickle::Id id : tuple->items) {
    if (pickle_[id].kind != Kind::kInt || pickle_[id].integer < 0) {
      return absl::DataLossError(absl::StrCat("its ", what, " is not made of integers >= 0"));
    }
    out.push_back(pickle_[id].integer);
  }
  return out;
}

// ("storage", torch.FloatStorage, key, location, elements), and in the stream format a view of the
// storage: None or (key, offset, elements).
absl::StatusOr<size_t> Interpreter::FindStorage(const Value& persistent, int64_t* offset) {
  const auto malformed = [] { return absl::DataLossError("its storage is malformed"); };
  if (persistent.kind != Kind::kPersistent) return malformed();
  const Value& id = At(persistent.items, 0);
  if (id.kind != Kind::kTuple || id.items.size() < 5 || id.items.size() > 6) return malformed();
  const Value& type = At(id.items, 1);
  const Value& key = At(id.items, 2);
  const Value& count = At(id.items, 4);
  if (At(id.items, 0).text != "storage" || type.kind != Kind::kGlobal ||
      (key.kind != Kind::kText && key.kind != Kind::kInt) || count.kind != Kind::kInt ||
      count.integer < 0) {
    return malformed();
  }
  PyTorchStorage storage{.key = key.kind == Kind::kText ? std::string(key.text)
                                                        : absl::StrCat(key.integer)};
  int64_t width = 1;
  if (type.text != kUntyped) {
    absl::string_view name = type.text;
    const PyTorchDType* found = nullptr;
    if (absl::ConsumePrefix(&name, "torch.")) {
      for (const PyTorchDType& row : kDTypes) {
        if (!row.storage.empty() && row.storage == name) found = &row;
      }
    }
    if (found == nullptr) {
      return absl::UnimplementedError(absl::StrCat("its storage is of type ", Quoted(type.text)));
    }
    storage.dtype = found->dtype;
    width = base::ByteWidth(found->dtype);
  }
  if (__builtin_mul_overflow(count.integer, width, &storage.num_bytes)) return malformed();
  if (id.items.size() == 6 && At(id.items, 5).kind != Kind::kNone) {
    const Value& view = At(id.items, 5);
    if (view.kind != Kind::kTuple || view.items.size() != 3 ||
        At(view.items, 1).kind != Kind::kInt || At(view.items, 1).integer < 0 ||
        __builtin_add_overflow(*offset, At(view.items, 1).integer, offset)) {
      return malformed();
    }
  }
  const auto [place, added] = storages_.try_emplace(storage.key, state_.storages.size());
  if (added) {
    state_.storages.push_back(std::move(storage));
  } else {
    const PyTorchStorage& known = state_.storages[place->second];
    if (known.dtype != storage.dtype || known.num_bytes != storage.num_bytes) {
      return absl::DataLossError(absl::StrCat("its storage ", Quoted(storage.key),
                                              " has another type or size in another tensor"));
    }
  }
  return place->second;
}

// (storage, offset, size, stride, requires_grad, hooks, metadata); v1 ends with stride, v3 has the
// dtype before the metadata.
absl::Status Interpreter::AddTensor(absl::string_view function,
                                    const std::vector<Pickle::Id>& arguments,
                                    const std::string& name) {
  const size_t least = function == kTensorV1 ? 4 : function == kTensorV2 ? 6 : 7;
  if (arguments.size() < least || arguments.size() > least + 1) {
    return Malformed(name, absl::StrCat("has ", arguments.size(), " arguments"));
  }
  PENSTOCK_RETURN_IF_ERROR(AddName(name));
  const std::string where = absl::StrCat("tensor ", Quoted(name));
  PyTorchTensor tensor{.name = name};
  const Value& offset = At(arguments, 1);
  if (offset.kind != Kind::kInt || offset.integer < 0) {
    return Malformed(name, "its storage offset is not an integer >= 0");
  }
  tensor.offset = offset.integer;
  const absl::StatusOr<size_t> storage = FindStorage(At(arguments, 0), &tensor.offset);
  if (!storage.ok()) return base::WithContext(storage.status(), where);
  tensor.storage = *storage;
  const PyTorchStorage& source = state_.storages[*storage];
  absl::StatusOr<std::vector<int64_t>> dims = Integers(At(arguments, 2), "size");
  if (!dims.ok()) return base::WithContext(dims.status(), where);
  absl::StatusOr<std::vector<int64_t>> strides = Integers(At(arguments, 3), "stride");
  if (!strides.ok()) return base::WithContext(strides.status(), where);
  if (dims->size() != strides->size()) return Malformed(name, "size and stride differ in length");
  if (dims->size() > base::kMaxRank) {
    return absl::UnimplementedError(absl::StrCat(where, " has a rank above ", base::kMaxRank));
  }
  tensor.dtype = source.dtype;
  if (function == kTensorV3) {
    const Value& dtype = At(arguments, 6);
    absl::string_view type = dtype.text;
    if (dtype.kind != Kind::kGlobal || !absl::ConsumePrefix(&type, "torch.")) {
      return Malformed(name, "its dtype is malformed");
    }
    for (const PyTorchDType& row : kDTypes) {
      if (row.name == type) tensor.dtype = row.dtype;
    }
  }
  if (tensor.dtype == DType::kInvalid) {
    return absl::UnimplementedError(absl::StrCat(where, " has an unknown type"));
  }
  if (source.dtype != DType::kInvalid && source.dtype != tensor.dtype) {
    return Malformed(name, "its type is not that of its storage");
  }
  if (function != kTensorV1 && arguments.size() == least + 1) {
    const Value& metadata = pickle_[arguments.back()];
    if (metadata.kind != Kind::kDict || !metadata.items.empty()) {
      return absl::UnimplementedError(
          absl::StrCat(where, " is a lazily conjugated or negated view; clone it before saving"));
    }
  }
  tensor.shape = base::Shape(*dims);
  tensor.strides = *std::move(strides);
  // The other extents are checked even if one is 0.
  base::Shape extents = tensor.shape;
  for (int d = 0; d < extents.rank(); ++d) {
    extents.set_dim(d, std::max<int64_t>(extents.dim(d), 1));
  }
  if (!base::CheckedBytes(tensor.dtype, extents).has_value()) {
    return Malformed(name, absl::StrCat("shape ", tensor.shape.ToString(), " overflows int64"));
  }
  const std::optional<int64_t> bytes = base::CheckedBytes(tensor.dtype, tensor.shape);
  if (*bytes > 0) {
    // The last element.
    int64_t last = tensor.offset, end = 0;
    bool overflow = false;
    for (size_t d = 0; d < dims->size(); ++d) {
      int64_t step = 0;
      overflow |= __builtin_mul_overflow((*dims)[d] - 1, tensor.strides[d], &step) ||
                  __builtin_add_overflow(last, step, &last);
    }
    overflow |= __builtin_add_overflow(last, 1, &last) ||
                __builtin_mul_overflow(last, base::ByteWidth(tensor.dtype), &end);
    if (overflow || end > source.num_bytes) {
      return Malformed(name, absl::StrCat("its elements extend beyond its storage ",
                                          Quoted(source.key), " of ", source.num_bytes, " bytes"));
    }
  }
  state_.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

absl::Status Interpreter::AddReference(const Value& call, const std::string& name) {
  PENSTOCK_RETURN_IF_ERROR(AddName(name));
  const std::vector<Pickle::Id>& arguments = At(call.items, 1).items;
  const Value* id = arguments.empty() ? nullptr : &At(arguments, 0);
  if (call.items.size() > 2) {
    const Value& state = At(call.items, 2);
    for (size_t i = 0; state.kind == Kind::kDict && i + 1 < state.items.size(); i += 2) {
      if (At(state.items, i).text == "tid") id = &At(state.items, i + 1);
    }
  }
  if (id == nullptr || id->kind != Kind::kInt || id->integer < 0) {
    return Malformed(name, "its TensorReference has no number");
  }
  state_.tensors.push_back({.name = name, .xser_id = id->integer});
  return absl::OkStatus();
}

// Copies the elements of a strided view in row-major order.
void CopyStrided(const PyTorchTensor& tensor, const char* storage, char* out) {
  const int64_t width = base::ByteWidth(tensor.dtype);
  const int rank = tensor.shape.rank();
  const int64_t row = rank == 0 ? 1 : tensor.shape.dim(rank - 1);
  const int64_t row_stride = rank == 0 ? 1 : tensor.strides[rank - 1];
  const int64_t rows = tensor.shape.num_elements() / std::max<int64_t>(row, 1);
  int64_t index[base::kMaxRank] = {};
  int64_t at = tensor.offset;
  for (int64_t r = 0; r < rows; ++r) {
    if (row_stride == 1) {
      std::memcpy(out, storage + at * width, static_cast<size_t>(row * width));
      out += row * width;
    } else {
      for (int64_t i = 0; i < row; ++i, out += width) {
        std::memcpy(out, storage + (at + i * row_stride) * width, static_cast<size_t>(width));
      }
    }
    for (int d = rank - 2; d >= 0; --d) {
      at += tensor.strides[d];
      if (++index[d] < tensor.shape.dim(d)) break;
      at -= tensor.strides[d] * tensor.shape.dim(d);
      index[d] = 0;
    }
  }
}

bool IsContiguous(const PyTorchTensor& tensor) {
  int64_t expected = 1;
  for (int d = tensor.shape.rank() - 1; d >= 0; --d) {
    if (tensor.shape.dim(d) != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.shape.dim(d);
  }
  return true;
}

// Tensors with the same key have the same elements.
auto ViewKey(const PyTorchTensor& tensor) {
  return std::tuple(tensor.storage, tensor.dtype, tensor.offset,
                    std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()), tensor.strides);
}

}  // namespace
}  // namespace pytorch_state

absl::Span<const PyTorchDType> PyTorchDTypes() { return pytorch_state::kDTypes; }

const PyTorchDType* FindPyTorchDType(base::DType dtype) {
  for (const PyTorchDType& row : pytorch_state::kDTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

absl::Span<const absl::string_view> PyTorchNames() {
  using namespace pytorch_state;
  static const auto* const texts = [] {
    auto* list = new std::vector<std::string>();
    for (const PyTorchDType& row : kDTypes) {
      if (!row.storage.empty()) list->push_back(absl::StrCat("torch.", row.storage));
      list->push_back(absl::StrCat("torch.", row.name));
    }
    return list;
  }();
  static const auto* const names = [] {
    auto* list = new std::vector<absl::string_view>{"collections.OrderedDict",
                                                    kTensorV1,
                                                    kTensorV2,
                                                    kTensorV3,
                                                    kParameter,
                                                    kParameterWithState,
                                                    kFromType,
                                                    kSize,
                                                    kDevice,
                                                    kUntyped,
                                                    kReference,
                                                    "torch.nn.parameter.Parameter",
                                                    "torch.Tensor"};
    list->insert(list->end(), texts->begin(), texts->end());
    return list;
  }();
  return *names;
}

absl::StatusOr<PyTorchState> InterpretPyTorch(const Pickle& pickle) {
  return pytorch_state::Interpreter(pickle).Run();
}

absl::Status CheckExpansion(const PyTorchState& state, int64_t file_size) {
  for (const PyTorchStorage& storage : state.storages) {  // compressed ones may be of any size
    if (storage.num_bytes <= file_size + kMaxExpansion) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("storage ", Quoted(storage.key), " has ", storage.num_bytes, " bytes, over ",
                     kMaxExpansion, " more than the file's ", file_size));
  }
  std::set<decltype(pytorch_state::ViewKey(state.tensors[0]))> views;
  int64_t total = 0;
  for (const PyTorchTensor& tensor : state.tensors) {
    if (tensor.xser_id >= 0 || !views.insert(pytorch_state::ViewKey(tensor)).second) continue;
    const int64_t bytes = *base::CheckedBytes(tensor.dtype, tensor.shape);
    if (__builtin_add_overflow(total, bytes, &total) || total > file_size + kMaxExpansion) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "tensor ", Quoted(tensor.name), ": the tensors are views of the same elements and take ",
          "over ", kMaxExpansion, " bytes more than the file's ", file_size));
    }
  }
  return absl::OkStatus();
}

std::vector<std::vector<size_t>> TensorsByStorage(const PyTorchState& state) {
  std::vector<std::vector<size_t>> tensors(state.storages.size());
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    if (state.tensors[i].xser_id < 0) tensors[state.tensors[i].storage].push_back(i);
  }
  return tensors;
}

absl::Status MakeTensors(const PyTorchState& state, absl::Span<const size_t> tensors,
                         const base::Array& bytes, std::vector<base::Array>& arrays) {
  using namespace pytorch_state;
  std::map<decltype(ViewKey(state.tensors[0])), Array> made;
  for (const size_t i : tensors) {
    const PyTorchTensor& tensor = state.tensors[i];
    Array& array = made[ViewKey(tensor)];
    if (!array.valid()) {
      const int64_t size = *base::CheckedBytes(tensor.dtype, tensor.shape);
      if (size > 0 && size == bytes.num_bytes() && IsContiguous(tensor)) {
        array = Array::View(tensor.dtype, tensor.shape, bytes.raw(), bytes.owner());
      } else {
        array = Array::Uninitialized(tensor.dtype, tensor.shape);
        if (size > 0) {
          CopyStrided(tensor, static_cast<const char*>(bytes.raw()),
                      static_cast<char*>(array.mutable_raw()));
        }
      }
      if (tensor.dtype == DType::kBool) {
        const auto* begin = static_cast<const uint8_t*>(array.raw());
        if (std::any_of(begin, begin + size, [](uint8_t b) { return b > 1; })) {
          return Malformed(tensor.name, "is of type bool and has a byte other than 0 and 1");
        }
      }
    }
    arrays[i] = array;
  }
  return absl::OkStatus();
}

}  // namespace penstock::save
