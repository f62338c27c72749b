// Stream: one connection of a link, a bidirectional gRPC stream of byte buffers. It lives until gRPC has
// finished with it, by itself.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include "penstock/remote/link/link.h"
#include "penstock/remote/link/polling_threads.h"

namespace penstock::remote {

// The name of the streaming method that carries a link, and of the unary method.
inline constexpr char kConnectMethod[] = "/penstock.remote.Worker/Connect";
inline constexpr char kDescribeMethod[] = "/penstock.remote.Worker/Describe";
inline constexpr char kTrainingMethod[] = "/penstock.remote.Worker/Training";
// In the environment of a training's process: its id, for Hello.
inline constexpr char kTrainingVariable[] = "PENSTOCK_REMOTE_TRAINING";

// The memory of a received buffer, without a copy.
std::vector<Slice> SlicesOf(const grpc::ByteBuffer& buffer);
// Memory for gRPC to send, without a copy; `slice.owner` is kept until it is sent.
grpc::Slice GrpcSlice(const Slice& slice);

absl::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const absl::Status& status);

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  // What happens to a stream; each on a polling thread. `bytes` and `written` come after a Read and a Write;
  // `ended` is the last one.
  struct Events {
    std::function<void()> opened;  // client only
    std::function<void(const grpc::ByteBuffer&)> bytes;
    std::function<void()> written;
    std::function<void(const absl::Status&)> ended;
  };

  explicit Stream(PollingThreads& threads) : user_(threads) {}
  virtual ~Stream() = default;

  // May be called within an event.
  void set_events(Events events);
  // One of each may be outstanding. Ignored after Break: `ended` follows.
  void Read();
  void Write(const grpc::ByteBuffer& buffer);
  // Ends the stream, with what is outstanding. The first reason counts.
  void Break(const absl::Status& reason);
  // Whether it has ended or is about to.
  bool broken() const;

 protected:
  class Tag : public PollingTag {
   public:
    using Method = void (Stream::*)(bool ok);
    Tag(Stream* stream, Method method) : stream_(stream), method_(method) {}
    void Run(bool ok) override { (stream_->*method_)(ok); }

   private:
    Stream* const stream_;
    const Method method_;
  };

  // From now on it keeps itself until it has ended. False if it was told to break before.
  bool Begin();
  void OnOpened(bool ok);
  virtual void StartRead(grpc::ByteBuffer* buffer, PollingTag* tag) = 0;
  virtual void StartWrite(const grpc::ByteBuffer& buffer, PollingTag* tag) = 0;
  // Sets status_ (client) or sends it (server).
  virtual void StartFinish(const absl::Status& reason, PollingTag* tag) = 0;
  virtual void TryCancel() = 0;
  // gRPC allows to finish while a read is outstanding.
  virtual bool FinishesWhileReading() const = 0;
  // Why it ended, if the other side or the network ended it.
  virtual absl::Status FinalStatus() = 0;

  Tag open_tag_{this, &Stream::OnOpened};

 private:
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  // Starts to finish a broken stream, or reports its end, if nothing outstanding forbids it.
  void Advance(std::unique_lock<std::mutex> lock);

  std::shared_ptr<const Events> Current();

  std::shared_ptr<const Events> events_;  // guarded by mutex_
  grpc::ByteBuffer read_buffer_;
  Tag read_tag_{this, &Stream::OnRead};
  Tag write_tag_{this, &Stream::OnWritten};
  Tag finish_tag_{this, &Stream::OnFinished};

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  bool started_ = false, opening_ = false;
  bool reading_ = false, writing_ = false, broken_ = false, finishing_ = false, finished_ = false;
  bool told_to_break_ = false;
  absl::Status reason_;  // of Break
  std::shared_ptr<Stream> self_;
  const PollingThreads::User user_;
};

// Breaks a stream after a time, unless the timer is cancelled or the stream has ended. The timer does
// not keep the stream: one that never begins has no end that would cancel it.
std::shared_ptr<PollingThreads::Timer> BreakAfter(PollingThreads& threads, double seconds,
                                                  const std::shared_ptr<Stream>& stream,
                                                  const absl::Status& reason);

// The client's end.
class ClientStream : public Stream {
 public:
  ClientStream(PollingThreads& threads, std::shared_ptr<grpc::Channel> channel, std::string method,
               const std::string& token);
  // Opens it; `opened` or `ended` follows.
  void Start();

 private:
  void StartRead(grpc::ByteBuffer* buffer, PollingTag* tag) override;
  void StartWrite(const grpc::ByteBuffer& buffer, PollingTag* tag) override;
  void StartFinish(const absl::Status& reason, PollingTag* tag) override;
  void TryCancel() override { context_.TryCancel(); }
  bool FinishesWhileReading() const override { return false; }
  absl::Status FinalStatus() override { return FromGrpc(status_); }

  grpc::CompletionQueue* const queue_;
  const std::string method_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::Status status_;
};

// The server's end, which gRPC has accepted.
class ServerStream : public Stream {
 public:
  explicit ServerStream(PollingThreads& threads) : Stream(threads), stream_(&context_) {}

  grpc::GenericServerContext& context() { return context_; }
  // Waits for the next call; `opened` when it comes, `ended` if the server shuts down.
  void Accept(grpc::AsyncGenericService& service, grpc::ServerCompletionQueue* queue);

 private:
  void StartRead(grpc::ByteBuffer* buffer, PollingTag* tag) override;
  void StartWrite(const grpc::ByteBuffer& buffer, PollingTag* tag) override;
  void StartFinish(const absl::Status& reason, PollingTag* tag) override;
  void TryCancel() override { context_.TryCancel(); }
  bool FinishesWhileReading() const override { return true; }
  absl::Status FinalStatus() override { return absl::UnavailableError("the client disconnected"); }

  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
};

}  // namespace penstock::remote
