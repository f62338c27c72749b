#include "penstock/remote/files/client_files.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/remote/client/remote_buffer.h"
#include "penstock/remote/files/file_limits.h"
#include "penstock/remote/wire/wire_types.h"

namespace penstock::remote {
namespace {

void CloseFile(ClientSession& session, uint64_t handle) {
  Request request;
  request.mutable_files()->set_close(handle);
  session.Send(std::move(request), {}, [](const absl::StatusOr<ReceivedReply>&) {}).IgnoreError();
}

// A file that the worker has open for this session, until it is destroyed.
class OpenFile {
 public:
  static absl::StatusOr<std::unique_ptr<OpenFile>> Make(std::shared_ptr<ClientSession> session,
                                                        absl::string_view uri, bool create,
                                                        FilesReply::Info* info) {
    std::unique_ptr<OpenFile> file(new OpenFile(std::move(session)));
    Request request;
    Files::Open& open = create ? *request.mutable_files()->mutable_create()
                               : *request.mutable_files()->mutable_open();
    open.set_uri(std::string(uri));
    open.set_file(file->handle_);
    PENSTOCK_ASSIGN_OR_RETURN(const ReceivedReply reply, file->session_->Call(std::move(request)));
    if (create) return file;
    if (reply.reply.files().infos_size() != 1) {
      return absl::InternalError("the worker did not describe the file that it opened");
    }
    *info = reply.reply.files().infos(0);
    return file;
  }
  ~OpenFile() { CloseFile(*session_, handle_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // One part of the file.
  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) const {
    Request request;
    Files::Read& read = *request.mutable_files()->mutable_read();
    read.set_file(handle_);
    read.set_offset(offset);
    read.set_bytes(static_cast<int64_t>(out.size()));
    PENSTOCK_ASSIGN_OR_RETURN(const ReceivedReply reply, session_->Call(std::move(request)));
    size_t bytes = 0;
    for (const Slice& slice : reply.payload) bytes += slice.size;
    if (bytes > out.size()) {
      return absl::InternalError(
          absl::StrCat("the worker sent ", bytes, " bytes of a file for ", out.size()));
    }
    CopyPayload(reply.payload, reinterpret_cast<std::byte*>(out.data()));
    return static_cast<int64_t>(bytes);
  }
  absl::Status Append(const std::shared_ptr<const std::string>& bytes) const {
    Request request;
    request.mutable_files()->set_append(handle_);
    const auto* data = reinterpret_cast<const std::byte*>(bytes->data());
    return session_->Call(std::move(request), {{bytes, data, bytes->size()}}).status();
  }
  absl::Status Publish() const {
    Request request;
    request.mutable_files()->set_publish(handle_);
    return session_->Call(std::move(request)).status();
  }

 private:
  explicit OpenFile(std::shared_ptr<ClientSession> session)
      : session_(std::move(session)), handle_(session_->NewHandles(1)) {}

  const std::shared_ptr<ClientSession> session_;
  const uint64_t handle_;
};

class RandomAccess : public io::RandomAccessFile {
 public:
  RandomAccess(std::string uri, int64_t size, std::string version, std::unique_ptr<OpenFile> file)
      : RandomAccessFile(std::move(uri), size),
        version_(std::move(version)),
        file_(std::move(file)) {}

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    int64_t done = 0;
    while (done < static_cast<int64_t>(out.size()) || out.empty()) {
      const absl::Span<char> part =
          out.subspan(static_cast<size_t>(done), static_cast<size_t>(kMaxFilePart));
      PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, file_->Read(offset + done, part));
      done += bytes;
      if (bytes < static_cast<int64_t>(part.size()) || out.empty()) break;
    }
    return done;
  }
  std::string version() const override { return version_; }

 private:
  const std::string version_;
  const std::unique_ptr<OpenFile> file_;
};

class Input : public io::InputStream {
 public:
  explicit Input(std::unique_ptr<io::RandomAccessFile> file)
      : InputStream(file->full_uri()), file_(std::move(file)) {}

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t bytes, file_->Read(position_, out));
    position_ += bytes;
    return bytes;
  }
  std::string version() const override { return file_->version(); }

 private:
  const std::unique_ptr<io::RandomAccessFile> file_;
  int64_t position_ = 0;
};

class Output : public io::OutputStream {
 public:
  Output(std::string uri, std::unique_ptr<OpenFile> file)
      : OutputStream(std::move(uri)), file_(std::move(file)) {}

  absl::Status Append(absl::string_view bytes) override {
    while (!bytes.empty()) {
      if (buffered_ == nullptr) buffered_ = std::make_shared<std::string>();
      const size_t part = std::min(bytes.size(), kMaxPart - buffered_->size());
      buffered_->append(bytes.data(), part);
      bytes.remove_prefix(part);
      if (buffered_->size() == kMaxPart) Send();
    }
    return status_;
  }
  absl::Status Close() override {
    if (buffered_ != nullptr) Send();
    PENSTOCK_RETURN_IF_ERROR(status_);
    return file_->Publish();
  }

 private:
  static constexpr auto kMaxPart = static_cast<size_t>(kMaxFilePart);

  void Send() {
    if (status_.ok()) status_ = file_->Append(buffered_);
    buffered_ = nullptr;  // what was sent must not change
  }

  const std::unique_ptr<OpenFile> file_;
  std::shared_ptr<std::string> buffered_;
  absl::Status status_;  // the first error
};

io::FileInfo InfoOf(const FilesReply::Info& info) {
  return {.uri = info.uri(),
          .is_directory = info.directory(),
          .size = info.size(),
          .modified_unix_seconds = info.modified(),
          .version = info.version(),
          .is_link = info.link()};
}

std::vector<io::FileInfo> InfosOf(const FilesReply& reply) {
  std::vector<io::FileInfo> infos;
  for (const FilesReply::Info& info : reply.infos()) infos.push_back(InfoOf(info));
  return infos;
}

}  // namespace

absl::StatusOr<FilesReply> ClientFiles::Ask(const std::function<void(Files&)>& fill) const {
  Request request;
  fill(*request.mutable_files());
  PENSTOCK_ASSIGN_OR_RETURN(ReceivedReply reply, session_->Call(std::move(request)));
  return std::move(*reply.reply.mutable_files());
}

absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> ClientFiles::OpenRandomAccess(
    absl::string_view uri) {
  FilesReply::Info info;
  PENSTOCK_ASSIGN_OR_RETURN(auto file, OpenFile::Make(session_, uri, /*create=*/false, &info));
  if (info.size() < 0) return absl::InternalError("the worker sent a negative size of a file");
  return std::make_unique<RandomAccess>(std::string(uri), info.size(), info.version(),
                                        std::move(file));
}

absl::StatusOr<std::unique_ptr<io::InputStream>> ClientFiles::OpenInput(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(auto file, OpenRandomAccess(uri));
  return std::make_unique<Input>(std::move(file));
}

absl::StatusOr<std::unique_ptr<io::OutputStream>> ClientFiles::Create(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(auto file, OpenFile::Make(session_, uri, /*create=*/true, nullptr));
  return std::make_unique<Output>(std::string(uri), std::move(file));
}

absl::StatusOr<io::FileInfo> ClientFiles::Stat(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const FilesReply reply,
                            Ask([&](Files& body) { body.set_stat(std::string(uri)); }));
  if (reply.infos_size() != 1) return absl::InternalError("the worker did not describe the file");
  return InfoOf(reply.infos(0));
}

absl::StatusOr<std::vector<io::FileInfo>> ClientFiles::List(absl::string_view folder_uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const FilesReply reply,
                            Ask([&](Files& body) { body.set_list(std::string(folder_uri)); }));
  return InfosOf(reply);
}

absl::StatusOr<std::vector<io::FileInfo>> ClientFiles::ListRecursive(absl::string_view folder_uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const FilesReply reply, Ask([&](Files& body) {
                              body.set_list_recursive(std::string(folder_uri));
                            }));
  return InfosOf(reply);
}

absl::Status ClientFiles::Remove(absl::string_view uri) {
  return Ask([&](Files& body) { body.set_remove(std::string(uri)); }).status();
}

absl::Status ClientFiles::RemoveRecursively(absl::string_view folder_uri) {
  return Ask([&](Files& body) { body.set_remove_recursively(std::string(folder_uri)); }).status();
}

absl::Status ClientFiles::CreateFolder(absl::string_view folder_uri) {
  return Ask([&](Files& body) { body.set_create_folder(std::string(folder_uri)); }).status();
}

absl::Status ClientFiles::CheckWritableFileThere(absl::string_view uri) {
  return Ask([&](Files& body) { body.set_check_file(std::string(uri)); }).status();
}

absl::Status ClientFiles::CheckWritableFolderThere(absl::string_view folder_uri) {
  return Ask([&](Files& body) { body.set_check_folder(std::string(folder_uri)); }).status();
}

absl::StatusOr<std::shared_ptr<void>> ClientFiles::LockForTrainingThere(
    absl::string_view folder_uri) {
  if (!session_->features().Check(kLockForTraining).ok()) return nullptr;  // an older worker
  const uint64_t handle = session_->NewHandles(1);
  PENSTOCK_RETURN_IF_ERROR(Ask([&](Files& body) {
                             body.mutable_lock_for_training()->set_uri(std::string(folder_uri));
                             body.mutable_lock_for_training()->set_file(handle);
                           }).status());
  return std::shared_ptr<void>(
      nullptr, [session = session_, handle](void*) { CloseFile(*session, handle); });
}

bool ClientFiles::Has(const runtime::Buffer& buffer) const {
  const auto* const remote = dynamic_cast<const RemoteBuffer*>(buffer.impl().get());
  return remote != nullptr && remote->session() == session_;
}

absl::Status ClientFiles::WriteBundle(absl::string_view prefix,
                                      const std::vector<std::string>& names,
                                      const runtime::Buffers& buffers) {
  if (names.size() != buffers.size()) {
    return absl::InvalidArgumentError("WriteBundle needs a name for each buffer");
  }
  Request request;
  Files::Bundle& bundle = *request.mutable_files()->mutable_write_bundle();
  bundle.set_prefix(std::string(prefix));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto* const buffer = dynamic_cast<const RemoteBuffer*>(buffers[i].impl().get());
    if (buffer == nullptr || buffer->session() != session_) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", names[i], "' is not on the worker that saves"));
    }
    PENSTOCK_RETURN_IF_ERROR(buffer->CheckLive());
    bundle.add_names(names[i]);
    bundle.add_buffers(buffer->handle());
  }
  return session_->Call(std::move(request)).status();
}

}  // namespace penstock::remote
