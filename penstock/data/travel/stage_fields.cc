#include "penstock/data/travel/stage_fields.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

#include "penstock/base/json_dump.h"
#include "penstock/base/json_nesting.h"
#include "penstock/base/status.h"

namespace penstock::data {
namespace {

using nlohmann::json;

// Fields that are not parameters (dataset_json.h).
bool IsReserved(const std::string& name) { return name == "stage" || name == "inputs"; }

absl::Status Expected(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what));
}

// ---- Values: ToJson writes, FromJson reads ----

template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
absl::Status ToJson(const T& value, json* out) {
  *out = value;
  return absl::OkStatus();
}
absl::Status FromJson(const json& in, bool* value) {
  if (!in.is_boolean()) return Expected("true or false");
  *value = in.get<bool>();
  return absl::OkStatus();
}
template <typename T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
absl::Status FromJson(const json& in, T* value) {
  const auto outside = [] {
    return Expected(absl::StrCat("an integer from ", std::numeric_limits<T>::min(), " to ",
                                 std::numeric_limits<T>::max()));
  };
  if (in.is_number_unsigned()) {
    const auto number = in.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<T>::max())) return outside();
    *value = static_cast<T>(number);
  } else if (in.is_number_integer()) {
    const auto number = in.get<int64_t>();
    if (std::is_unsigned_v<T> ? number < 0
                              : number < static_cast<int64_t>(std::numeric_limits<T>::min())) {
      return outside();
    }
    *value = static_cast<T>(number);
  } else {
    return outside();
  }
  return absl::OkStatus();
}

template <typename T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
absl::Status ToJson(const T& value, json* out) {
  // JSON has no other numbers.
  if (!std::isfinite(value)) return Expected("a finite number");
  *out = static_cast<double>(value);
  return absl::OkStatus();
}
template <typename T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
absl::Status FromJson(const json& in, T* value) {
  if (!in.is_number()) return Expected("a number");
  *value = static_cast<T>(in.get<double>());
  return std::isfinite(*value) ? absl::OkStatus() : Expected("a finite number");
}

absl::Status ToJson(const std::string& value, json* out) {
  if (base::ReplaceInvalidUtf8(value) != value) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::CHexEscape(value), "' is not UTF-8, as JSON requires; rename it"));
  }
  *out = value;
  return absl::OkStatus();
}
absl::Status FromJson(const json& in, std::string* value) {
  if (!in.is_string()) return Expected("a string");
  *value = in.get<std::string>();
  return absl::OkStatus();
}

absl::Status ToJson(const char& value, json* out) { return ToJson(std::string(1, value), out); }
absl::Status FromJson(const json& in, char* value) {
  std::string text;
  PENSTOCK_RETURN_IF_ERROR(FromJson(in, &text));
  if (text.size() != 1) return Expected("a string of one byte");
  *value = text[0];
  return absl::OkStatus();
}

absl::Status ToJson(const base::DType& value, json* out) {
  *out = value == base::DType::kInvalid ? std::string() : std::string(base::DTypeName(value));
  return absl::OkStatus();
}
absl::Status FromJson(const json& in, base::DType* value) {
  std::string name;
  PENSTOCK_RETURN_IF_ERROR(FromJson(in, &name));
  *value = base::DType::kInvalid;
  if (name.empty()) return absl::OkStatus();
  PENSTOCK_ASSIGN_OR_RETURN(*value, base::DTypeFromName(name));
  return absl::OkStatus();
}

template <typename T>
absl::Status ListToJson(const T& values, json* out) {
  *out = json::array();
  for (const auto& value : values) {
    json entry;
    PENSTOCK_RETURN_IF_ERROR(ToJson(value, &entry));
    out->push_back(std::move(entry));
  }
  return absl::OkStatus();
}
template <typename T>
absl::Status ToJson(const std::vector<T>& values, json* out) {
  return ListToJson(values, out);
}
template <typename T, size_t n>
absl::Status ToJson(const std::array<T, n>& values, json* out) {
  return ListToJson(values, out);
}
template <typename T>
absl::Status FromJson(const json& in, std::vector<T>* values) {
  if (!in.is_array()) return Expected("a list");
  values->clear();
  values->reserve(in.size());
  for (const json& entry : in) {
    T value{};
    PENSTOCK_RETURN_IF_ERROR(FromJson(entry, &value));
    values->push_back(std::move(value));
  }
  return absl::OkStatus();
}
template <typename T, size_t n>
absl::Status FromJson(const json& in, std::array<T, n>* values) {
  if (!in.is_array() || in.size() != n) return Expected(absl::StrCat("a list of ", n));
  for (size_t i = 0; i < n; ++i) PENSTOCK_RETURN_IF_ERROR(FromJson(in[i], &(*values)[i]));
  return absl::OkStatus();
}

absl::Status ToJson(const base::Shape& shape, json* out) { return ListToJson(shape, out); }
absl::Status FromJson(const json& in, base::Shape* shape) {
  std::vector<int64_t> dims;
  PENSTOCK_RETURN_IF_ERROR(FromJson(in, &dims));
  if (dims.size() > static_cast<size_t>(base::kMaxRank)) {
    return Expected(absl::StrCat("at most ", base::kMaxRank, " dimensions"));
  }
  for (int64_t dim : dims) {
    if (dim < -1) return Expected("dimensions of at least -1");
  }
  *shape = base::Shape(absl::MakeConstSpan(dims));
  return absl::OkStatus();
}

// Bytes in hexadecimal: exact for every type, and small, because only default values of features and of
// padding are written.
absl::Status ToJson(const base::Array& array, json* out) {
  json dtype, shape;
  PENSTOCK_RETURN_IF_ERROR(ToJson(array.dtype(), &dtype));
  PENSTOCK_RETURN_IF_ERROR(ToJson(array.shape(), &shape));
  *out = {{"dtype", dtype}, {"shape", shape}};
  if (array.dtype() == base::DType::kString) {
    json strings = json::array();
    for (absl::string_view s : array.values<absl::string_view>()) {
      strings.push_back(absl::BytesToHexString(s));
    }
    (*out)["strings"] = std::move(strings);
    return absl::OkStatus();
  }
  (*out)["bytes"] = absl::BytesToHexString(absl::string_view(
      static_cast<const char*>(array.raw()), static_cast<size_t>(array.num_bytes())));
  return absl::OkStatus();
}

absl::Status FromHex(const json& in, std::string* bytes) {
  std::string text;
  PENSTOCK_RETURN_IF_ERROR(FromJson(in, &text));
  const bool is_hex =
      text.size() % 2 == 0 && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
  if (!is_hex) return Expected("an even number of hexadecimal digits");
  *bytes = absl::HexStringToBytes(text);
  return absl::OkStatus();
}

absl::Status FromJson(const json& in, base::Array* array) {
  if (!in.is_object() || !in.contains("dtype") || !in.contains("shape")) {
    return Expected("an array: dtype, shape, and bytes or strings");
  }
  base::DType dtype;
  base::Shape shape;
  PENSTOCK_RETURN_IF_ERROR(FromJson(in["dtype"], &dtype));
  PENSTOCK_RETURN_IF_ERROR(FromJson(in["shape"], &shape));
  int64_t elements = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) {
      return Expected("a shape without unknown dimensions");
    }
  }
  if (dtype == base::DType::kString) {
    if (!in.contains("strings") || !in["strings"].is_array() ||
        static_cast<int64_t>(in["strings"].size()) != elements) {
      return Expected(absl::StrCat(elements, " strings"));
    }
    std::vector<std::string> strings;
    for (const json& entry : in["strings"]) {
      PENSTOCK_RETURN_IF_ERROR(FromHex(entry, &strings.emplace_back()));
    }
    *array = base::Array::Strings(shape, absl::MakeConstSpan(strings));
    return absl::OkStatus();
  }
  const int bits = dtype == base::DType::kInvalid ? 0 : base::BitWidth(dtype);
  if (bits == 0 || bits % 8 != 0) return Expected("a type of whole bytes");
  std::string bytes;
  if (in.contains("bytes")) PENSTOCK_RETURN_IF_ERROR(FromHex(in["bytes"], &bytes));
  int64_t size = 0;
  if (__builtin_mul_overflow(elements, bits / 8, &size) ||
      size != static_cast<int64_t>(bytes.size())) {
    return Expected(absl::StrCat("the bytes of ", shape.ToString()));
  }
  // A bool is 0 or 1 in memory.
  if (dtype == base::DType::kBool &&
      std::any_of(bytes.begin(), bytes.end(), [](char c) { return c < 0 || c > 1; })) {
    return Expected("bools of 00 or 01");
  }
  base::Array read = base::Array::Uninitialized(dtype, shape);
  if (size > 0) std::memcpy(read.mutable_raw(), bytes.data(), bytes.size());
  *array = std::move(read);
  return absl::OkStatus();
}

absl::Status ToJson(const ElementSpec& spec, json* out) {
  *out = json::array();
  for (const ColumnSpec& column : spec.columns()) {
    json name, dtype, shape;
    PENSTOCK_RETURN_IF_ERROR(ToJson(column.name, &name));
    PENSTOCK_RETURN_IF_ERROR(ToJson(column.dtype, &dtype));
    PENSTOCK_RETURN_IF_ERROR(ToJson(column.shape, &shape));
    out->push_back({{"name", name}, {"dtype", dtype}, {"shape", shape}});
  }
  return absl::OkStatus();
}
absl::Status FromJson(const json& in, ElementSpec* spec) {
  if (!in.is_array()) return Expected("a list of columns");
  std::vector<ColumnSpec> columns;
  for (const json& entry : in) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("dtype") ||
        !entry.contains("shape")) {
      return Expected("columns of name, dtype and shape");
    }
    ColumnSpec& column = columns.emplace_back();
    PENSTOCK_RETURN_IF_ERROR(FromJson(entry["name"], &column.name));
    PENSTOCK_RETURN_IF_ERROR(FromJson(entry["dtype"], &column.dtype));
    if (column.dtype == base::DType::kInvalid) return Expected("columns with a type");
    PENSTOCK_RETURN_IF_ERROR(FromJson(entry["shape"], &column.shape));
  }
  *spec = ElementSpec(std::move(columns));
  return absl::OkStatus();
}

}  // namespace

StageFields::StageFields() : written_(std::make_unique<json>(json::object())) {}
StageFields::StageFields(const json& stage, std::shared_ptr<io::FileSystem> file_system)
    : read_(&stage), file_system_(std::move(file_system)) {}
StageFields::~StageFields() = default;

void StageFields::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

const json* StageFields::Find(const char* name) {
  known_.emplace_back(name);
  if (!read_->is_object()) return nullptr;
  const auto it = read_->find(name);
  return it == read_->end() ? nullptr : &*it;
}

bool StageFields::Has(const char* name) { return reading() && Find(name) != nullptr; }

template <typename T>
void StageFields::Field(const char* name, T* value) {
  absl::Status status;
  if (reading()) {
    if (const json* in = Find(name)) status = FromJson(*in, value);
  } else {
    status = ToJson(*value, &(*written_)[name]);
  }
  if (!status.ok()) Fail(base::WithContext(status, absl::StrCat("'", name, "'")));
}

void StageFields::Value(const char* name, bool* value) { Field(name, value); }
void StageFields::Value(const char* name, int* value) { Field(name, value); }
void StageFields::Value(const char* name, int64_t* value) { Field(name, value); }
void StageFields::Value(const char* name, uint64_t* value) { Field(name, value); }
void StageFields::Value(const char* name, float* value) { Field(name, value); }
void StageFields::Value(const char* name, double* value) { Field(name, value); }
void StageFields::Value(const char* name, char* value) { Field(name, value); }
void StageFields::Value(const char* name, std::string* value) { Field(name, value); }
void StageFields::Value(const char* name, base::DType* value) { Field(name, value); }
void StageFields::Value(const char* name, base::Shape* value) { Field(name, value); }
void StageFields::Value(const char* name, base::Array* value) { Field(name, value); }
void StageFields::Value(const char* name, ElementSpec* value) { Field(name, value); }
void StageFields::Value(const char* name, std::vector<std::string>* value) { Field(name, value); }
void StageFields::Value(const char* name, std::vector<double>* value) { Field(name, value); }
void StageFields::Value(const char* name, std::vector<int64_t>* value) { Field(name, value); }
void StageFields::Value(const char* name, std::array<double, 2>* value) { Field(name, value); }
void StageFields::Value(const char* name, std::array<float, 3>* value) { Field(name, value); }

void StageFields::ChoiceIndex(const char* name, int* index, absl::Span<const char* const> names) {
  std::string text = *index >= 0 && *index < static_cast<int>(names.size()) ? names[*index] : "";
  Field(name, &text);
  if (!reading()) return;
  const auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end()) {
    *index = 0;
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("'", name, "': '", text, "' is none of its values")));
  }
  *index = static_cast<int>(it - names.begin());
}

size_t StageFields::BeginList(const char* name, size_t size) {
  if (!reading()) {
    (*written_)[name] = json::array();
    return size;
  }
  const json* list = Find(name);
  if (list == nullptr) return 0;
  if (list->is_array()) return list->size();
  Fail(absl::InvalidArgumentError(absl::StrCat("'", name, "': expected a list")));
  return 0;
}

StageFields* StageFields::Entry(const char* name, size_t index) {
  if (!status_.ok()) return nullptr;
  if (reading()) {
    const json& entry = (*read_)[name][index];
    if (!entry.is_object()) {
      Fail(absl::InvalidArgumentError(absl::StrCat("'", name, "': expected a list of objects")));
      return nullptr;
    }
    entry_ = std::make_unique<StageFields>(entry, file_system_);
  } else {
    entry_ = std::make_unique<StageFields>();
  }
  return entry_.get();
}

void StageFields::EndEntry(const char* name) {
  const absl::Status status = reading() ? entry_->Finish() : entry_->status();
  if (!status.ok()) return Fail(base::WithContext(status, absl::StrCat("'", name, "'")));
  if (!reading()) (*written_)[name].push_back(entry_->object());
}

void StageFields::Reads(std::vector<std::string>* uris) { Field("reads", uris); }
void StageFields::Reads(std::string* uri) {
  std::vector<std::string> one = {*uri};
  Field("reads", &one);
  if (one.size() != 1) return Fail(absl::InvalidArgumentError("'reads': expected one URI"));
  *uri = one[0];
}
void StageFields::Writes(std::string* uri) {
  std::vector<std::string> one = {*uri};
  if (uri->empty()) one.clear();
  Field("writes", &one);
  if (one.size() > 1) return Fail(absl::InvalidArgumentError("'writes': expected at most one URI"));
  *uri = one.empty() ? "" : one[0];
}

void StageFields::SetStage(const char* name) { (*written_)["stage"] = name; }

void StageFields::CheckRange(const char* name, int64_t value, int64_t least, int64_t most) {
  if (!reading() || (value >= least && value <= most)) return;
  Fail(absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is ", value, "; expected ", least, " to ", most)));
}

absl::StatusOr<std::shared_ptr<const UploadedRows>> StageFields::uploaded_rows(
    int64_t number) const {
  if (uploaded_rows_ != nullptr) return uploaded_rows_(number);
  return absl::InvalidArgumentError(absl::StrCat("no rows ", number, " have been sent here"));
}

std::string StageFields::Text() const { return base::DumpJson(*written_); }

absl::StatusOr<std::shared_ptr<const json>> ParseObject(absl::string_view text,
                                                        absl::string_view what, int max_levels) {
  if (base::NestsDeeperThan(text, max_levels)) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": the JSON nests too deep"));
  }
  auto object = std::make_shared<const json>(
      json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false));
  if (!object->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": this is no JSON object"));
  }
  return object;
}

absl::Status StageFields::Finish() const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  for (const auto& [name, value] : read_->items()) {
    if (IsReserved(name) || std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no option '", name,
        "' here; the other side is newer, or the text is wrong: install the same version on both"));
  }
  return absl::OkStatus();
}

void StageFields::RemoveDefaults(const StageFields& defaults) {
  for (const auto& [name, value] : defaults.written_->items()) {
    const auto it = written_->find(name);
    if (it != written_->end() && *it == value) written_->erase(it);
  }
}

}  // namespace penstock::data
