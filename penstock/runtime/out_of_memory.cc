#include "penstock/runtime/out_of_memory.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"

namespace penstock::runtime {
namespace {

using base::PrintBytes;

constexpr size_t kMaxValues = 6;

int64_t BytesOf(const TensorType& type) {
  return type.shape.num_elements() * base::ByteWidth(type.dtype);
}

// The program's arguments and largest values, in descending order, one per line.
std::string LargestValues(const ir::Program& program) {
  std::vector<std::pair<int64_t, std::string>> rows;
  for (const ir::LargeValue& value : program.large_values) {
    const std::string origin = value.origin.ToString();
    rows.push_back({value.bytes(),
                    absl::StrCat(value.type.ToString(),
                                 value.count > 1 ? absl::StrCat(", ", value.count, " of them") : "",
                                 ", ", value.operation, origin.empty() ? "" : " of ", origin)});
  }
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    const bool named = i < program.parameter_names.size() && !program.parameter_names[i].empty();
    rows.push_back({BytesOf(program.parameters[i]),
                    absl::StrCat(program.parameters[i].ToString(), ", argument ",
                                 named ? absl::StrCat("'", program.parameter_names[i], "'")
                                       : absl::StrCat(i))});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < std::min(rows.size(), kMaxValues); ++i) {
    absl::StrAppend(&text, "\n  ", PrintBytes(rows[i].first), "  ", rows[i].second);
  }
  return text.empty() ? "" : absl::StrCat("\nits largest values:", text);
}

// `need` and `fixed` in the same unit as `room`; `fixed` is a part of `need`.
std::string LargestBatch(double need, double room, double fixed, int64_t examples) {
  if (examples <= 0 || need <= room) return "";
  fixed = std::min(fixed, need);
  const double growing = std::max(need - fixed, 1.0);
  const double fits = std::floor(static_cast<double>(examples) * (room - fixed) / growing);
  if (fits < 1) {
    return "\nby a linear estimate, not even a batch of 1 fits: the model is too large for this "
           "device";
  }
  return absl::StrCat("\nby a linear estimate, a batch of ", static_cast<int64_t>(fits),
                      " fits (this one has ", examples, ")");
}

// Parses "7.98G", "7.5GiB", "123456 bytes" or "123456" at `position`, and advances past it.
std::optional<double> ReadBytes(absl::string_view text, size_t& position) {
  const size_t begin = position;
  while (position < text.size() && (absl::ascii_isdigit(text[position]) || text[position] == '.')) {
    ++position;
  }
  double value = 0;
  if (!absl::SimpleAtod(text.substr(begin, position - begin), &value)) return std::nullopt;
  constexpr absl::string_view kUnits = "KMGT";
  const size_t unit = position < text.size() ? kUnits.find(text[position]) : kUnits.npos;
  return unit == kUnits.npos ? value : std::ldexp(value, 10 * static_cast<int>(unit + 1));
}

// The sizes on both sides of `between`: "Used (29.80G) of (7.98G)".
std::optional<std::pair<double, double>> SizesAround(absl::string_view message,
                                                     absl::string_view before,
                                                     absl::string_view between) {
  size_t position = message.find(before);
  if (position == absl::string_view::npos) return std::nullopt;
  position += before.size();
  const std::optional<double> first = ReadBytes(message, position);
  const size_t middle = message.find(between, position);
  if (!first.has_value() || middle == absl::string_view::npos) return std::nullopt;
  position = middle + between.size();
  const std::optional<double> second = ReadBytes(message, position);
  if (!second.has_value()) return std::nullopt;
  return std::pair(*first, *second);
}

std::optional<std::pair<double, double>> NeedAndRoom(absl::string_view message) {
  if (auto sizes = SizesAround(message, "Used ", " of "); sizes.has_value()) return sizes;
  constexpr absl::string_view kExceeds = ") exceeds available HBM (";
  const size_t exceeds = message.find(kExceeds);
  if (exceeds == absl::string_view::npos) return std::nullopt;
  const size_t open = message.rfind('(', exceeds);
  if (open == absl::string_view::npos) return std::nullopt;
  return SizesAround(message.substr(open), "(", kExceeds);
}

}  // namespace

absl::Status CheckMemory(const Executable& executable, const FreeMemoryInfo& room,
                         const BatchMemory& batch) {
  const absl::StatusOr<MemoryStats> memory = executable.Memory();
  if (absl::IsUnimplemented(memory.status())) return absl::OkStatus();
  PENSTOCK_RETURN_IF_ERROR(memory.status());
  const ir::Program& program = executable.program();
  const int64_t copies = room.shared ? program.num_replicas : 1;
  const int64_t need =
      copies * (memory->temporary + std::max<int64_t>(0, memory->outputs - memory->aliased));
  if (need <= room.bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "program '", program.name, "' needs ", PrintBytes(need), " for temporaries and results",
      copies > 1 ? absl::StrCat(" of ", copies, " replicas") : "", ", beside ",
      PrintBytes(copies * memory->arguments), " of arguments; ", room.where, " has ",
      PrintBytes(room.bytes), " left", LargestValues(program),
      LargestBatch(static_cast<double>(need), static_cast<double>(room.bytes),
                   static_cast<double>(copies * batch.fixed_bytes), batch.examples)));
}

absl::Status ExplainOutOfMemory(const absl::Status& status, const ir::Program& program) {
  if (!absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(absl::StrCat(status.message(), LargestValues(program)));
}

absl::Status AdviseBatch(const absl::Status& status, const BatchMemory& batch) {
  if (!absl::IsResourceExhausted(status)) return status;
  const auto sizes = NeedAndRoom(status.message());
  if (!sizes.has_value()) return status;
  return absl::ResourceExhaustedError(absl::StrCat(
      status.message(), LargestBatch(sizes->first, sizes->second,
                                     static_cast<double>(batch.fixed_bytes), batch.examples)));
}

}  // namespace penstock::runtime
