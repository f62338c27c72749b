// FromCsv is two stages: one reads files and splits them into rows; ParseCsv is a row stage like
// ParseExample: all cores parse fields, straight into the batch, and after Shuffle and Skip.
#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/sources/files.h"
#include "penstock/data/sources/interleaved_source.h"
#include "penstock/data/sources/line_reader.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/formats/csv.h"

namespace penstock::data {
namespace {

using base::Array;
using base::DType;

constexpr absl::string_view kRow = "row";

formats::CsvDialect DialectOf(const CsvOptions& options) {
  return {.delimiter = options.delimiter, .quotes = options.quotes};
}

std::string Quote(absl::string_view text) {
  constexpr size_t kMax = 40;
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, kMax)),
                      text.size() > kMax ? "..." : "", "\"");
}

// Text of a field; unquoted text is stored in `copies`.
absl::string_view TextOf(const formats::CsvField& field, std::deque<std::string>& copies) {
  if (!field.has_escaped_quotes) return field.text;
  return copies.emplace_back(formats::UnescapeQuotes(field.text));
}

absl::StatusOr<std::unique_ptr<LineReader>> OpenRows(io::FileSystem& file_system,
                                                     const std::string& uri,
                                                     const CsvOptions& options) {
  return LineReader::Open(file_system, uri,
                          {.block_bytes = options.block_bytes,
                           .max_line_bytes = options.max_row_bytes,
                           .csv_rows = true,
                           .quotes = options.quotes,
                           .delimiter = options.delimiter});
}

absl::StatusOr<std::vector<std::string>> SplitHeader(const LineBlock& block,
                                                     formats::CsvDialect dialect) {
  std::vector<formats::CsvField> fields;
  const absl::Status status = formats::SplitCsvRow(block.lines[0], dialect, &fields);
  if (!status.ok()) {
    return base::WithContext(
        status, absl::StrCat(block.origins->At(0), ":", fields.size() + 1, ": header"));
  }
  std::deque<std::string> copies;
  std::vector<std::string> names;
  for (const formats::CsvField& field : fields) names.emplace_back(TextOf(field, copies));
  return names;
}

// ---- Columns that are not given ----

// Takes names from the header, and types from the rows after it.
absl::Status InferFrom(LineReader& reader, CsvOptions* options) {
  PENSTOCK_ASSIGN_OR_RETURN(LineBlock block, reader.Read());
  if (block.lines.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(reader.uri(), ": the file is empty"));
  }
  const formats::CsvDialect dialect = DialectOf(*options);
  if (options->columns.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(const auto names, SplitHeader(block, dialect));
    for (const std::string& name : names) options->columns.push_back({.name = name});
  }
  std::vector<CsvColumn>& columns = options->columns;
  std::vector<DType> types(columns.size(), DType::kInvalid);
  std::vector<formats::CsvField> fields;
  size_t row = options->header ? 1 : 0;
  for (int64_t left = options->infer_rows; left > 0; --left, ++row) {
    if (row == block.lines.size()) {
      PENSTOCK_ASSIGN_OR_RETURN(block, reader.Read());
      if (block.lines.empty()) break;
      row = 0;
    }
    // Errors of a row are reported when it is read.
    if (!formats::SplitCsvRow(block.lines[row], dialect, &fields).ok()) continue;
    for (size_t i = 0; i < std::min(fields.size(), columns.size()); ++i) {
      const absl::string_view text = fields[i].text;
      if (!text.empty() && text != options->na_value)
        types[i] = formats::InferCsvType(text, types[i]);
    }
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].dtype != DType::kInvalid) continue;
    columns[i].dtype = types[i] == DType::kInvalid ? DType::kString : types[i];
    if (!columns[i].default_value.has_value()) {
      columns[i].default_value = columns[i].dtype == DType::kString ? "" : "0";
    }
  }
  return absl::OkStatus();
}

// Checks the options before anything is read.
absl::Status CheckOptions(const CsvOptions& o) {
  if (std::min({o.block_length, o.block_bytes, o.max_row_bytes, o.infer_rows}) < 1 ||
      o.parallel_files < 0 || o.read_ahead_bytes < 0) {
    return absl::InvalidArgumentError(kCountsAtLeastOne);
  }
  if (std::max(o.block_bytes, o.max_row_bytes) > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("block_bytes and max_row_bytes are at most ", kMaxTextBytes));
  }
  if (o.delimiter == '"' || o.delimiter == '\n' || o.delimiter == '\r') {
    return absl::InvalidArgumentError("the delimiter must not be a quote or a line break");
  }
  return absl::OkStatus();
}

absl::Status InferColumns(const std::vector<std::string>& patterns, CsvOptions* options) {
  const bool given =
      !options->columns.empty() &&
      std::none_of(options->columns.begin(), options->columns.end(),
                   [](const CsvColumn& column) { return column.dtype == DType::kInvalid; });
  if (given || patterns.empty()) return absl::OkStatus();
  if (options->columns.empty() && !options->header) {
    return absl::InvalidArgumentError(
        "without a header the columns must be given (.columns), at least their names");
  }
  const auto file_system =
      options->file_system != nullptr ? options->file_system : io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                            FindFiles(*file_system, {patterns[0]}));
  PENSTOCK_ASSIGN_OR_RETURN(auto reader, OpenRows(*file_system, files[0], *options));
  return base::WithContext(InferFrom(*reader, options), "columns cannot be inferred");
}

// ---- Rows of files ----

class CsvFileReader : public FileReader {
 public:
  CsvFileReader(std::unique_ptr<LineReader> reader, std::shared_ptr<const CsvOptions> options)
      : reader_(std::move(reader)), options_(std::move(options)) {}

  absl::StatusOr<FileBlock> Read() override {
    PENSTOCK_ASSIGN_OR_RETURN(LineBlock read, reader_->Read());
    if (options_->header && !header_passed_ && !read.lines.empty()) {
      header_passed_ = true;
      if (options_->check_header) PENSTOCK_RETURN_IF_ERROR(CheckHeader(read));
      if (read.lines.size() == 1) return Read();
      return ToBlock(std::move(read), 1);
    }
    return ToBlock(std::move(read), 0);
  }

 private:
  absl::Status CheckHeader(const LineBlock& block) const {
    PENSTOCK_ASSIGN_OR_RETURN(const auto names, SplitHeader(block, DialectOf(*options_)));
    const auto& columns = options_->columns;
    if (std::equal(names.begin(), names.end(), columns.begin(), columns.end(),
                   [](const std::string& n, const CsvColumn& c) { return n == c.name; })) {
      return absl::OkStatus();
    }
    const auto print = [](std::string* out, const CsvColumn& c) { absl::StrAppend(out, c.name); };
    return absl::InvalidArgumentError(absl::StrCat(
        block.origins->At(0), ": the header is ", Quote(block.lines[0]), ", but the columns are \"",
        absl::StrJoin(columns, absl::string_view(&options_->delimiter, 1), print),
        "\"; a file without a header is read with .header = false, one with other names with "
        ".check_header = false"));
  }

  static FileBlock ToBlock(LineBlock read, int64_t first) {
    FileBlock out = {.block = nullptr, .bytes = read.bytes};
    if (read.lines.empty()) return out;
    auto block = std::make_shared<Block>();
    block->rows = static_cast<int64_t>(read.lines.size()) - first;
    block->origins.Append(read.origins, first, block->rows);
    const auto lines = std::make_shared<const LineBlock>(std::move(read));
    block->columns.emplace_back(
        Array::View(DType::kString, {block->rows}, lines->lines.data() + first, lines));
    out.block = std::move(block);
    return out;
  }

  const std::unique_ptr<LineReader> reader_;
  const std::shared_ptr<const CsvOptions> options_;
  bool header_passed_ = false;
};

OpenFileReader OpenCsv(std::shared_ptr<const CsvOptions> options) {
  return [options = std::move(options)](
             io::FileSystem& file_system,
             const std::string& uri) -> absl::StatusOr<std::unique_ptr<FileReader>> {
    PENSTOCK_ASSIGN_OR_RETURN(auto reader, OpenRows(file_system, uri, *options));
    return std::make_unique<CsvFileReader>(std::move(reader), options);
  };
}

// ---- Fields of rows ----

class ParseCsvKernel : public RowKernel {
 public:
  // `fields[i]` is the field of a row that column i of the output holds.
  ParseCsvKernel(std::shared_ptr<const CsvOptions> options, std::vector<size_t> fields)
      : options_(std::move(options)), fields_(std::move(fields)) {}

  void Run(const RowsIn& in, RowsOut& out) const override {
    std::vector<char*> columns;
    for (size_t i = 0; i < fields_.size(); ++i) {
      auto column = out.Dense(static_cast<int>(i));
      if (!column.ok()) return out.Fail(0, column.status());
      columns.push_back(static_cast<char*>(column->mutable_raw()));
      // Defaults of strings.
      if (ColumnOf(i).dtype == DType::kString) out.KeepAlive(static_cast<int>(i), options_);
    }
    const auto copies = std::make_shared<std::deque<std::string>>();
    std::vector<formats::CsvField> fields;
    const auto rows = in.columns[0]->values().values<absl::string_view>();
    for (int64_t row = 0; row < in.rows; ++row) {
      if (absl::Status status = formats::SplitCsvRow(rows[row], DialectOf(*options_), &fields);
          !status.ok()) {
        out.Fail(row, std::move(status), absl::StrCat(":", fields.size() + 1));
      } else if (fields.size() != options_->columns.size()) {
        out.Fail(row, absl::InvalidArgumentError(
                          absl::StrCat("the row has ", fields.size(), " fields, but there are ",
                                       options_->columns.size(), " columns: ", Quote(rows[row]))));
      } else {
        ParseRow(fields, row, columns, *copies, out);
      }
    }
    if (copies->empty()) return;
    for (size_t i = 0; i < fields_.size(); ++i) out.KeepAlive(static_cast<int>(i), copies);
  }

 private:
  const CsvColumn& ColumnOf(size_t i) const { return options_->columns[fields_[i]]; }

  void ParseRow(const std::vector<formats::CsvField>& fields, int64_t row,
                const std::vector<char*>& columns, std::deque<std::string>& copies,
                RowsOut& out) const {
    for (size_t i = 0; i < fields_.size(); ++i) {
      const CsvColumn& column = ColumnOf(i);
      absl::string_view text = TextOf(fields[fields_[i]], copies);
      const bool missing = text.empty() || text == options_->na_value;
      if (missing && column.default_value.has_value()) text = *column.default_value;
      if (column.dtype == DType::kString) {
        reinterpret_cast<absl::string_view*>(columns[i])[row] = text;
        continue;
      }
      if (formats::ParseCsvNumber(text, column.dtype,
                                  columns[i] + row * base::ByteWidth(column.dtype))) {
        continue;
      }
      const absl::string_view dtype = base::DTypeName(column.dtype);
      out.Fail(
          row,
          absl::InvalidArgumentError(
              missing ? absl::StrCat("'", column.name, "' is ", dtype,
                                     ", but the field is empty and the column has no default_value")
                      : absl::StrCat("'", column.name, "' is ", dtype, ", but ", Quote(text),
                                     " is not one or is out of range")),
          absl::StrCat(":", fields_[i] + 1));
      return;
    }
  }

  const std::shared_ptr<const CsvOptions> options_;
  const std::vector<size_t> fields_;
};

struct FromCsvFields {
  std::vector<std::string> patterns = {};
  CsvOptions options = {};
};
void Fields(StageFields& f, FromCsvFields& p) {
  CsvOptions& o = p.options;
  f.Reads(&p.patterns);
  f.List("columns", &o.columns, [](StageFields& of, CsvColumn& column) {
    of.Value("name", &column.name);
    of.Value("dtype", &column.dtype);
    of.Value("default", &column.default_value);
  });
  f.Value("select", &o.select);
  f.Value("header", &o.header);
  f.Value("check_header", &o.check_header);
  f.Value("delimiter", &o.delimiter);
  f.Value("quotes", &o.quotes);
  f.Value("na_value", &o.na_value);
  FileInterleaveFields(f, o, kMaxParallelFiles);
  f.Value("max_row_bytes", &o.max_row_bytes);
}

class ParseCsvStage : public RowStage {
 public:
  explicit ParseCsvStage(std::shared_ptr<const CsvOptions> options)
      : options_(std::move(options)) {}

  absl::string_view name() const override { return "ParseCsv"; }
  bool is_added() const override { return true; }
  std::string Parameters() const override {
    const auto print = [](std::string* out, const CsvColumn& c) {
      absl::StrAppend(out, c.name, ": ", base::DTypeName(c.dtype));
      if (c.default_value.has_value()) absl::StrAppend(out, " or ", Quote(*c.default_value));
    };
    std::string out = absl::StrJoin(options_->columns, ", ", print);
    if (!options_->select.empty()) {
      absl::StrAppend(&out, "; select ", absl::StrJoin(options_->select, ", "));
    }
    if (options_->delimiter != ',') {
      absl::StrAppend(&out, "; delimiter ", Quote({&options_->delimiter, 1}));
    }
    if (!options_->quotes) absl::StrAppend(&out, "; no quotes");
    if (!options_->na_value.empty())
      absl::StrAppend(&out, "; na_value ", Quote(options_->na_value));
    return out;
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    ElementSpec all;
    for (const CsvColumn& column : options_->columns) {
      if (all.Find(column.name) >= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("there are two columns '", column.name, "'"));
      }
      PENSTOCK_RETURN_IF_ERROR(CheckType(column));
      all.Set({column.name, column.dtype, {}});
    }
    if (options_->select.empty()) return all;
    ElementSpec selected;
    for (const std::string& name : options_->select) {
      PENSTOCK_ASSIGN_OR_RETURN(const int i, all.Index(name));
      selected.Set(all[i]);
    }
    return selected;
  }

  absl::StatusOr<RowKernelBinding> Bind(const ElementSpec&,
                                        const ElementSpec& output) const override {
    std::vector<size_t> fields;
    for (const ColumnSpec& column : output.columns()) {
      const auto it = std::find_if(options_->columns.begin(), options_->columns.end(),
                                   [&](const CsvColumn& c) { return c.name == column.name; });
      fields.push_back(static_cast<size_t>(it - options_->columns.begin()));
    }
    return RowKernelBinding{.kernel = std::make_shared<ParseCsvKernel>(options_, fields),
                            .reads = {0},
                            .passes = std::vector<int>(fields.size(), -1)};
  }

 private:
  static absl::Status CheckType(const CsvColumn& column) {
    if (column.dtype == DType::kString) return absl::OkStatus();
    if (!base::IsNumeric(column.dtype)) {
      return absl::InvalidArgumentError(absl::StrCat("'", column.name, "' cannot be ",
                                                     base::DTypeName(column.dtype),
                                                     ": fields are numbers, bools or strings"));
    }
    int64_t value;
    if (column.default_value.has_value() &&
        !formats::ParseCsvNumber(*column.default_value, column.dtype, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", column.name, "' is ", base::DTypeName(column.dtype),
                       ", and its default_value is ", Quote(*column.default_value)));
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const CsvOptions> options_;
};

}  // namespace

Dataset Dataset::FromCsv(std::vector<std::string> patterns, CsvOptions options) {
  absl::Status status = CheckOptions(options);
  if (status.ok()) status = InferColumns(patterns, &options);
  const auto shared = std::make_shared<const CsvOptions>(std::move(options));
  return From(MakeInterleavedSource(
                  {.name = "FromCsv",
                   .files = SourceFiles(patterns),
                   .spec = {{std::string(kRow), DType::kString, {}}},
                   .interleave = {.parallel_files = shared->parallel_files,
                                  .block_length = shared->block_length,
                                  .read_ahead_bytes = shared->read_ahead_bytes},
                   .status = std::move(status),
                   .shuffle_files = shared->shuffle_files,
                   .parameters = absl::StrCat(shared->header ? "" : ", no header",
                                              shared->shuffle_files ? ", shuffle files" : ""),
                   .make_open = [shared](const SourceFiles&) { return OpenCsv(shared); },
                   .write_fields =
                       [patterns, shared](StageFields& out) {
                         return Write(out, FromCsvFields{patterns, *shared});
                       },
                   .adds_stage = "ParseCsv"}))
      .Then(std::make_shared<ParseCsvStage>(shared));
}

absl::StatusOr<Dataset> ReadFromCsv(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<FromCsvFields>(in));
  p.options.file_system = in.file_system();
  return Dataset::FromCsv(std::move(p.patterns), std::move(p.options));
}

}  // namespace penstock::data
