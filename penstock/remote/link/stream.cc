#include "penstock/remote/link/stream.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock::remote {

std::vector<Slice> SlicesOf(const grpc::ByteBuffer& buffer) {
  auto owner = std::make_shared<std::vector<grpc::Slice>>();
  std::vector<Slice> slices;
  if (!buffer.Dump(owner.get()).ok()) return slices;
  slices.reserve(owner->size());
  for (const grpc::Slice& slice : *owner) {
    slices.push_back({owner, reinterpret_cast<const std::byte*>(slice.begin()), slice.size()});
  }
  return slices;
}

grpc::Slice GrpcSlice(const Slice& slice) {
  auto* owner = new std::shared_ptr<const void>(slice.owner);
  return grpc::Slice(
      const_cast<std::byte*>(slice.data), slice.size,
      [](void* data) { delete static_cast<std::shared_ptr<const void>*>(data); }, owner);
}

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

void Stream::set_events(Events events) {
  auto shared = std::make_shared<const Events>(std::move(events));
  std::lock_guard lock(mutex_);
  events_.swap(shared);  // the old ones go without the lock
}

std::shared_ptr<const Stream::Events> Stream::Current() {
  std::lock_guard lock(mutex_);
  return events_;
}

bool Stream::Begin() {
  std::shared_ptr<const Events> dropped;
  std::lock_guard lock(mutex_);
  if (broken_) {
    dropped = std::move(events_);
    events_ = nullptr;
    return false;
  }
  self_ = shared_from_this();
  started_ = opening_ = true;
  user_.threads().HandOver();
  return true;
}

void Stream::Read() {
  std::unique_lock lock(mutex_);
  if (broken_) return Advance(std::move(lock));
  reading_ = true;
  // gRPC is called without the lock: it may run callbacks of other streams on this thread.
  lock.unlock();
  user_.threads().HandOver();
  StartRead(&read_buffer_, &read_tag_);
}

void Stream::Write(const grpc::ByteBuffer& buffer) {
  std::unique_lock lock(mutex_);
  if (broken_) return Advance(std::move(lock));
  writing_ = true;
  lock.unlock();
  user_.threads().HandOver();
  StartWrite(buffer, &write_tag_);
}

void Stream::Break(const absl::Status& reason) {
  const std::shared_ptr<Stream> self = shared_from_this();
  std::unique_lock lock(mutex_);
  if (!broken_) {
    broken_ = true;
    told_to_break_ = true;
    reason_ = reason;
    // A write that waits for flow control would not end by itself.
    if (writing_ || !FinishesWhileReading()) {
      lock.unlock();
      TryCancel();
      lock.lock();
    }
  }
  Advance(std::move(lock));
}

bool Stream::broken() const {
  std::lock_guard lock(mutex_);
  return broken_;
}

void Stream::Advance(std::unique_lock<std::mutex> lock) {
  if (!broken_ || !started_ || opening_ || writing_) return;
  // It may end on another thread before gRPC returns.
  const std::shared_ptr<Stream> keep = shared_from_this();
  if (!finishing_ && (!reading_ || FinishesWhileReading())) {
    finishing_ = true;
    const absl::Status reason = reason_;
    lock.unlock();
    user_.threads().HandOver();
    return StartFinish(reason, &finish_tag_);
  }
  // Events that are set after the end are told about it by the next Read or Write.
  if (!finished_ || reading_ || (!self_ && !events_)) return;
  self_ = nullptr;
  const std::shared_ptr<const Events> events = std::move(events_);
  events_ = nullptr;
  absl::Status reason = told_to_break_ ? reason_ : FinalStatus();
  if (!told_to_break_ && reason.ok())
    reason = absl::UnavailableError("the other side ended the stream");
  lock.unlock();
  if (events && events->ended) events->ended(reason);
}

void Stream::OnOpened(bool ok) {
  // Before the flag is taken back: another thread may end the stream from then on.
  const std::shared_ptr<Stream> self = shared_from_this();
  std::unique_lock lock(mutex_);
  opening_ = false;
  if (!ok) broken_ = true;
  if (!ok && FinishesWhileReading()) finishing_ = finished_ = true;  // no call has come
  if (broken_) return Advance(std::move(lock));
  lock.unlock();
  if (const auto events = Current(); events && events->opened) events->opened();
}

void Stream::OnRead(bool ok) {
  const std::shared_ptr<Stream> self = shared_from_this();
  std::unique_lock lock(mutex_);
  reading_ = false;
  if (!ok) broken_ = true;
  if (broken_) return Advance(std::move(lock));
  lock.unlock();
  grpc::ByteBuffer buffer;
  buffer.Swap(&read_buffer_);
  if (const auto events = Current()) events->bytes(buffer);
}

void Stream::OnWritten(bool ok) {
  const std::shared_ptr<Stream> self = shared_from_this();
  std::unique_lock lock(mutex_);
  writing_ = false;
  if (!ok) broken_ = true;
  if (broken_) return Advance(std::move(lock));
  lock.unlock();
  if (const auto events = Current(); events && events->written) events->written();
}

void Stream::OnFinished(bool) {
  std::unique_lock lock(mutex_);
  finished_ = true;
  Advance(std::move(lock));
}

std::shared_ptr<PollingThreads::Timer> BreakAfter(PollingThreads& threads, double seconds,
                                                  const std::shared_ptr<Stream>& stream,
                                                  const absl::Status& reason) {
  return threads.After(seconds, [weak = std::weak_ptr<Stream>(stream), reason] {
    if (const auto stream = weak.lock()) stream->Break(reason);
  });
}

ClientStream::ClientStream(PollingThreads& threads, std::shared_ptr<grpc::Channel> channel,
                           std::string method, const std::string& token)
    : Stream(threads),
      queue_(threads.queue()),
      method_(std::move(method)),
      channel_(std::move(channel)),
      stub_(channel_) {
  if (!token.empty()) context_.AddMetadata("authorization", absl::StrCat("Bearer ", token));
}

void ClientStream::Start() {
  stream_ = stub_.PrepareCall(&context_, method_, queue_);
  if (!Begin()) return;
  stream_->StartCall(static_cast<PollingTag*>(&open_tag_));
}

void ClientStream::StartRead(grpc::ByteBuffer* buffer, PollingTag* tag) {
  stream_->Read(buffer, tag);
}
void ClientStream::StartWrite(const grpc::ByteBuffer& buffer, PollingTag* tag) {
  stream_->Write(buffer, tag);
}
void ClientStream::StartFinish(const absl::Status&, PollingTag* tag) {
  stream_->Finish(&status_, tag);
}

void ServerStream::Accept(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue* queue) {
  if (!Begin()) return;
  service.RequestCall(&context_, &stream_, queue, queue, static_cast<PollingTag*>(&open_tag_));
}

void ServerStream::StartRead(grpc::ByteBuffer* buffer, PollingTag* tag) {
  stream_.Read(buffer, tag);
}
void ServerStream::StartWrite(const grpc::ByteBuffer& buffer, PollingTag* tag) {
  stream_.Write(buffer, tag);
}
void ServerStream::StartFinish(const absl::Status& reason, PollingTag* tag) {
  stream_.Finish(ToGrpc(reason), tag);
}

}  // namespace penstock::remote
