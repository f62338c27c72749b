// StageFields: the parameters of a stage as fields of a JSON object, written and read by one function.
//
//   struct TakeFields { int64_t count = 0; };
//   void Fields(StageFields& f, TakeFields& p) { f.Value("count", &p.count); }
//
//   absl::Status TakeStage::WriteFields(StageFields& out) const { return Write(out, TakeFields{count_}); }
//   absl::StatusOr<Dataset> ReadTake(StageFields& in, std::vector<Dataset> inputs) {
//     PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<TakeFields>(in));
//     return inputs[0].Take(p.count);
//   }
//
// A field with its default value is not written, and a field that the reader does not know is an error:
// a worker that is older than its client then rejects a pipeline exactly when it would run it differently.
// All URIs go through Reads and Writes: they are checked before a stage is read (DatasetJsonLimits::check).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include <nlohmann/json_fwd.hpp>

#include "penstock/base/array.h"
#include "penstock/base/dtype.h"
#include "penstock/base/shape.h"
#include "penstock/base/status.h"
#include "penstock/data/spec.h"

namespace penstock::io {
class FileSystem;
}

namespace penstock::data {

class UploadedRows;

class StageFields {
 public:
  // Writes.
  StageFields();
  // Reads a stage's object, which must outlive it. `file_system` opens what a description looks at; null: the
  // default.
  StageFields(const nlohmann::json& stage, std::shared_ptr<io::FileSystem> file_system);
  ~StageFields();

  // Each writes *value as the field, or sets *value to it; a field that is missing leaves *value unchanged. An
  // error (another type, a number outside the type's range) is stored for status().
  void Value(const char* name, bool* value);
  void Value(const char* name, int* value);
  void Value(const char* name, int64_t* value);
  void Value(const char* name, uint64_t* value);
  void Value(const char* name, float* value);
  void Value(const char* name, double* value);
  void Value(const char* name, char* value);  // a string of one byte
  void Value(const char* name, std::string* value);
  void Value(const char* name, base::DType* value);
  void Value(const char* name, base::Shape* value);
  void Value(const char* name, base::Array* value);
  void Value(const char* name, ElementSpec* value);
  void Value(const char* name, std::vector<std::string>* value);
  void Value(const char* name, std::vector<double>* value);
  void Value(const char* name, std::vector<int64_t>* value);
  void Value(const char* name, std::array<double, 2>* value);
  void Value(const char* name, std::array<float, 3>* value);
  template <typename T>
  void Value(const char* name, std::optional<T>* value) {
    if (!value->has_value()) {
      if (!Has(name)) return;
      value->emplace();
    }
    Value(name, &**value);
  }
  template <typename T>
  void Value(const char* name, std::vector<std::pair<std::string, T>>* value) {
    List(name, value, [](StageFields& f, std::pair<std::string, T>& entry) {
      f.Value("name", &entry.first);
      f.Value("value", &entry.second);
    });
  }
  // An enumerator by its name.
  template <typename E>
  void Choice(const char* name, E* value, absl::Span<const char* const> names) {
    int index = static_cast<int>(*value);
    ChoiceIndex(name, &index, names);
    *value = static_cast<E>(index);
  }
  // A list of objects, each with the fields of `fields(StageFields&, T&)`.
  template <typename T, typename F>
  void List(const char* name, std::vector<T>* values, F fields) {
    const size_t size = BeginList(name, values->size());
    if (reading()) values->resize(size);
    for (size_t i = 0; i < size; ++i) {
      if (StageFields* entry = Entry(name, i)) {
        fields(*entry, (*values)[i]);
        EndEntry(name);
      }
    }
  }
  // URIs, or patterns of them, that the stage reads or writes. At most one call of each for a stage.
  void Reads(std::vector<std::string>* uris);
  void Reads(std::string* uri);
  void Writes(std::string* uri);
  // When writing: the name of the reader, if it is not the stage's.
  void SetStage(const char* name);
  // The value must be from `least` to `most`.
  void CheckRange(const char* name, int64_t value, int64_t least, int64_t most);

  // Stores the first error.
  void Fail(absl::Status status);

  bool reading() const { return read_ != nullptr; }
  // When reading: the rows that another process has computed and sent (cache/uploaded_rows.h), by their number.
  using UploadedRowsOf =
      std::function<absl::StatusOr<std::shared_ptr<const UploadedRows>>(int64_t number)>;
  void set_uploaded_rows(UploadedRowsOf of) { uploaded_rows_ = std::move(of); }
  absl::StatusOr<std::shared_ptr<const UploadedRows>> uploaded_rows(int64_t number) const;
  const std::shared_ptr<io::FileSystem>& file_system() const { return file_system_; }
  const absl::Status& status() const { return status_; }
  // When reading: status(), or the first field that was not asked for.
  absl::Status Finish() const;
  // When writing: removes fields that are the same in `defaults`.
  void RemoveDefaults(const StageFields& defaults);
  // When writing: the object.
  const nlohmann::json& object() const { return *written_; }
  std::string Text() const;

 private:
  bool Has(const char* name);
  const nlohmann::json* Find(const char* name);
  template <typename T>
  void Field(const char* name, T* value);
  void ChoiceIndex(const char* name, int* index, absl::Span<const char* const> names);
  size_t BeginList(const char* name, size_t size);
  StageFields* Entry(const char* name, size_t index);
  void EndEntry(const char* name);

  const nlohmann::json* read_ = nullptr;
  std::shared_ptr<io::FileSystem> file_system_;
  UploadedRowsOf uploaded_rows_;
  std::unique_ptr<nlohmann::json> written_;
  std::vector<std::string> known_;  // fields asked for while reading
  std::unique_ptr<StageFields> entry_;
  absl::Status status_;
};

// Options of a source that interleaves files; block_bytes where there are any.
template <typename Options>
void FileInterleaveFields(StageFields& f, Options& o, int64_t max_parallel_files) {
  f.Value("parallel_files", &o.parallel_files);
  f.CheckRange("parallel_files", o.parallel_files, 0, max_parallel_files);
  f.Value("block_length", &o.block_length);
  f.Value("shuffle_files", &o.shuffle_files);
  f.Value("read_ahead_bytes", &o.read_ahead_bytes);
  if constexpr (requires { o.block_bytes; }) f.Value("block_bytes", &o.block_bytes);
}

// Writes the fields of `parameters` that differ from those of a new P.
template <typename P>
absl::Status Write(StageFields& out, P parameters) {
  StageFields defaults;
  P fresh;
  Fields(defaults, fresh);
  Fields(out, parameters);
  out.RemoveDefaults(defaults);
  return out.status();
}

template <typename P>
absl::StatusOr<P> Read(StageFields& in) {
  P parameters;
  Fields(in, parameters);
  if (absl::Status status = in.Finish(); !status.ok()) return status;
  return parameters;
}

// ---- Objects that are no stages: what processes tell each other about a pipeline ----

// A text's object; `what` begins errors: "the options of a feed".
absl::StatusOr<std::shared_ptr<const nlohmann::json>> ParseObject(absl::string_view text,
                                                                  absl::string_view what,
                                                                  int max_levels);

// Text of the fields of `fields(StageFields&, P&)`.
template <typename P, typename F>
std::string ToText(P parameters, F fields) {
  StageFields out;
  fields(out, parameters);
  return out.Text();
}

// What to do with fields that this version does not know.
enum class OtherFields { kReject, kIgnore };

// Reads text from anywhere.
template <typename P, typename F>
absl::StatusOr<P> FromText(absl::string_view text, absl::string_view what, int max_levels,
                           OtherFields others, F fields) {
  const auto object = ParseObject(text, what, max_levels);
  if (!object.ok()) return object.status();
  StageFields in(**object, nullptr);
  P parameters;
  fields(in, parameters);
  absl::Status status = others == OtherFields::kReject ? in.Finish() : in.status();
  if (!status.ok()) return base::WithContext(status, what);
  return parameters;
}

}  // namespace penstock::data
