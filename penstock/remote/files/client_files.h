// ClientFiles: io::FileSystem of the worker's machine. Internal to room remote; RemoteClient::Files makes it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/io/file_system.h"
#include "penstock/io/files_elsewhere.h"
#include "penstock/remote/client/client_session.h"
#include "penstock/train/file_host.h"

namespace penstock::remote {

class ClientFiles final : public io::FileSystem,
                          public io::FilesElsewhere,
                          public train::BufferFiles {
 public:
  explicit ClientFiles(std::shared_ptr<ClientSession> session) : session_(std::move(session)) {}

  absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override;
  absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override;
  absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override;
  absl::StatusOr<io::FileInfo> Stat(absl::string_view uri) override;
  absl::StatusOr<std::vector<io::FileInfo>> List(absl::string_view folder_uri) override;
  absl::StatusOr<std::vector<io::FileInfo>> ListRecursive(absl::string_view folder_uri) override;
  absl::Status Remove(absl::string_view uri) override;
  absl::Status RemoveRecursively(absl::string_view folder_uri) override;
  absl::Status CreateFolder(absl::string_view folder_uri) override;

  absl::Status CheckWritableFileThere(absl::string_view uri) override;
  absl::Status CheckWritableFolderThere(absl::string_view folder_uri) override;
  absl::StatusOr<std::shared_ptr<void>> LockForTrainingThere(absl::string_view folder_uri) override;

  bool Has(const runtime::Buffer& buffer) const override;
  absl::Status WriteBundle(absl::string_view prefix, const std::vector<std::string>& names,
                           const runtime::Buffers& buffers) override;

 private:
  // Sends one request that `fill` makes, and waits for its reply.
  absl::StatusOr<FilesReply> Ask(const std::function<void(Files&)>& fill) const;

  const std::shared_ptr<ClientSession> session_;
};

}  // namespace penstock::remote
