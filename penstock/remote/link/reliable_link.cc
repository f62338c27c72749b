#include "penstock/remote/link/reliable_link.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/remote/protocol.pb.h"

namespace penstock::remote {
namespace {

// What a message costs beside its bytes; so that a window bounds the number of empty messages, too.
constexpr int64_t kMessageOverhead = 128;
// Maximum number of frames that one write takes; they gather while a write is in flight.
constexpr size_t kMaxBatchBytes = size_t{1} << 20;
constexpr size_t kMaxBatchFrames = 256;
// A larger message does not wait for the next one.
constexpr int64_t kMaxHeldBytes = int64_t{64} << 10;
// Payloads up to this are copied into the batch: cheaper than a slice of their own.
constexpr size_t kMaxCopiedBytes = 512;
// Bytes after which an acknowledgment is sent alone; otherwise after a few milliseconds.
constexpr int64_t kAckBytes = int64_t{4} << 20;
// A frame that arrives damaged so often is not the network's doing.
constexpr int kMaxStrikes = 3;

int64_t CostOf(const std::string& header, const std::vector<Slice>& payload) {
  int64_t bytes = kMessageOverhead + static_cast<int64_t>(header.size());
  for (const Slice& slice : payload) bytes += static_cast<int64_t>(slice.size);
  return bytes;
}

absl::Status ClosedError(const absl::Status& reason) {
  return reason.ok() ? absl::CancelledError("the link is closed") : reason;
}

std::string SerializeStatus(const absl::Status& status) {
  Status message;
  message.set_code(static_cast<int>(status.code()));
  message.set_message(std::string(status.message()));
  return message.SerializeAsString();
}

absl::Status ParseStatus(const std::string& bytes) {
  Status message;
  if (!message.ParseFromString(bytes)) return absl::UnknownError("the peer closed the link");
  return absl::Status(static_cast<absl::StatusCode>(message.code()), message.message());
}

}  // namespace

ReliableLink::ReliableLink(PollingThreads& threads, Options options)
    : threads_(threads), options_(std::move(options)), window_(options_.window_bytes) {}

ReliableLink::PeerNumbers ReliableLink::numbers() const {
  std::lock_guard lock(mutex_);
  return {.received = taken_, .arrived = accepted_, .queued = last_queued_};
}

int ReliableLink::fruitless_connections() const {
  std::lock_guard lock(mutex_);
  return fruitless_;
}

bool ReliableLink::connected() const {
  std::lock_guard lock(mutex_);
  return stream_ != nullptr && !closed_;
}

bool ReliableLink::peer_closed() const {
  std::lock_guard lock(mutex_);
  return peer_closed_;
}

bool ReliableLink::delivers_on_this_thread() const {
  std::lock_guard lock(mutex_);
  return delivering_ && deliverer_ == std::this_thread::get_id();
}

void ReliableLink::set_window(int64_t bytes) {
  std::lock_guard lock(mutex_);
  window_ = std::max<int64_t>(bytes, 1);
}

Link::Stats ReliableLink::stats() const {
  std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.unacknowledged_bytes = unacknowledged_;
  stats.connected = stream_ != nullptr && !closed_;
  return stats;
}

// ---- Connections ----

Stream::Events ReliableLink::EventsFor(const std::shared_ptr<Stream>& stream) {
  // The stream drops its events when it has ended, and with them these references.
  const std::shared_ptr<ReliableLink> self = shared_from_this();
  Stream* raw = stream.get();
  return {
      .opened = {},
      .bytes =
          [self, raw](const grpc::ByteBuffer& buffer) {
            self->OnBytes(raw->shared_from_this(), buffer);
          },
      .written = [self, raw] { self->OnWritten(raw->shared_from_this()); },
      .ended = [self, raw](
                   const absl::Status& reason) { self->OnEnded(raw->shared_from_this(), reason); }};
}

void ReliableLink::Expect(const std::shared_ptr<Stream>& stream) {
  const absl::Status reason = absl::AbortedError("the client opened another connection");
  std::shared_ptr<Stream> before;
  {
    std::lock_guard lock(mutex_);
    if (expected_) before = expected_->lock();
    expected_ = stream;
  }
  if (before && before != stream) before->Break(reason);
  Detach(reason);
}

absl::Status ReliableLink::Attach(std::shared_ptr<Stream> stream, const PeerNumbers& peer) {
  std::vector<Outgoing> freed;
  std::unique_lock lock(mutex_);
  // A thread may come so late with a stream that its peer has given up, and opened the next one, meanwhile.
  if (expected_ && expected_->lock() != stream) {
    return absl::AbortedError("the client opened another connection");
  }
  if (closed_) return ClosedError(*closed_);
  // A Hello that was read late. Acknowledgments never go back, so a connection after it has brought this one.
  if (expected_ && peer.received < acknowledged_) {
    return absl::AbortedError("an older connection than the last one");
  }
  if (peer.received < acknowledged_ || peer.received > last_sent_) {
    return absl::DataLossError(
        absl::StrCat("cannot resume the link: the peer has received message ", peer.received,
                     ", but messages up to ", acknowledged_, " were acknowledged and up to ",
                     last_sent_, " were sent"));
  }
  PENSTOCK_RETURN_IF_ERROR(AcceptAck(peer.received, &freed));
  const uint64_t peer_arrived = std::max(peer.arrived, peer.received);
  const bool fruitless = was_attached_ && awaited_then_ && peer_arrived == peer_arrived_then_ &&
                         accepted_ == accepted_then_;
  fruitless_ = fruitless ? fruitless_ + 1 : 0;
  careful_ = careful_ || fruitless;
  peer_arrived_then_ = peer_arrived;
  accepted_then_ = accepted_;
  awaited_then_ = last_queued_ > peer_arrived || peer.queued > accepted_;
  stats_.resent += static_cast<int64_t>(sent_);
  sent_ = 0;
  in_flight_ = 0;
  acknowledged_bytes_ = 0;
  const std::shared_ptr<Stream> replaced = std::exchange(stream_, stream);
  writing_ = false;
  // Hello has said what was taken then; the receiver may have taken more since.
  ack_sent_ = 0;
  taken_bytes_ = 0;
  if (was_attached_) {
    stats_.reconnects += 1;
    inbox_.push_back({.kind = Incoming::kReconnected});
  }
  was_attached_ = true;
  lock.unlock();
  if (!freed.empty()) changed_.notify_all();  // who waits for the window
  freed.clear();
  if (replaced) replaced->Break(absl::AbortedError("another connection took its place"));
  stream->Read();
  // Its end may have been told before it was attached.
  if (stream->broken()) OnEnded(stream, absl::UnavailableError("the stream has ended"));
  lock.lock();
  WriteMore(lock);
  ScheduleAck();
  const bool delivers = !inbox_.empty();
  lock.unlock();
  // On another thread: a receiver may block, and the caller has still to say that the link is connected.
  if (delivers) DeliverSoon();
  return absl::OkStatus();
}

void ReliableLink::DeliverSoon() {
  threads_.Run([self = shared_from_this()] {
    std::unique_lock lock(self->mutex_);
    self->Deliver(lock);
  });
}

void ReliableLink::Detach(const absl::Status& reason) {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard lock(mutex_);
    stream = stream_;
  }
  if (!stream) return;
  stream->Break(reason);
  OnEnded(stream, reason);  // now, and not when gRPC has noticed
}

void ReliableLink::OnEnded(const std::shared_ptr<Stream>& stream, const absl::Status& reason) {
  std::unique_lock lock(mutex_);
  if (stream_ != stream) return;
  stream_ = nullptr;
  writing_ = false;
  if (closed_) return;
  inbox_.push_back({.kind = Incoming::kDisconnected, .status = reason});
  lock.unlock();
  if (options_.on_disconnected) options_.on_disconnected(reason);
  lock.lock();
  Deliver(lock);
}

// ---- Sending ----

absl::Status ReliableLink::Send(Message message) { return Enqueue(std::move(message), true); }
absl::Status ReliableLink::Post(Message message) { return Enqueue(std::move(message), false); }

absl::Status ReliableLink::Enqueue(Message message, bool block) {
  const int64_t bytes = CostOf(message.header, message.payload);
  const bool hold = message.hold && bytes <= kMaxHeldBytes;
  if (bytes - kMessageOverhead > options_.max_message_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("a message of ", bytes - kMessageOverhead,
                                                     " bytes exceeds the link's limit of ",
                                                     options_.max_message_bytes));
  }
  const uint32_t crc = PayloadCrc(message.payload);
  std::unique_lock lock(mutex_);
  if (block) {
    if (unacknowledged_ >= window_) threads_.ResumePolling();
    changed_.wait(lock, [&] { return closed_ || closing_ || unacknowledged_ < window_; });
  }
  if (closed_) return ClosedError(*closed_);
  if (closing_) return ClosedError(*closing_);
  outgoing_.push_back({FrameType::kMessage, ++last_queued_, std::move(message.header),
                       std::move(message.payload), crc, bytes});
  unacknowledged_ += bytes;
  stats_.messages_sent += 1;
  stats_.bytes_sent += bytes - kMessageOverhead;
  if (!hold) {
    WriteMore(lock);
  } else if (!held_) {
    held_ = true;
    threads_.AtNextLook([weak = weak_from_this()] {
      const std::shared_ptr<ReliableLink> self = weak.lock();
      if (!self) return;
      std::unique_lock lock(self->mutex_);
      self->held_ = false;
      self->WriteMore(lock);
    });
  }
  return absl::OkStatus();
}

bool ReliableLink::BuildBatch(grpc::ByteBuffer* batch) {
  std::vector<grpc::Slice> slices;
  std::string text;  // frames without large payloads, one after another
  const auto flush = [&] {
    if (!text.empty()) slices.emplace_back(text);
    text.clear();
  };
  size_t bytes = 0, frames = 0;
  // A gRPC message arrives as a whole or not at all: on a line that breaks it should be small.
  const size_t most_frames = careful_ ? 1 : kMaxBatchFrames;
  while (sent_ < outgoing_.size() && bytes < kMaxBatchBytes && frames < most_frames &&
         (in_flight_ == 0 || in_flight_ < window_)) {
    const Outgoing& out = outgoing_[sent_];
    const size_t payload_bytes =
        static_cast<size_t>(out.bytes - kMessageOverhead) - out.header.size();
    if (frames > 0 && bytes + static_cast<size_t>(out.bytes) > kMaxBatchBytes) break;
    AppendFrame(out.type, out.sequence, taken_, out.header, payload_bytes, out.payload_crc, &text);
    for (const Slice& slice : out.payload) {
      if (slice.size <= kMaxCopiedBytes) {
        text.append(reinterpret_cast<const char*>(slice.data), slice.size);
      } else {
        flush();
        slices.push_back(GrpcSlice(slice));
      }
    }
    last_sent_ = std::max(last_sent_, out.sequence);
    in_flight_ += out.bytes;
    bytes += static_cast<size_t>(out.bytes);
    ++sent_, ++frames;
  }
  if (frames == 0) {
    if (!ack_due_ || ack_sent_ == taken_) return false;
    AppendFrame(FrameType::kAck, 0, taken_, "", 0, 0, &text);
  }
  flush();
  ack_due_ = false;
  ack_sent_ = taken_;
  taken_bytes_ = 0;
  *batch = grpc::ByteBuffer(slices.data(), slices.size());
  return true;
}

void ReliableLink::WriteMore(std::unique_lock<std::mutex>& lock) {
  if (!stream_) return;
  if (writing_) return threads_.ResumePolling();  // the end of that write is an event
  grpc::ByteBuffer batch;
  if (!BuildBatch(&batch)) return;
  writing_ = true;
  const std::shared_ptr<Stream> stream = stream_;
  lock.unlock();
  stream->Write(batch);
  lock.lock();
}

void ReliableLink::OnWritten(const std::shared_ptr<Stream>& stream) {
  std::unique_lock lock(mutex_);
  if (stream_ != stream) return;
  writing_ = false;
  WriteMore(lock);
}

// ---- Receiving ----

absl::Status ReliableLink::ReadFrames(const grpc::ByteBuffer& buffer, std::vector<Frame>* frames) {
  uint64_t next;
  {
    std::lock_guard lock(mutex_);
    next = accepted_ + 1;
  }
  FrameParser parser(SlicesOf(buffer), options_.max_message_bytes);
  parser.set_destination([&](const Frame& frame, size_t payload_bytes) {
    // Not for messages that have arrived before.
    if (frame.sequence != next || receiver_closed_) return Slice();
    return options_.receiver->PayloadMemory(frame.header, payload_bytes);
  });
  for (;;) {
    Frame frame;
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, parser.Next(&frame));
    if (!more) return absl::OkStatus();
    if (frame.sequence == next) ++next;
    frames->push_back(std::move(frame));
  }
}

void ReliableLink::OnBytes(const std::shared_ptr<Stream>& stream, const grpc::ByteBuffer& buffer) {
  // Only this thread reads from the stream, until the Read below.
  std::vector<Frame> frames;
  std::unique_lock reading(reading_mutex_);
  absl::Status error = ReadFrames(buffer, &frames);
  std::vector<Outgoing> freed;  // destroyed without the lock: it may be much memory
  std::unique_lock lock(mutex_);
  if (stream_ != stream) {
    // No further read is issued on it, so the peer must not consider it connected.
    lock.unlock();
    reading.unlock();
    return stream->Break(absl::AbortedError("another connection took its place"));
  }
  for (Frame& frame : frames) {
    const absl::Status accepted = Accept(std::move(frame), &freed);
    if (!accepted.ok()) error = accepted;
    if (!accepted.ok()) break;
  }
  reading.unlock();
  if (!freed.empty()) changed_.notify_all();
  if (error.ok() && peer_closed_ && close_acknowledged_) {
    // Both sides have closed, and both know.
    lock.unlock();
    return stream->Break(absl::OkStatus());
  }
  if (!error.ok()) {
    Strike(stream, error, lock);
  } else {
    // The next read goes out first: acknowledgments are seen while the receiver works.
    lock.unlock();
    stream->Read();
    lock.lock();
  }
  WriteMore(lock);  // the window may have opened
  Deliver(lock);
}

absl::Status ReliableLink::Accept(Frame frame, std::vector<Outgoing>* freed) {
  PENSTOCK_RETURN_IF_ERROR(AcceptAck(frame.ack, freed));
  if (frame.type == FrameType::kAck) return absl::OkStatus();
  if (frame.type != FrameType::kMessage && frame.type != FrameType::kClose) {
    return absl::DataLossError("malformed frame: a second Hello");
  }
  if (closed_) return absl::OkStatus();
  if (frame.sequence <= accepted_) return absl::OkStatus();  // sent again, but it had arrived
  if (frame.sequence != accepted_ + 1) {
    return absl::DataLossError(absl::StrCat("message ", frame.sequence, " arrived after message ",
                                            accepted_, ": messages are missing"));
  }
  const int64_t bytes = CostOf(frame.header, frame.payload);
  if (inbox_bytes_ > 0 && inbox_bytes_ + bytes > window_ + options_.max_message_bytes) {
    return absl::ResourceExhaustedError("the peer exceeds the window");
  }
  accepted_ = frame.sequence;
  strikes_ = 0;
  inbox_bytes_ += bytes;
  Incoming item{.kind = Incoming::kMessage, .sequence = frame.sequence, .bytes = bytes};
  if (frame.type == FrameType::kClose) {
    item.kind = Incoming::kPeerCloses;
    item.status = ParseStatus(frame.header);
  } else {
    item.message = {.header = std::move(frame.header), .payload = std::move(frame.payload)};
    stats_.messages_received += 1;
    stats_.bytes_received += bytes - kMessageOverhead;
  }
  inbox_.push_back(std::move(item));
  return absl::OkStatus();
}

absl::Status ReliableLink::AcceptAck(uint64_t ack, std::vector<Outgoing>* freed) {
  if (ack > last_sent_) {
    return absl::DataLossError(absl::StrCat("the peer acknowledges message ", ack,
                                            "; the last one that was sent is ", last_sent_));
  }
  close_acknowledged_ = closing_ && ack >= last_queued_;
  if (acknowledged_bytes_ > static_cast<int64_t>(kMaxBatchBytes)) careful_ = false;
  if (closed_) return absl::OkStatus();  // nothing is kept any more
  while (acknowledged_ < ack) {
    Outgoing& out = outgoing_.front();
    acknowledged_ = out.sequence;
    unacknowledged_ -= out.bytes;
    acknowledged_bytes_ += out.bytes;
    if (sent_ > 0) --sent_, in_flight_ -= out.bytes;
    const bool closed = out.type == FrameType::kClose;
    freed->push_back(std::move(out));
    outgoing_.pop_front();
    if (!closed) continue;
    // The peer knows. What is left is done by Deliver.
    closed_ = *closing_;
    inbox_.push_back({.kind = Incoming::kClosed, .status = *closing_});
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

void ReliableLink::Strike(const std::shared_ptr<Stream>& stream, const absl::Status& error,
                          std::unique_lock<std::mutex>& lock) {
  const bool hopeless = ++strikes_ >= kMaxStrikes;
  lock.unlock();
  if (hopeless) {
    Fail(absl::DataLossError(absl::StrCat("the same message arrived damaged ", kMaxStrikes,
                                          " times: ", error.message())));
  } else {
    stream->Break(error);
    OnEnded(stream, error);
  }
  lock.lock();
}

void ReliableLink::Deliver(std::unique_lock<std::mutex>& lock) {
  if (delivering_ || inbox_.empty()) return;
  const std::shared_ptr<ReliableLink> self = shared_from_this();
  const PollingThreads::Blocking blocking(threads_);
  delivering_ = true;
  deliverer_ = std::this_thread::get_id();
  while (!inbox_.empty() && !told_closed_) {
    Incoming item = std::move(inbox_.front());
    inbox_.pop_front();
    lock.unlock();
    switch (item.kind) {
      case Incoming::kMessage:
        options_.receiver->OnMessage(std::move(item.message));
        break;
      case Incoming::kDisconnected:
        options_.receiver->OnDisconnected(item.status);
        break;
      case Incoming::kReconnected:
        options_.receiver->OnReconnected();
        break;
      case Incoming::kPeerCloses:
        break;
      case Incoming::kClosed: {
        std::lock_guard reading(reading_mutex_);
        receiver_closed_ = true;
      }
        options_.receiver->OnClosed(item.status);
        if (options_.on_closed) options_.on_closed(item.status);
        break;
    }
    lock.lock();
    Taken(item, lock);
  }
  delivering_ = false;
  deliverer_ = {};
}

void ReliableLink::Taken(const Incoming& item, std::unique_lock<std::mutex>& lock) {
  if (item.kind == Incoming::kClosed) {
    if (peer_closed_) {
      taken_ = peer_close_;
      ack_due_ = true;
      WriteMore(lock);
    }
    told_closed_ = true;
    changed_.notify_all();
    const std::shared_ptr<Stream> stream = stream_;
    if (!stream) return;
    // The side that closed ends the stream, so that the other one's acknowledgment is not lost with it.
    if (peer_closed_) {
      threads_.After(kCloseSeconds, [weak = std::weak_ptr<Stream>(stream)] {
        if (const auto stream = weak.lock()) stream->Break(absl::OkStatus());
      });
      return;
    }
    lock.unlock();
    stream->Break(absl::OkStatus());
    lock.lock();
    return;
  }
  if (item.sequence == 0) return;
  if (item.kind == Incoming::kPeerCloses) {
    // Acknowledged when OnClosed has returned: a peer that has waited for that finds what this side owned released.
    peer_closed_ = true;
    peer_close_ = item.sequence;
    return CloseWith(item.status, lock);
  }
  taken_ = item.sequence;
  taken_bytes_ += item.bytes;
  inbox_bytes_ -= item.bytes;
  if (taken_bytes_ >= std::min(kAckBytes, window_ / 4)) {
    ack_due_ = true;
    WriteMore(lock);
  } else if (inbox_.empty()) {
    ScheduleAck();
  }
}

void ReliableLink::ScheduleAck() {
  if (ack_scheduled_ || ack_sent_ == taken_) return;
  ack_scheduled_ = true;
  taken_at_look_ = ack_sent_;
  AckAtNextLook();
}

// What a frame has acknowledged before the second look needs no frame of its own: that is so where requests and
// replies alternate.
void ReliableLink::AckAtNextLook() {
  threads_.AtNextLook([weak = weak_from_this()] {
    const std::shared_ptr<ReliableLink> self = weak.lock();
    if (!self) return;
    std::unique_lock lock(self->mutex_);
    if (self->ack_sent_ < self->taken_at_look_) {
      self->ack_due_ = true;
      self->WriteMore(lock);
    }
    self->taken_at_look_ = self->taken_;
    // If it is due, the end of the write that is in flight sends it.
    self->ack_scheduled_ =
        !self->ack_due_ && self->ack_sent_ != self->taken_ && self->stream_ && !self->closed_;
    if (self->ack_scheduled_) self->AckAtNextLook();
  });
}

// ---- Closing ----

void ReliableLink::Close(const absl::Status& reason) {
  std::unique_lock lock(mutex_);
  if (closed_ || closing_) return;
  closing_ = reason;
  changed_.notify_all();
  std::string header = SerializeStatus(reason);
  const int64_t bytes = CostOf(header, {});
  outgoing_.push_back({FrameType::kClose, ++last_queued_, std::move(header), {}, 0, bytes});
  unacknowledged_ += bytes;
  threads_.After(kCloseSeconds, [weak = weak_from_this(), reason] {
    if (const std::shared_ptr<ReliableLink> self = weak.lock()) self->Fail(reason);
  });
  WriteMore(lock);
}

void ReliableLink::Fail(const absl::Status& reason) {
  std::unique_lock lock(mutex_);
  CloseWith(reason, lock);
}

void ReliableLink::CloseWith(const absl::Status& reason, std::unique_lock<std::mutex>& lock) {
  if (closed_) return;
  closed_ = reason;
  inbox_.push_back({.kind = Incoming::kClosed, .status = reason});
  std::deque<Outgoing> dropped = std::move(outgoing_);
  outgoing_.clear();
  sent_ = 0;
  in_flight_ = unacknowledged_ = 0;
  changed_.notify_all();
  lock.unlock();
  dropped.clear();
  // The receiver is called on a thread of the link, never on the one that closes it.
  DeliverSoon();
  lock.lock();
}

void ReliableLink::WaitClosed() {
  std::unique_lock lock(mutex_);
  if (delivering_ && deliverer_ == std::this_thread::get_id()) return;
  changed_.wait(lock, [&] { return told_closed_; });
}

}  // namespace penstock::remote
