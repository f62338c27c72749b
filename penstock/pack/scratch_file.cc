#include "penstock/pack/scratch_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include <fcntl.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/posix_error.h"

namespace penstock::pack {
namespace {

std::string TemporaryFolder() {
  const char* folder = std::getenv("TMPDIR");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp";
}

class ScratchOutput : public io::OutputStream {
 public:
  explicit ScratchOutput(ScratchFile& scratch) : OutputStream("scratch"), scratch_(scratch) {}
  absl::Status Append(absl::string_view bytes) override { return scratch_.Append(bytes); }
  absl::Status Close() override { return absl::OkStatus(); }

 private:
  ScratchFile& scratch_;
};

class ScratchInput : public io::RandomAccessFile {
 public:
  ScratchInput(std::shared_ptr<const ScratchFile> scratch, std::string uri, int64_t begin,
               int64_t size)
      : RandomAccessFile(std::move(uri), size), scratch_(std::move(scratch)), begin_(begin) {}
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    if (offset < 0) return absl::InvalidArgumentError(absl::StrCat("offset ", offset));
    const int64_t left = std::max<int64_t>(0, size() - offset);
    return scratch_->Read(begin_ + std::min(offset, size()),
                          out.subspan(0, static_cast<size_t>(left)));
  }

 private:
  const std::shared_ptr<const ScratchFile> scratch_;
  const int64_t begin_;
};

}  // namespace

absl::Status ScratchFile::Append(absl::string_view bytes) {
  const auto more = static_cast<int64_t>(bytes.size());
  if (!on_disk() && size_ + more > options_.memory_bytes) PENSTOCK_RETURN_IF_ERROR(MoveToDisk());
  if (on_disk()) {
    PENSTOCK_RETURN_IF_ERROR(WriteToDisk(bytes));
  } else {
    memory_.append(bytes.data(), bytes.size());
  }
  size_ += more;
  return absl::OkStatus();
}

std::string ScratchFile::Folder() const {
  return options_.folder.empty() ? TemporaryFolder() : options_.folder;
}

absl::Status ScratchFile::MoveToDisk() {
  const std::string folder = Folder();
  std::string path = absl::StrCat(folder, "/.penstock-XXXXXX");
  file_ = io::FileDescriptor(::mkostemp(path.data(), O_CLOEXEC));
  if (!file_.valid()) return io::PosixError(errno, "make a scratch file in", folder);
  ::unlink(path.c_str());
  PENSTOCK_RETURN_IF_ERROR(WriteToDisk(memory_));
  std::string().swap(memory_);
  return absl::OkStatus();
}

absl::Status ScratchFile::WriteToDisk(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return io::PosixError(errno, "write to a scratch file in", Folder());
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ScratchFile::Read(int64_t offset, absl::Span<char> out) const {
  if (offset < 0) return absl::InvalidArgumentError(absl::StrCat("offset ", offset));
  const int64_t readable = std::clamp<int64_t>(size_ - offset, 0, static_cast<int64_t>(out.size()));
  if (!on_disk()) {
    if (readable > 0)
      std::memcpy(out.data(), memory_.data() + offset, static_cast<size_t>(readable));
    return readable;
  }
  for (int64_t done = 0; done < readable;) {
    const ssize_t n = ::pread(file_.get(), out.data() + done, static_cast<size_t>(readable - done),
                              offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return io::PosixError(n < 0 ? errno : EIO, "read a scratch file in", Folder());
    done += n;
  }
  return readable;
}

absl::Status ScratchFile::CopyTo(io::OutputStream& out) const {
  if (!on_disk()) return out.Append(memory_);
  std::string chunk(std::min<int64_t>(size_, 4 << 20), '\0');
  for (int64_t offset = 0; offset < size_;) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t n, Read(offset, absl::MakeSpan(chunk)));
    PENSTOCK_RETURN_IF_ERROR(out.Append(absl::string_view(chunk).substr(0, n)));
    offset += n;
  }
  return absl::OkStatus();
}

void ScratchFile::Clear() {
  memory_.clear();
  file_ = io::FileDescriptor();
  size_ = 0;
}

std::unique_ptr<io::OutputStream> WriteTo(ScratchFile& scratch) {
  return std::make_unique<ScratchOutput>(scratch);
}

std::shared_ptr<io::RandomAccessFile> ReadFrom(std::shared_ptr<const ScratchFile> scratch,
                                               std::string uri, int64_t begin, int64_t size) {
  return std::make_shared<ScratchInput>(std::move(scratch), std::move(uri), begin, size);
}

}  // namespace penstock::pack
