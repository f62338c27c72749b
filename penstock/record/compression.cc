#include "penstock/record/compression.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include <zlib.h>

#include "penstock/base/status.h"

namespace penstock::record {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

// zlib's windowBits: 15 is the largest window; adding 16 selects gzip's header and trailer.
int WindowBits(Compression compression) { return compression == Compression::kGzip ? 31 : 15; }

unsigned int AtMost(size_t n) {
  return static_cast<unsigned int>(std::min<size_t>(n, std::numeric_limits<unsigned int>::max()));
}

class InflateStream : public io::InputStream {
 public:
  InflateStream(std::unique_ptr<io::InputStream> compressed, Compression compression)
      : io::InputStream(compressed->full_uri()),
        compressed_(std::move(compressed)),
        compression_(compression),
        input_(kBufferBytes) {
    PENSTOCK_CHECK(compression == Compression::kGzip || compression == Compression::kZlib);
    if (inflateInit2(&zlib_, WindowBits(compression)) != Z_OK) {
      status_ = absl::ResourceExhaustedError(
          absl::StrCat(uri(), ": cannot initialize zlib (out of memory?)"));
    }
  }
  ~InflateStream() override { inflateEnd(&zlib_); }

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    size_t size = 0;
    while (size < out.size() && status_.ok() && !done_) {
      if (zlib_.avail_in == 0 && !pending_) {
        status_ = ReadInput();
      } else {
        size += InflateInto(out.subspan(size));
      }
    }
    // The bytes before the corruption are returned first.
    if (size == 0) PENSTOCK_RETURN_IF_ERROR(status_);
    return static_cast<int64_t>(size);
  }

 private:
  absl::Status ReadInput() {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t n, compressed_->Read(absl::MakeSpan(input_)));
    zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
    zlib_.avail_in = static_cast<unsigned int>(n);
    if (n > 0) return absl::OkStatus();
    done_ = true;
    return in_member_ ? Damage("the compressed data is truncated") : absl::OkStatus();
  }

  size_t InflateInto(absl::Span<char> out) {
    if (!in_member_ && members_ > 0) {
      if (compression_ == Compression::kZlib) {
        status_ = Damage("there are bytes after the end of the compressed data");
        return 0;
      }
      inflateReset(&zlib_);
    }
    in_member_ = true;
    const unsigned int room = AtMost(out.size());
    zlib_.next_out = reinterpret_cast<Bytef*>(out.data());
    zlib_.avail_out = room;
    const int result = inflate(&zlib_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      in_member_ = false;
      ++members_;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      status_ = Damage(zlib_.msg != nullptr ? zlib_.msg : "a preset dictionary is required");
    }
    pending_ = in_member_ && zlib_.avail_out == 0;
    return room - zlib_.avail_out;
  }

  absl::Status Damage(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat("cannot decompress (", CompressionName(compression_), "): ", what));
  }

  std::unique_ptr<io::InputStream> compressed_;
  const Compression compression_;
  std::vector<char> input_;
  z_stream zlib_{};
  bool in_member_ = false;  // between the first and the last byte of a compressed stream
  bool pending_ = false;    // zlib may have more output buffered
  int64_t members_ = 0;     // completely read
  bool done_ = false;
  absl::Status status_;
};

class DeflateStream : public io::OutputStream {
 public:
  explicit DeflateStream(std::unique_ptr<io::OutputStream> out)
      : io::OutputStream(out->full_uri()), out_(std::move(out)), output_(kBufferBytes) {}
  ~DeflateStream() override { deflateEnd(&zlib_); }

  absl::Status Init(Compression compression, int level) {
    constexpr int kMemoryLevel = 8;  // zlib's default
    if (deflateInit2(&zlib_, level, Z_DEFLATED, WindowBits(compression), kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      return absl::InvalidArgumentError(
          absl::StrCat("invalid compression level ", level, "; zlib's levels are -1 to 9"));
    }
    return absl::OkStatus();
  }

  absl::Status Append(absl::string_view data) override {
    while (!data.empty()) {
      const unsigned int n = AtMost(data.size());
      zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
      zlib_.avail_in = n;
      while (zlib_.avail_in > 0) PENSTOCK_RETURN_IF_ERROR(Step(Z_NO_FLUSH).status());
      data.remove_prefix(n);
    }
    return absl::OkStatus();
  }

  absl::Status Close() override {
    for (bool ended = false; !ended;) {
      PENSTOCK_ASSIGN_OR_RETURN(ended, Step(Z_FINISH));
    }
    return out_->Close();
  }

 private:
  // Returns true at the end of the compressed stream.
  absl::StatusOr<bool> Step(int flush) {
    zlib_.next_out = reinterpret_cast<Bytef*>(output_.data());
    zlib_.avail_out = static_cast<unsigned int>(output_.size());
    const int result = deflate(&zlib_, flush);
    const size_t produced = output_.size() - zlib_.avail_out;
    if (produced > 0) {
      PENSTOCK_RETURN_IF_ERROR(out_->Append(absl::string_view(output_.data(), produced)));
    }
    return result == Z_STREAM_END;
  }

  std::unique_ptr<io::OutputStream> out_;
  std::vector<char> output_;
  z_stream zlib_{};
};

}  // namespace

absl::string_view CompressionName(Compression compression) {
  constexpr absl::string_view kNames[] = {"auto", "none", "gzip", "zlib"};
  return kNames[static_cast<int>(compression)];
}

std::unique_ptr<io::InputStream> Inflate(std::unique_ptr<io::InputStream> compressed,
                                         Compression compression) {
  return std::make_unique<InflateStream>(std::move(compressed), compression);
}

absl::StatusOr<std::unique_ptr<io::OutputStream>> Deflate(std::unique_ptr<io::OutputStream> out,
                                                          Compression compression, int level) {
  PENSTOCK_CHECK(compression == Compression::kGzip || compression == Compression::kZlib);
  auto stream = std::make_unique<DeflateStream>(std::move(out));
  PENSTOCK_RETURN_IF_ERROR(stream->Init(compression, level));
  return stream;
}

}  // namespace penstock::record
