#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/formats/csv.h"

// Round trip: fields that were parsed can be written, and parse to the same fields again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  if (size < 2) return 0;
  const formats::CsvDialect dialect = {.delimiter = static_cast<char>(data[0]),
                                       .quotes = data[1] % 2 == 0};
  if (dialect.delimiter == '"') return 0;
  std::vector<formats::CsvField> fields;
  if (!formats::SplitCsvRow({reinterpret_cast<const char*>(data) + 2, size - 2}, dialect, &fields)
           .ok()) {
    return 0;
  }
  std::vector<std::string> texts;
  for (const formats::CsvField& field : fields) {
    texts.push_back(field.has_escaped_quotes ? formats::UnescapeQuotes(field.text)
                                             : std::string(field.text));
    for (int i = 0; i < base::kNumDTypes; ++i) {
      alignas(16) char number[16];
      const auto dtype = static_cast<base::DType>(i);
      if (base::IsNumeric(dtype)) formats::ParseCsvNumber(field.text, dtype, number);
    }
    formats::InferCsvType(field.text, base::DType::kInvalid);
  }
  const std::string row = formats::JoinCsvRow(texts, dialect.delimiter);
  PENSTOCK_CHECK_OK(formats::SplitCsvRow(row, {.delimiter = dialect.delimiter}, &fields));
  PENSTOCK_CHECK(fields.size() == texts.size());
  for (size_t i = 0; i < fields.size(); ++i) {
    PENSTOCK_CHECK(formats::UnescapeQuotes(fields[i].text) == texts[i]);
  }
  return 0;
}
