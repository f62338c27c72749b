#include "penstock/remote/wire/wire_types.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "penstock/base/checked_size.h"
#include "penstock/base/dtype.h"
#include "penstock/base/status.h"

namespace penstock::remote {
namespace {

constexpr size_t kMaxStatusBytes = size_t{16} << 10;

}  // namespace

Status ToMessage(const absl::Status& status) {
  Status message;
  if (status.ok()) return message;
  message.set_code(static_cast<int32_t>(status.code()));
  // A compiler quotes the line of an error, which may be a whole program. The cut is not within a character of UTF-8.
  absl::string_view text = status.message();
  if (text.size() > kMaxStatusBytes) {
    size_t size = kMaxStatusBytes;
    while (size > 0 && (text[size] & 0xc0) == 0x80) --size;
    text = text.substr(0, size);
  }
  message.set_message(absl::StrCat(text, text.size() < status.message().size() ? "..." : ""));
  return message;
}

absl::Status FromMessage(const Status& message) {
  if (message.code() == 0) return absl::OkStatus();
  const bool known = message.code() > 0 && message.code() <= 16;
  return absl::Status(
      known ? static_cast<absl::StatusCode>(message.code()) : absl::StatusCode::kUnknown,
      message.message());
}

TensorType ToMessage(const ir::TensorType& type) {
  TensorType message;
  message.set_dtype(std::string(base::DTypeName(type.dtype)));
  for (const int64_t dim : type.shape.dims()) message.add_dims(dim);
  return message;
}

absl::StatusOr<ir::TensorType> FromMessage(const TensorType& message) {
  PENSTOCK_ASSIGN_OR_RETURN(const base::DType dtype, base::DTypeFromName(message.dtype()));
  if (dtype == base::DType::kString || dtype == base::DType::kInvalid ||
      base::BitWidth(dtype) % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices have no tensors of type ", message.dtype()));
  }
  if (message.dims_size() > base::kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor of rank ", message.dims_size(),
                                                   "; the maximum is ", base::kMaxRank));
  }
  const absl::Span<const int64_t> dims(message.dims().data(),
                                       static_cast<size_t>(message.dims_size()));
  const std::optional<int64_t> elements = base::CheckedElements(dims);
  if (!elements.has_value()) {
    return absl::InvalidArgumentError("a tensor with a negative extent, or too many elements");
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(*elements, base::ByteWidth(dtype), &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor of ", *elements, " elements: too many"));
  }
  const ir::TensorType type{dtype, base::Shape(dims)};
  return type;
}

int64_t BytesOf(const ir::TensorType& type) {
  return type.shape.num_elements() * base::ByteWidth(type.dtype);
}

namespace {

Origin OriginToMessage(const ir::Origin& origin) {
  Origin message;
  message.set_layer(origin.scope);
  message.set_file(origin.file);
  message.set_line(origin.line);
  return message;
}

ir::Origin OriginFromMessage(const Origin& message) {
  return {.scope = message.layer(), .file = message.file(), .line = message.line()};
}

// The compiler's parser calls itself for each bracket, and has no limit but the stack.
constexpr int kMaxNesting = 200;

absl::Status CheckText(absl::string_view text) {
  // Bytecode: our clients print text.
  if (absl::StartsWith(text, "ML\xefR")) {
    return absl::InvalidArgumentError("the program is bytecode; a worker compiles StableHLO text");
  }
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    switch (c) {
      case '"':
        quoted = true;
        break;
      case '/':  // a comment
        if (i + 1 < text.size() && text[i + 1] == '/')
          i = std::min(text.find('\n', i), text.size());
        break;
      case '(':
      case '[':
      case '{':
      case '<':
        if (++depth > kMaxNesting) {
          return absl::InvalidArgumentError(
              absl::StrCat("the program's text has brackets within more than ", kMaxNesting,
                           " others, at byte ", i));
        }
        break;
      case '>':
        if (i > 0 && text[i - 1] == '-') break;  // an arrow
        [[fallthrough]];
      case ')':
      case ']':
      case '}':
        depth = std::max(0, depth - 1);
        break;
      default:
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace

Program ToMessage(const ir::Program& program) {
  Program message;
  message.set_name(program.name);
  message.set_text(program.text);
  message.set_num_replicas(program.num_replicas);
  for (const auto& type : program.parameters) *message.add_parameters() = ToMessage(type);
  for (const auto& type : program.results) *message.add_results() = ToMessage(type);
  for (const std::string& name : program.parameter_names) message.add_parameter_names(name);
  for (const std::string& name : program.result_names) message.add_result_names(name);
  for (const int result : program.alias) message.add_alias(result);
  std::map<std::tuple<std::string, std::string, int>, uint32_t> places;
  for (const ir::Origin& origin : program.line_origins) {
    if (origin == ir::Origin()) {
      message.add_line_origins(0);
      continue;
    }
    const auto [at, added] = places.try_emplace({origin.scope, origin.file, origin.line},
                                                static_cast<uint32_t>(places.size() + 1));
    if (added) *message.add_origins() = OriginToMessage(origin);
    message.add_line_origins(at->second);
  }
  for (const ir::LargeValue& value : program.large_values) {
    LargeValue& out = *message.add_large_values();
    *out.mutable_type() = ToMessage(value.type);
    out.set_operation(value.operation);
    *out.mutable_origin() = OriginToMessage(value.origin);
    out.set_count(value.count);
  }
  return message;
}

absl::StatusOr<ir::Program> FromMessage(const Program& message) {
  PENSTOCK_RETURN_IF_ERROR(CheckText(message.text()));
  ir::Program program;
  program.name = message.name();
  program.text = message.text();
  program.num_replicas = message.num_replicas();
  program.parameter_names = {message.parameter_names().begin(), message.parameter_names().end()};
  program.result_names = {message.result_names().begin(), message.result_names().end()};
  program.alias = {message.alias().begin(), message.alias().end()};
  for (const TensorType& type : message.parameters()) {
    PENSTOCK_ASSIGN_OR_RETURN(program.parameters.emplace_back(), FromMessage(type));
  }
  for (const TensorType& type : message.results()) {
    PENSTOCK_ASSIGN_OR_RETURN(program.results.emplace_back(), FromMessage(type));
  }
  for (const uint32_t place : message.line_origins()) {
    if (place > static_cast<uint32_t>(message.origins_size())) {
      return absl::InvalidArgumentError(absl::StrCat("program '", program.name,
                                                     "': a line refers to origin ", place, " of ",
                                                     message.origins_size()));
    }
    program.line_origins.push_back(
        place == 0 ? ir::Origin()
                   : OriginFromMessage(message.origins(static_cast<int>(place) - 1)));
  }
  for (const LargeValue& value : message.large_values()) {
    PENSTOCK_ASSIGN_OR_RETURN(const ir::TensorType type, FromMessage(value.type()));
    program.large_values.push_back({.type = type,
                                    .operation = value.operation(),
                                    .origin = OriginFromMessage(value.origin()),
                                    .count = value.count()});
  }
  return program;
}

Device ToMessage(const runtime::Device& device) {
  Device message;
  message.set_id(device.id);
  message.set_kind(device.kind);
  message.set_description(device.description);
  message.set_memory_bytes(device.memory_bytes);
  message.set_process(device.process);
  return message;
}

runtime::Device FromMessage(const Device& message, int index) {
  return {.id = message.id(),
          .index = index,
          .kind = message.kind(),
          .description = message.description(),
          .memory_bytes = message.memory_bytes(),
          .process = message.process()};
}

void CopyPayload(absl::Span<const Slice> payload, std::byte* out) {
  for (const Slice& slice : payload) {
    if (slice.size == 0) continue;
    std::memcpy(out, slice.data, slice.size);
    out += slice.size;
  }
}

std::vector<Slice> TakePayload(std::vector<Slice>& payload, size_t bytes) {
  std::vector<Slice> out;
  size_t used = 0;  // slices that are taken whole
  while (bytes > 0) {
    Slice& slice = payload[used];
    const size_t size = std::min(bytes, slice.size);
    out.push_back({slice.owner, slice.data, size});
    bytes -= size;
    if (size == slice.size) {
      ++used;
    } else {
      slice.data += size;
      slice.size -= size;
    }
  }
  payload.erase(payload.begin(), payload.begin() + static_cast<ptrdiff_t>(used));
  return out;
}

}  // namespace penstock::remote
