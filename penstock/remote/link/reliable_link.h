// ReliableLink: a Link over streams that may break. It numbers, keeps, acknowledges and resends; who opens
// streams (link_client.cc, link_server.cc) attaches each new one after Hello.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

#include "penstock/remote/link/frame.h"
#include "penstock/remote/link/link.h"
#include "penstock/remote/link/polling_threads.h"
#include "penstock/remote/link/stream.h"

namespace penstock::remote {

class ReliableLink : public Link, public std::enable_shared_from_this<ReliableLink> {
 public:
  struct Options {
    LinkReceiver* receiver = nullptr;
    int64_t window_bytes = int64_t{64}
                           << 20;  // that it sends without an acknowledgment, and that it receives
    int64_t max_message_bytes = kMaxMessageBytes;
    // The link has lost its stream, and needs another one.
    std::function<void(const absl::Status& reason)> on_disconnected;
    // The receiver has been told OnClosed.
    std::function<void(const absl::Status& reason)> on_closed;
  };
  // Must be owned by a shared_ptr.
  ReliableLink(PollingThreads& threads, Options options);

  // Sequence numbers of messages, as Hello and HelloReply say them.
  struct PeerNumbers {
    uint64_t received = 0;  // the last one that the receiver has taken
    uint64_t arrived =
        0;  // the last one that has arrived, which the receiver may still have to take; 0: unknown
    uint64_t queued = 0;  // the last one that is to be sent; 0: unknown
  };
  PeerNumbers numbers() const;
  // Number of connections in a row that broke before a message had arrived, in either direction, although there were some.
  int fruitless_connections() const;
  // From now on only this stream may be attached: breaks the one before. Without it, any may.
  void Expect(const std::shared_ptr<Stream>& stream);
  // Goes on with a stream on which both sides have said Hello, the peer with these numbers. The stream has
  // no read or write outstanding. DATA_LOSS if the peer's number is impossible; ABORTED if another stream
  // was expected meanwhile, or if its Hello is an old one.
  absl::Status Attach(std::shared_ptr<Stream> stream, const PeerNumbers& peer);
  // Breaks the current stream, if any.
  void Detach(const absl::Status& reason);
  // For events of the stream that is attached.
  Stream::Events EventsFor(const std::shared_ptr<Stream>& stream);
  // The window of each direction, as Hello said.
  void set_window(int64_t bytes);

  absl::Status Send(Message message) override;
  absl::Status Post(Message message) override;
  void Close(const absl::Status& reason) override;
  Stats stats() const override;

  // Closes at once, without telling the peer.
  void Fail(const absl::Status& reason);
  // How long a link waits for its peer when it closes.
  static constexpr double kCloseSeconds = 2;
  // Waits until the receiver has been told OnClosed, except within a call of it.
  void WaitClosed();
  bool connected() const;
  bool peer_closed() const;  // by Close, and not because of a failure
  bool delivers_on_this_thread() const;

 private:
  // A message on its way out; kept until it is acknowledged.
  struct Outgoing {
    FrameType type;
    uint64_t sequence;
    std::string header;
    std::vector<Slice> payload;
    uint32_t payload_crc;
    int64_t bytes;
  };
  // A call that the receiver will get.
  struct Incoming {
    enum Kind { kMessage, kPeerCloses, kDisconnected, kReconnected, kClosed } kind;
    Message message = {};
    absl::Status status = {};
    uint64_t sequence = 0;
    int64_t bytes = 0;
  };

  absl::Status Enqueue(Message message, bool block);
  void OnBytes(const std::shared_ptr<Stream>& stream, const grpc::ByteBuffer& buffer);
  // Reads frames; with reading_mutex_.
  absl::Status ReadFrames(const grpc::ByteBuffer& buffer, std::vector<Frame>* frames);
  void OnWritten(const std::shared_ptr<Stream>& stream);
  void OnEnded(const std::shared_ptr<Stream>& stream, const absl::Status& reason);
  // The rest is called with the mutex held. Accept takes a received frame; released messages go to `freed`.
  absl::Status Accept(Frame frame, std::vector<Outgoing>* freed);
  absl::Status AcceptAck(uint64_t ack, std::vector<Outgoing>* freed);
  // A damaged frame: breaks the connection, and the link if it happens again and again.
  void Strike(const std::shared_ptr<Stream>& stream, const absl::Status& error,
              std::unique_lock<std::mutex>& lock);
  // Writes what may be written. Unlocks meanwhile.
  void WriteMore(std::unique_lock<std::mutex>& lock);
  bool BuildBatch(grpc::ByteBuffer* batch);
  // Calls the receiver, unless another thread does. Unlocks meanwhile.
  void Deliver(std::unique_lock<std::mutex>& lock);
  void DeliverSoon();  // on a thread of the link; without the mutex
  void Taken(const Incoming& item, std::unique_lock<std::mutex>& lock);
  void CloseWith(const absl::Status& reason, std::unique_lock<std::mutex>& lock);
  void ScheduleAck();
  void AckAtNextLook();

  PollingThreads& threads_;
  const Options options_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Held while frames are read: those of a connection that was replaced are over before those of the next one. Taken
  // before mutex_.
  std::mutex reading_mutex_;
  bool receiver_closed_ = false;  // guarded by reading_mutex_; the receiver has its last call

  std::shared_ptr<Stream> stream_;                 // null: disconnected
  std::optional<std::weak_ptr<Stream>> expected_;  // the only one to be attached
  bool was_attached_ = false;
  int fruitless_ = 0;
  // After a fruitless connection, until one has carried kMaxBatchBytes: each write holds one frame.
  bool careful_ = false;
  int64_t acknowledged_bytes_ = 0;  // since the last Attach
  // At the last Attach: what had arrived of both directions, and whether there was more.
  uint64_t peer_arrived_then_ = 0, accepted_then_ = 0;
  bool awaited_then_ = false;
  bool writing_ = false;
  bool held_ = false;  // a look that writes held messages is due

  // Outgoing: the first `sent_` of `outgoing_` have been written to the stream, `in_flight_` bytes.
  std::deque<Outgoing> outgoing_;
  size_t sent_ = 0;
  int64_t in_flight_ = 0, unacknowledged_ = 0;
  uint64_t last_queued_ = 0, last_sent_ = 0, acknowledged_ = 0;
  int64_t window_;

  // Incoming.
  std::deque<Incoming> inbox_;
  int64_t inbox_bytes_ = 0;
  uint64_t accepted_ = 0, taken_ = 0, ack_sent_ = 0, taken_at_look_ = 0;
  int64_t taken_bytes_ = 0;  // not yet acknowledged
  bool ack_due_ = false, ack_scheduled_ = false;
  int strikes_ = 0;  // damaged frames since the last message
  bool delivering_ = false;
  std::thread::id deliverer_;

  std::optional<absl::Status> closing_;  // Close was called
  std::optional<absl::Status> closed_;
  bool told_closed_ = false;
  bool peer_closed_ = false;  // its last message has been taken
  uint64_t peer_close_ = 0;   // sequence number of its close
  bool close_acknowledged_ = false;
  Stats stats_;
};

}  // namespace penstock::remote
