#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/data/csv.h"

// Fields that were read can be written, and are the same when read again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size < 2) return 0;
  const data::CsvDialect dialect = {.delimiter = static_cast<char>(data[0]),
                                    .quotes = data[1] % 2 == 0};
  if (dialect.delimiter == '"') return 0;
  std::vector<data::CsvField> fields;
  if (!data::SplitCsvRow({reinterpret_cast<const char*>(data) + 2, size - 2}, dialect, &fields)
           .ok()) {
    return 0;
  }
  std::vector<std::string> texts;
  for (const data::CsvField& field : fields) {
    texts.push_back(field.has_doubled ? data::UndoubleQuotes(field.text) : std::string(field.text));
    for (int i = 0; i < base::kNumDTypes; ++i) {
      alignas(16) char number[16];
      const auto dtype = static_cast<base::DType>(i);
      if (base::IsNumeric(dtype)) data::ParseCsvNumber(field.text, dtype, number);
    }
    data::InferCsvType(field.text, base::DType::kInvalid);
  }
  const std::string row = data::JoinCsvRow(texts, dialect.delimiter);
  PENSTOCK_CHECK_OK(data::SplitCsvRow(row, {.delimiter = dialect.delimiter}, &fields));
  PENSTOCK_CHECK(fields.size() == texts.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    PENSTOCK_CHECK(data::UndoubleQuotes(fields[i].text) == texts[i]);
  }
  return 0;
}
