#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/sources/file_interleave.h"
#include "penstock/data/sources/files.h"
#include "penstock/data/sources/from_arrays.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/formats/npy.h"
#include "penstock/formats/zip.h"
#include "penstock/io/local/mapped_file.h"
#include "penstock/io/uri.h"

namespace penstock::data {
namespace {

using base::Array;
using base::DType;
using base::NamedArrays;

constexpr absl::string_view kNpy = ".npy";
constexpr absl::string_view kNpz = ".npz";

// One array of the file, not yet read.
struct StoredArray {
  std::string name;
  formats::NpyInfo info;      // not of deflated ones
  formats::ZipMember member;  // of .npz
  bool in_npz = false;
  absl::string_view npy;   // its .npy file within the mapped file; empty when deflated
  int64_t offset = 0;      // offset of its first element in the file
  std::string not_mapped;  // reason why it cannot be mapped; empty if it can
};

// Hold the header of every array but those of many fields, which are refused anyway.
constexpr int64_t kHeaderBytes = 64 << 10;

std::string NameOfNpy(absl::string_view uri) {
  const std::string name = io::Basename(uri);
  return std::string(absl::StripSuffix(name, kNpy));
}

// ---- What there is ----

absl::Status DescribeMapped(absl::string_view file, StoredArray* array) {
  array->offset = array->npy.data() - file.data() + array->info.offset;
  array->not_mapped = array->info.incompatibility;
  const int64_t size = static_cast<int64_t>(array->npy.size()) - array->info.offset;
  if (array->info.bytes != size) {
    return absl::DataLossError(absl::StrCat("'", array->name, "' should have ", array->info.bytes,
                                            " bytes of elements, but has ", size));
  }
  if (!array->not_mapped.empty()) return absl::OkStatus();
  const int64_t width = base::ByteWidth(array->info.dtype);
  if (array->offset % width != 0) {
    array->not_mapped =
        absl::StrCat("its elements of ", width, " bytes are not aligned in the archive");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoredArray>> ListNpy(absl::string_view file, absl::string_view uri) {
  StoredArray array;
  array.name = NameOfNpy(uri);
  array.npy = file;
  PENSTOCK_ASSIGN_OR_RETURN(array.info, formats::ReadNpyInfo(file));
  PENSTOCK_RETURN_IF_ERROR(DescribeMapped(file, &array));
  return std::vector<StoredArray>{std::move(array)};
}

absl::StatusOr<std::vector<StoredArray>> ListNpz(absl::string_view file,
                                                 const std::vector<std::string>& select) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<formats::ZipMember> members, formats::ListZip(file));
  std::vector<StoredArray> arrays;
  for (const formats::ZipMember& member : members) {
    StoredArray array;
    array.name = std::string(absl::StripSuffix(member.name, kNpy));
    array.member = member;
    array.in_npz = true;
    const bool twice = std::any_of(arrays.begin(), arrays.end(), [&](const StoredArray& other) {
      return other.name == array.name;
    });
    if (twice) {
      return absl::DataLossError(
          absl::StrCat(".npz: there are two arrays named '", array.name, "'"));
    }
    if (!select.empty() && std::find(select.begin(), select.end(), array.name) == select.end()) {
      // Not an array: Select ignores it.
    } else if (member.deflated) {
      array.not_mapped = "it is compressed (numpy.savez does not compress)";
    } else {
      array.npy = member.compressed;
      PENSTOCK_ASSIGN_OR_RETURN(array.info, formats::ReadNpyInfo(array.npy));
      PENSTOCK_RETURN_IF_ERROR(DescribeMapped(file, &array));
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

template <typename Named>
absl::StatusOr<std::vector<Named>> Select(std::vector<Named> all, const NpyOptions& options,
                                          std::string (*name_of)(const Named&)) {
  if (options.select.empty()) return all;
  std::vector<Named> selected;
  for (const std::string& name : options.select) {
    const auto it = std::find_if(all.begin(), all.end(),
                                 [&](const Named& array) { return name_of(array) == name; });
    if (it == all.end()) {
      const auto print = [&](std::string* out, const Named& a) {
        absl::StrAppend(out, name_of(a));
      };
      return absl::NotFoundError(absl::StrCat("there is no array '", name,
                                              "'; there are: ", absl::StrJoin(all, ", ", print)));
    }
    selected.push_back(*it);
  }
  return selected;
}

std::string NameOf(const StoredArray& array) { return array.name; }

// ---- Into memory ----

absl::Status CheckFits(int64_t bytes, const NpyOptions& options) {
  base::MemoryHeadroom room = {options.memory_bytes, "NpyOptions::memory_bytes"};
  if (options.memory_bytes == 0) room = base::AvailableMemory();
  if (bytes <= room.bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "loading it needs ", base::PrintBytes(bytes), " of memory, but ",
      base::PrintBytes(room.bytes), " are available (", room.limited_by,
      "). Alternatives: .access = NpyAccess::kStream, which reads block by block; a local "
      "file written by numpy.save, which is memory-mapped instead of loaded; .Cache(FOLDER) after "
      "kStream, on a local disk; shards made by `penstock pack`. "
      ".memory_bytes = N loads up to N bytes anyway"));
}

// If elements have another layout, there are two copies of them during the conversion.
int64_t BytesToLoad(const StoredArray& array) {
  if (array.member.deflated) return array.member.size;
  return (array.info.incompatibility.empty() ? 1 : 2) * array.info.bytes;
}

absl::StatusOr<Array> Load(const StoredArray& array) {
  if (!array.in_npz) return formats::ParseNpy(array.npy);
  return formats::ParseNpzMember(array.member);
}

absl::StatusOr<NamedArrays> MapOrLoad(const std::vector<StoredArray>& stored,
                                      const std::shared_ptr<const io::MappedFile>& file,
                                      const NpyOptions& options) {
  int64_t bytes = 0;
  for (const StoredArray& array : stored) {
    const bool map = options.access != NpyAccess::kLoad && array.not_mapped.empty();
    if (!map && options.access == NpyAccess::kMap) {
      return absl::FailedPreconditionError(absl::StrCat("'", array.name,
                                                        "' cannot be mapped: ", array.not_mapped,
                                                        "; a file written by numpy.save can"));
    }
    if (!map) bytes += BytesToLoad(array);
  }
  PENSTOCK_RETURN_IF_ERROR(CheckFits(bytes, options));
  NamedArrays arrays;
  for (const StoredArray& array : stored) {
    const bool map = options.access != NpyAccess::kLoad && array.not_mapped.empty();
    PENSTOCK_ASSIGN_OR_RETURN(Array values, map ? formats::ParseNpy(array.npy, file) : Load(array));
    arrays.Set(array.name, std::move(values));
  }
  return arrays;
}

// Of a file that is not local.
absl::StatusOr<NamedArrays> LoadRemote(io::FileSystem& file_system, const std::string& uri,
                                       const NpyOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const io::FileInfo info, file_system.Stat(uri));
  if (absl::EndsWith(io::Basename(uri), kNpz)) {
    // The archive, and the arrays unpacked from it.
    PENSTOCK_RETURN_IF_ERROR(CheckFits(2 * info.size, options));
    PENSTOCK_ASSIGN_OR_RETURN(const NamedArrays arrays, formats::ReadNpz(file_system, uri));
    PENSTOCK_ASSIGN_OR_RETURN(
        const auto selected,
        Select<NamedArrays::Entry>({arrays.begin(), arrays.end()}, options,
                                   [](const NamedArrays::Entry& entry) { return entry.first; }));
    NamedArrays out;
    for (const auto& [name, array] : selected) out.Set(name, array);
    return out;
  }
  PENSTOCK_RETURN_IF_ERROR(CheckFits(info.size, options));
  PENSTOCK_ASSIGN_OR_RETURN(Array array, formats::ReadNpy(file_system, uri));
  return NamedArrays{{NameOfNpy(uri), std::move(array)}};
}

absl::Status CheckRows(const NamedArrays& arrays) {
  for (const auto& [name, array] : arrays) {
    const Array& first = arrays[0].second;
    if (array.rank() == 0 || first.rank() == 0 || array.dim(0) == first.dim(0)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name, "' is ", array.TypeString(), ", but '", arrays[0].first, "' is ",
        first.TypeString(), ": different numbers of rows; .select selects some of the arrays"));
  }
  return absl::OkStatus();
}

// ---- A block at a time ----

struct StreamedColumn {
  ColumnSpec spec;
  int64_t offset = 0;  // of the first row in the file
  int64_t row_bytes = 0;
};

struct Streamed {
  std::vector<StreamedColumn> columns;
  int64_t rows = 0;
  int64_t file_bytes = 0;
};

absl::StatusOr<Streamed> MakeStreamed(const std::vector<StoredArray>& stored, int64_t file_bytes) {
  Streamed out;
  out.file_bytes = file_bytes;
  for (const StoredArray& array : stored) {
    std::string why = array.info.incompatibility;
    if (array.member.deflated) {
      why = array.not_mapped;
    } else if (array.info.shape.rank() == 0) {
      why = "it has no rows";
    }
    if (!why.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", array.name, "' cannot be read block by block: ", why));
    }
    const int64_t rows = array.info.shape.dim(0);
    if (!out.columns.empty() && rows != out.rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", array.name, "' has ", rows, " rows, but '", out.columns[0].spec.name,
                       "' has ", out.rows, "; .select selects some of the arrays"));
    }
    out.rows = rows;
    out.columns.push_back({.spec = {array.name, array.info.dtype, array.info.shape.RowShape()},
                           .offset = array.offset,
                           .row_bytes = array.info.bytes / std::max<int64_t>(rows, 1)});
  }
  return out;
}

absl::StatusOr<std::vector<StoredArray>> ListRemoteNpy(io::FileSystem& file_system,
                                                       const std::string& uri) {
  if (absl::EndsWith(io::Basename(uri), kNpz)) {
    return absl::UnimplementedError(
        "an .npz file can be read block by block only from a local disk, a .npy file from any file "
        "system");
  }
  PENSTOCK_ASSIGN_OR_RETURN(auto file, file_system.OpenRandomAccess(uri));
  std::string first(static_cast<size_t>(std::min(file->size(), kHeaderBytes)), '\0');
  PENSTOCK_RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(first.data(), first.size())).status());
  StoredArray array;
  array.name = NameOfNpy(uri);
  PENSTOCK_ASSIGN_OR_RETURN(array.info, formats::ReadNpyInfo(first));
  array.offset = array.info.offset;
  if (array.offset + array.info.bytes != file->size()) {
    return absl::DataLossError(absl::StrCat("the file should have ",
                                            array.offset + array.info.bytes, " bytes, but has ",
                                            file->size()));
  }
  return std::vector<StoredArray>{std::move(array)};
}

class RowsOfFile : public OriginSource {
 public:
  explicit RowsOfFile(std::string uri) : uri_(std::move(uri)) {}
  std::string At(int64_t index) const override {
    return absl::StrCat(io::DisplayName(uri_), ":", index);
  }

 private:
  const std::string uri_;
};

class NpyBlockReader : public FileReader {
 public:
  NpyBlockReader(std::unique_ptr<io::RandomAccessFile> file,
                 std::shared_ptr<const Streamed> streamed, int64_t block_bytes)
      : file_(std::move(file)),
        streamed_(std::move(streamed)),
        origins_(std::make_shared<RowsOfFile>(file_->uri())) {
    int64_t row_bytes = 0;
    for (const StreamedColumn& column : streamed_->columns) row_bytes += column.row_bytes;
    block_rows_ = std::clamp<int64_t>(block_bytes / std::max<int64_t>(row_bytes, 1), 1, 1 << 20);
  }

  absl::StatusOr<FileBlock> Read() override {
    FileBlock out;
    const int64_t rows = std::min(block_rows_, streamed_->rows - row_);
    if (rows == 0) return out;
    auto block = std::make_shared<Block>();
    block->rows = rows;
    for (const StreamedColumn& column : streamed_->columns) {
      Array values = Array::Uninitialized(column.spec.dtype, column.spec.shape.Prepend(rows));
      char* to = static_cast<char*>(values.mutable_raw());
      const int64_t bytes = rows * column.row_bytes;
      PENSTOCK_ASSIGN_OR_RETURN(const int64_t read,
                                file_->Read(column.offset + row_ * column.row_bytes,
                                            absl::MakeSpan(to, static_cast<size_t>(bytes))));
      if (read < bytes) {
        return absl::AbortedError(
            absl::StrCat(file_->uri(), ":", row_, ": the file was truncated while it was read"));
      }
      if (column.spec.dtype == DType::kBool) {
        for (int64_t i = 0; i < bytes; ++i) to[i] = to[i] != 0;
      }
      out.bytes += bytes;
      block->columns.emplace_back(std::move(values));
    }
    block->origins.Append(origins_, row_, rows);
    row_ += rows;
    out.block = std::move(block);
    return out;
  }

 private:
  const std::unique_ptr<io::RandomAccessFile> file_;
  const std::shared_ptr<const Streamed> streamed_;
  const std::shared_ptr<const OriginSource> origins_;
  int64_t block_rows_ = 1;
  int64_t row_ = 0;
};

struct FromNpyFields {
  std::string uri = {};
  NpyOptions options = {};
};
void Fields(StageFields& f, FromNpyFields& p) {
  NpyOptions& o = p.options;
  f.Reads(&p.uri);
  f.Choice("access", &o.access, {"auto", "map", "load", "stream"});
  f.Value("select", &o.select);
  f.Value("memory_bytes", &o.memory_bytes);
  f.Value("read_ahead_bytes", &o.read_ahead_bytes);
  f.Value("block_bytes", &o.block_bytes);
  f.CheckRange("block_bytes", o.block_bytes, 1, int64_t{1} << 30);
}

class FromNpyStage : public Stage {
 public:
  FromNpyStage(std::string uri, NpyOptions options, absl::StatusOr<Streamed> streamed)
      : uri_(std::move(uri)), options_(std::move(options)), status_(streamed.status()) {
    if (streamed.ok()) streamed_ = std::make_shared<const Streamed>(*std::move(streamed));
  }

  absl::string_view name() const override { return "FromNpy"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, FromNpyFields{uri_, options_});
  }
  std::string Parameters() const override {
    return absl::StrCat(
        io::DisplayName(uri_), options_.access == NpyAccess::kStream ? ", a block at a time" : "",
        options_.select.empty() ? "" : ", select ", absl::StrJoin(options_.select, ", "));
  }
  int io_threads() const override { return 1; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    PENSTOCK_RETURN_IF_ERROR(status_);
    if (options_.read_ahead_bytes < 0 || options_.block_bytes < 1) {
      return absl::InvalidArgumentError(kCountsAtLeastOne);
    }
    ElementSpec spec;
    for (const StreamedColumn& column : streamed_->columns) spec.Set(column.spec);
    return spec;
  }

  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext&) const override {
    return streamed_->rows;
  }
  absl::StatusOr<std::string> SourceFingerprint(const ResolveContext& context) const override {
    const auto& own = options_.file_system;
    return FilesFingerprint(
        {.file_system = own != nullptr ? own : context.file_system, .exact = context.exact},
        {uri_});
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    const auto open = [streamed = streamed_, options = options_](
                          io::FileSystem& file_system,
                          const std::string& uri) -> absl::StatusOr<std::unique_ptr<FileReader>> {
      PENSTOCK_ASSIGN_OR_RETURN(
          auto file, (options.file_system != nullptr ? *options.file_system : file_system)
                         .OpenRandomAccess(uri));
      if (file->size() != streamed->file_bytes) {
        return absl::FailedPreconditionError(absl::StrCat(
            "the file has ", file->size(), " bytes, but had ", streamed->file_bytes,
            " when the dataset was described; if it was replaced, describe the dataset again"));
      }
      return std::make_unique<NpyBlockReader>(std::move(file), streamed, options.block_bytes);
    };
    return MakeFileInterleave(context, {uri_}, open,
                              {.parallel_files = 1, .read_ahead_bytes = options_.read_ahead_bytes});
  }

 private:
  const std::string uri_;
  const NpyOptions options_;
  const absl::Status status_;
  std::shared_ptr<const Streamed> streamed_;
};

// ---- All of it ----

// Arrays, or when they are streamed what there is to stream.
struct Opened {
  NamedArrays arrays;
  Streamed streamed;
};

absl::StatusOr<Opened> Open(const std::string& uri, const NpyOptions& options) {
  const bool is_npz = absl::EndsWith(io::Basename(uri), kNpz);
  if (!is_npz && !absl::EndsWith(io::Basename(uri), kNpy)) {
    return absl::InvalidArgumentError("the name of the file should end in .npy or .npz");
  }
  if (options.memory_bytes < 0) {
    return absl::InvalidArgumentError("memory_bytes must not be negative");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const io::Uri parsed, io::ParseUri(uri));
  const auto file_system =
      options.file_system != nullptr ? options.file_system : io::FileSystem::Default();
  const bool stream = options.access == NpyAccess::kStream;
  std::shared_ptr<const io::MappedFile> file;
  std::vector<StoredArray> stored;
  int64_t file_bytes = 0;
  Opened out;
  if (parsed.is_local()) {
    PENSTOCK_ASSIGN_OR_RETURN(file, io::MappedFile::Open(uri));
    PENSTOCK_ASSIGN_OR_RETURN(
        stored, is_npz ? ListNpz(file->bytes(), options.select) : ListNpy(file->bytes(), uri));
    file_bytes = static_cast<int64_t>(file->bytes().size());
  } else if (stream) {
    PENSTOCK_ASSIGN_OR_RETURN(stored, ListRemoteNpy(*file_system, uri));
    file_bytes = stored[0].offset + stored[0].info.bytes;
  } else if (options.access == NpyAccess::kMap) {
    return absl::FailedPreconditionError("only a local file can be mapped");
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(out.arrays, LoadRemote(*file_system, uri, options));
    PENSTOCK_RETURN_IF_ERROR(CheckRows(out.arrays));
    return out;
  }
  PENSTOCK_ASSIGN_OR_RETURN(stored, Select(std::move(stored), options, &NameOf));
  if (stored.empty()) return absl::InvalidArgumentError("there are no arrays in the file");
  if (stream) {
    PENSTOCK_ASSIGN_OR_RETURN(out.streamed, MakeStreamed(stored, file_bytes));
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(out.arrays, MapOrLoad(stored, file, options));
    PENSTOCK_RETURN_IF_ERROR(CheckRows(out.arrays));
  }
  return out;
}

}  // namespace

Dataset Dataset::FromNpy(std::string uri, NpyOptions options) {
  absl::StatusOr<Opened> opened = Open(uri, options);
  if (opened.ok() && options.access != NpyAccess::kStream) {
    return From(MakeFromArrays(std::move(opened->arrays), uri, [uri, options](StageFields& out) {
      out.SetStage("FromNpy");
      return Write(out, FromNpyFields{uri, options});
    }));
  }
  absl::StatusOr<Streamed> streamed = Streamed();
  if (opened.ok()) {
    streamed = std::move(opened->streamed);
  } else {
    streamed = opened.status();
  }
  return From(
      std::make_shared<FromNpyStage>(std::move(uri), std::move(options), std::move(streamed)));
}

absl::StatusOr<Dataset> ReadFromNpy(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<FromNpyFields>(in));
  p.options.file_system = in.file_system();
  return Dataset::FromNpy(std::move(p.uri), std::move(p.options));
}

}  // namespace penstock::data
