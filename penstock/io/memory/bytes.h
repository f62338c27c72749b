// Bytes in memory as a file, and a stream that collects bytes: for formats whose bytes are no file,
// but a message, or a fuzzer's input.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/io/file_system.h"

namespace penstock::io {

class BytesFile final : public RandomAccessFile {
 public:
  // `name`: a URI, or any name for messages. `owner` keeps the bytes alive; without one they must
  // outlive the file.
  BytesFile(std::string name, absl::string_view bytes, std::shared_ptr<const void> owner = nullptr)
      : RandomAccessFile(std::move(name), static_cast<int64_t>(bytes.size())),
        bytes_(bytes),
        owner_(std::move(owner)) {}

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    if (offset < 0) {
      return absl::InvalidArgumentError(absl::StrCat(uri(), ": negative offset ", offset));
    }
    if (offset >= size()) return 0;
    return static_cast<int64_t>(bytes_.copy(out.data(), out.size(), static_cast<size_t>(offset)));
  }

 private:
  const absl::string_view bytes_;
  const std::shared_ptr<const void> owner_;
};

class BytesStream final : public OutputStream {
 public:
  explicit BytesStream(std::string name) : OutputStream(std::move(name)) {}

  absl::Status Append(absl::string_view bytes) override {
    bytes_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Close() override { return absl::OkStatus(); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace penstock::io
