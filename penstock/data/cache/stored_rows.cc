#include "penstock/data/cache/stored_rows.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include <fcntl.h>
#include <sys/file.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/data/cache/rows_format.h"
#include "penstock/io/local/local_output_stream.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/uri.h"
#include "penstock/record/example.h"

namespace penstock::data {
namespace {

constexpr int64_t kFormat = 2;
// Format with stored errors of elements. Only used if there are any, so that older versions of this
// program can read the others; they rebuild what they cannot read.
constexpr int64_t kFormatWithErrors = 3;
constexpr absl::string_view kFileSuffix = ".tfrec";
// An element is as large as it is.
constexpr int64_t kMaxRecordBytes = int64_t{1} << 40;

struct Manifest {
  int64_t format = kFormat;
  std::vector<std::string> files;
  std::vector<int64_t> sizes;
  int64_t elements = 0;
  std::string pipeline, sources;
  ElementSpec spec;
};

std::string In(const StoredRowsKey& key, absl::string_view name) {
  return io::JoinPath(key.folder, name);
}
std::string ManifestName(const StoredRowsKey& key) { return absl::StrCat(key.kind, ".manifest"); }
std::string LockName(const StoredRowsKey& key) { return absl::StrCat(key.kind, ".lock"); }

// ---- The manifest ----

// Names and types of the columns, and all shapes one after the other, each behind its rank.
void PutSpec(const ElementSpec& spec, record::ExampleBuilder& example) {
  std::vector<absl::string_view> names, types;
  std::vector<int64_t> shapes;
  for (const ColumnSpec& column : spec.columns()) {
    names.push_back(column.name);
    types.push_back(base::DTypeName(column.dtype));
    shapes.push_back(column.shape.rank());
    shapes.insert(shapes.end(), column.shape.begin(), column.shape.end());
  }
  example.SetBytesList("columns", names);
  example.SetBytesList("types", types);
  example.SetInt64List("shapes", shapes);
}

absl::Status WriteManifest(io::FileSystem& fs, const StoredRowsKey& key, const Manifest& manifest) {
  record::ExampleBuilder example;
  example.SetInt64("format", manifest.format);
  example.SetBytesList(
      "files", std::vector<absl::string_view>(manifest.files.begin(), manifest.files.end()));
  example.SetInt64List("sizes", manifest.sizes);
  example.SetInt64("elements", manifest.elements);
  example.SetBytes("pipeline", manifest.pipeline);
  PutSpec(manifest.spec, example);
  example.SetBytes("sources", manifest.sources);
  PENSTOCK_ASSIGN_OR_RETURN(auto writer,
                            record::TfRecordWriter::Create(fs, In(key, ManifestName(key))));
  PENSTOCK_RETURN_IF_ERROR(writer->Append(example.Serialize()));
  return writer->Close();
}

template <typename T, typename Out>
bool GetList(const record::FeatureMap& features, const std::string& name, std::vector<Out>* out) {
  const auto it = features.find(name);
  if (it == features.end() || it->second.dtype() != base::DTypeOf<T>()) return false;
  for (const T& value : it->second.values<T>()) out->emplace_back(value);
  return true;
}

template <typename T, typename Out>
bool Get(const record::FeatureMap& features, const std::string& name, Out* out) {
  std::vector<Out> values;
  if (!GetList<T>(features, name, &values) || values.size() != 1) return false;
  *out = std::move(values[0]);
  return true;
}

bool GetSpec(const record::FeatureMap& features, ElementSpec* spec) {
  std::vector<std::string> names, types;
  std::vector<int64_t> shapes;
  if (!GetList<absl::string_view>(features, "columns", &names) ||
      !GetList<absl::string_view>(features, "types", &types) ||
      !GetList<int64_t>(features, "shapes", &shapes) || names.size() != types.size()) {
    return false;
  }
  auto at = shapes.begin();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto dtype = base::DTypeFromName(types[i]);
    const int64_t rank = at == shapes.end() ? -1 : *at++;
    if (!dtype.ok() || base::BitWidth(*dtype) % 8 != 0 || spec->Find(names[i]) >= 0 || rank < 0 ||
        rank >= base::kMaxRank || rank > shapes.end() - at) {
      return false;
    }
    const absl::Span<const int64_t> extents(shapes.data() + (at - shapes.begin()),
                                            static_cast<size_t>(rank));
    if (std::any_of(extents.begin(), extents.end(), [](int64_t e) { return e < -1; })) return false;
    at += rank;
    spec->Set({names[i], *dtype, base::Shape(extents)});
  }
  return at == shapes.end();
}

// Other errors, such as missing credentials, say nothing about what is there.
bool IsAbsentOrDamaged(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status);
}

// None when there is none, or a damaged one.
absl::StatusOr<std::optional<Manifest>> ReadManifest(io::FileSystem& fs, const StoredRowsKey& key) {
  const auto reader = record::TfRecordReader::Open(fs, In(key, ManifestName(key)));
  if (!reader.ok()) {
    if (IsAbsentOrDamaged(reader.status())) return std::nullopt;
    return reader.status();
  }
  const auto block = (*reader)->ReadBlock();
  if (!block.ok() && !IsAbsentOrDamaged(block.status())) return block.status();
  if (!block.ok() || block->size() != 1) return std::nullopt;
  const auto features = record::ReadExample(block->records[0]);
  Manifest manifest;
  if (!features.ok() || !Get<int64_t>(*features, "format", &manifest.format) ||
      (manifest.format != kFormat && manifest.format != kFormatWithErrors) ||
      !GetList<absl::string_view>(*features, "files", &manifest.files) ||
      !GetList<int64_t>(*features, "sizes", &manifest.sizes) ||
      !Get<int64_t>(*features, "elements", &manifest.elements) ||
      !Get<absl::string_view>(*features, "pipeline", &manifest.pipeline) ||
      !GetSpec(*features, &manifest.spec) ||
      !Get<absl::string_view>(*features, "sources", &manifest.sources) || manifest.elements < 0 ||
      manifest.files.size() != manifest.sizes.size()) {
    return std::nullopt;
  }
  for (const std::string& file : manifest.files) {
    if (absl::StrContains(file, "/")) return std::nullopt;
  }
  return manifest;
}

absl::Status CheckPipeline(const StoredRowsKey& key, const Manifest& manifest) {
  if (manifest.pipeline == key.pipeline && manifest.spec == key.spec) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the folder '", key.folder, "' holds the ", key.kind, " of another pipeline:\n",
                   manifest.pipeline, "of elements ", manifest.spec.ToString(),
                   ", but this one is:\n", key.pipeline, "of elements ", key.spec.ToString(),
                   "\nUse another folder, or remove that one"));
}

// ---- The folder ----

bool IsElementsFile(const StoredRowsKey& key, absl::string_view name) {
  return absl::ConsumePrefix(&name, absl::StrCat(key.kind, "-")) &&
         absl::ConsumeSuffix(&name, kFileSuffix) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isxdigit(c) || c == '-'; });
}

// Removes leftovers of killed runs and of older caches. If the folder contains other files, the
// owner of unpublished files is unknown.
void RemoveLeftovers(const StoredRowsKey& key, const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> elements, unpublished;
  bool others = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (IsElementsFile(key, name)) {
      elements.push_back(entry.path());
    } else if (io::IsUnpublished(name)) {
      unpublished.push_back(entry.path());
    } else {
      others = others || (name != ManifestName(key) && name != LockName(key));
    }
  }
  for (const auto& path : elements) std::filesystem::remove(path, error);
  if (others) return;
  for (const auto& path : unpublished) std::filesystem::remove(path, error);
}

absl::Status WithAdvice(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return absl::DataLossError(
      absl::StrCat(status.message(), "; remove that file to store the elements again"));
}

// None when one is missing, or of another size.
absl::StatusOr<std::optional<std::vector<std::string>>> WholeFiles(io::FileSystem& fs,
                                                                   const StoredRowsKey& key,
                                                                   const Manifest& manifest) {
  std::vector<std::string> files;
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    files.push_back(In(key, manifest.files[i]));
    const auto info = fs.Stat(files.back());
    if (!info.ok() && !IsAbsentOrDamaged(info.status())) return info.status();
    if (!info.ok() || info->size != manifest.sizes[i]) return std::nullopt;
  }
  return files;
}

class StoredRowsReader : public FileReader {
 public:
  StoredRowsReader(std::unique_ptr<record::TfRecordReader> reader, ElementSpec spec)
      : reader_(std::move(reader)), spec_(std::move(spec)) {}

  absl::StatusOr<FileBlock> Read() override {
    if (next_ == records_.size()) {
      auto records = reader_->ReadBlock();
      if (!records.ok()) return WithAdvice(records.status());
      records_ = *std::move(records);
      next_ = 0;
      if (records_.empty()) return FileBlock();
    }
    const absl::string_view record = records_.records[next_];
    FileBlock out = {.block = nullptr, .bytes = static_cast<int64_t>(record.size())};
    const absl::Status parsed = Parse(record, &out);
    if (!parsed.ok()) return WithAdvice(base::WithContext(parsed, records_.Origin(next_)));
    ++next_;
    return out;
  }

 private:
  absl::Status Parse(absl::string_view record, FileBlock* out) const {
    if (IsError(record)) return ParseError(record, &out->error);
    PENSTOCK_ASSIGN_OR_RETURN(out->block, ParseRows(record, records_.owner, spec_));
    return absl::OkStatus();
  }

  const std::unique_ptr<record::TfRecordReader> reader_;
  const ElementSpec spec_;
  record::RecordBlock records_;
  int64_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::optional<std::vector<std::string>>> FindStoredRows(io::FileSystem& fs,
                                                                       const StoredRowsKey& key) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<Manifest> manifest, ReadManifest(fs, key));
  if (!manifest.has_value()) return std::nullopt;
  PENSTOCK_RETURN_IF_ERROR(CheckPipeline(key, *manifest));
  if (manifest->sources != key.sources) return std::nullopt;
  return WholeFiles(fs, key, *manifest);
}

absl::StatusOr<StoredRows> ReadStoredRows(io::FileSystem& fs, const std::string& kind,
                                          const std::string& folder) {
  const StoredRowsKey key = {
      .kind = kind, .folder = folder, .pipeline = "", .spec = {}, .sources = ""};
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<Manifest> manifest, ReadManifest(fs, key));
  std::optional<std::vector<std::string>> files;
  if (manifest.has_value()) {
    PENSTOCK_ASSIGN_OR_RETURN(files, WholeFiles(fs, key, *manifest));
  }
  if (!files.has_value()) {
    return absl::NotFoundError(absl::StrCat("there is no complete ", kind, " in the folder '",
                                            folder,
                                            "': read its pipeline to the end once to make it"));
  }
  return StoredRows{
      .spec = manifest->spec, .files = *std::move(files), .elements = manifest->elements};
}

absl::StatusOr<std::unique_ptr<FileReader>> OpenStoredRows(io::FileSystem& fs,
                                                           const std::string& file,
                                                           const ElementSpec& spec) {
  PENSTOCK_ASSIGN_OR_RETURN(auto stream, fs.OpenInput(file));
  PENSTOCK_ASSIGN_OR_RETURN(
      auto reader, record::TfRecordReader::FromStream(std::move(stream),
                                                      {.compression = record::Compression::kNone,
                                                       .max_record_bytes = kMaxRecordBytes}));
  return std::make_unique<StoredRowsReader>(std::move(reader), spec);
}

StoredRowsWriter::StoredRowsWriter(std::shared_ptr<io::FileSystem> fs, const StoredRowsKey& key,
                                   int64_t shard_bytes, io::FileDescriptor lock)
    : fs_(std::move(fs)),
      key_(key),
      shard_bytes_(shard_bytes),
      lock_(std::move(lock)),
      id_(absl::StrCat(absl::Hex(base::EntropySeed(), absl::kZeroPad16))) {}

absl::StatusOr<std::unique_ptr<StoredRowsWriter>> StoredRowsWriter::Create(
    std::shared_ptr<io::FileSystem> fs, const StoredRowsKey& key, int64_t shard_bytes) {
  PENSTOCK_RETURN_IF_ERROR(fs->CreateFolder(key.folder));
  PENSTOCK_ASSIGN_OR_RETURN(const io::Uri uri, io::ParseUri(key.folder));
  io::FileDescriptor lock;
  if (uri.is_local()) {
    const std::string path = io::JoinPath(uri.path, LockName(key));
    lock = io::FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!lock.valid()) return io::PosixError(errno, "open", path);
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return nullptr;
      return io::PosixError(errno, "lock", path);
    }
  }
  return std::unique_ptr<StoredRowsWriter>(
      new StoredRowsWriter(std::move(fs), key, shard_bytes, std::move(lock)));
}

absl::Status StoredRowsWriter::OpenFile() {
  if (files_.empty() && lock_.valid()) RemoveLeftovers(key_, io::ParseUri(key_.folder)->path);
  files_.push_back(absl::StrFormat("%s-%s-%05d%s", key_.kind, id_, files_.size(), kFileSuffix));
  PENSTOCK_ASSIGN_OR_RETURN(writer_, record::TfRecordWriter::Create(*fs_, In(key_, files_.back())));
  return absl::OkStatus();
}

absl::Status StoredRowsWriter::CloseFile() {
  sizes_.push_back(writer_->offset());
  PENSTOCK_RETURN_IF_ERROR(writer_->Close());
  writer_ = nullptr;
  return absl::OkStatus();
}

absl::Status StoredRowsWriter::Append(const RowRefs& rows) {
  elements_ += rows.size();
  return AppendRecord(SerializeRows(rows, key_.spec));
}

absl::Status StoredRowsWriter::AppendError(const absl::Status& error) {
  ++elements_;
  has_errors_ = true;
  return AppendRecord(SerializeError(error));
}

absl::Status StoredRowsWriter::AppendRecord(absl::string_view record) {
  if (writer_ == nullptr) PENSTOCK_RETURN_IF_ERROR(OpenFile());
  PENSTOCK_RETURN_IF_ERROR(writer_->Append(record));
  return writer_->offset() < shard_bytes_ ? absl::OkStatus() : CloseFile();
}

absl::Status StoredRowsWriter::Publish() {
  if (files_.empty()) PENSTOCK_RETURN_IF_ERROR(OpenFile());
  if (writer_ != nullptr) PENSTOCK_RETURN_IF_ERROR(CloseFile());
  return WriteManifest(*fs_, key_,
                       {.format = has_errors_ ? kFormatWithErrors : kFormat,
                        .files = files_,
                        .sizes = sizes_,
                        .elements = elements_,
                        .pipeline = key_.pipeline,
                        .sources = key_.sources,
                        .spec = key_.spec});
}

}  // namespace penstock::data
