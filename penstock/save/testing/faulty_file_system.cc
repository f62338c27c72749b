#include "penstock/save/testing/faulty_file_system.h"

#include <utility>

#include "penstock/base/status.h"

namespace penstock::save {
namespace {

class FaultyStream : public io::OutputStream {
 public:
  FaultyStream(FaultyFileSystem& fs, std::unique_ptr<io::OutputStream> inner)
      : OutputStream(inner->uri()), fs_(fs), inner_(std::move(inner)) {}

  absl::Status Append(absl::string_view bytes) override {
    PENSTOCK_RETURN_IF_ERROR(inner_->Append(bytes.substr(0, bytes.size() / 2)));
    PENSTOCK_RETURN_IF_ERROR(fs_.Change());
    return inner_->Append(bytes.substr(bytes.size() / 2));
  }
  absl::Status Close() override {
    PENSTOCK_RETURN_IF_ERROR(fs_.Change());
    PENSTOCK_RETURN_IF_ERROR(inner_->Close());
    return fs_.Change();
  }

 private:
  FaultyFileSystem& fs_;
  std::unique_ptr<io::OutputStream> inner_;
};

class FaultyFile : public io::RandomAccessFile {
 public:
  FaultyFile(FaultyFileSystem& fs, std::unique_ptr<io::RandomAccessFile> inner)
      : RandomAccessFile(inner->uri(), inner->size()), fs_(fs), inner_(std::move(inner)) {}

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    PENSTOCK_RETURN_IF_ERROR(fs_.Look());
    return inner_->Read(offset, out);
  }
  std::string version() const override { return inner_->version(); }

 private:
  FaultyFileSystem& fs_;
  std::unique_ptr<io::RandomAccessFile> inner_;
};

class FaultyInput : public io::InputStream {
 public:
  FaultyInput(FaultyFileSystem& fs, std::unique_ptr<io::InputStream> inner)
      : InputStream(inner->full_uri()), fs_(fs), inner_(std::move(inner)) {}

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    PENSTOCK_RETURN_IF_ERROR(fs_.Look());
    return inner_->Read(out);
  }
  std::string version() const override { return inner_->version(); }

 private:
  FaultyFileSystem& fs_;
  std::unique_ptr<io::InputStream> inner_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> FaultyFileSystem::OpenRandomAccess(
    absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(Look());
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> inner,
                            next().OpenRandomAccess(uri));
  return std::make_unique<FaultyFile>(*this, std::move(inner));
}

absl::StatusOr<std::unique_ptr<io::InputStream>> FaultyFileSystem::OpenInput(
    absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(Look());
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::InputStream> inner, next().OpenInput(uri));
  return std::make_unique<FaultyInput>(*this, std::move(inner));
}

absl::StatusOr<io::FileInfo> FaultyFileSystem::Stat(absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(Look());
  return next().Stat(uri);
}

absl::StatusOr<std::vector<io::FileInfo>> FaultyFileSystem::List(absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(Look());
  return next().List(uri);
}

absl::StatusOr<std::vector<io::FileInfo>> FaultyFileSystem::ListRecursive(absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(Look());
  return next().ListRecursive(uri);
}

absl::StatusOr<std::unique_ptr<io::OutputStream>> FaultyFileSystem::Create(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> inner, next().Create(uri));
  return std::make_unique<FaultyStream>(*this, std::move(inner));
}

absl::Status FaultyFileSystem::Remove(absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(Change());
  PENSTOCK_RETURN_IF_ERROR(next().Remove(uri));
  return Change();
}

absl::Status FaultyFileSystem::RemoveRecursively(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<io::FileInfo> files, next().ListRecursive(uri));
  // In reverse order, because the order is unspecified and the usual one may hide errors.
  for (; !files.empty(); files.pop_back()) PENSTOCK_RETURN_IF_ERROR(Remove(files.back().uri));
  PENSTOCK_RETURN_IF_ERROR(Change());
  return next().RemoveRecursively(uri);
}

absl::Status FaultyFileSystem::CreateFolder(absl::string_view uri) {
  PENSTOCK_RETURN_IF_ERROR(Change());
  return next().CreateFolder(uri);
}

}  // namespace penstock::save
