// Link: ordered messages between a client and a worker, each delivered exactly once, over connections
// that may break at any byte.
//
// Each direction numbers its messages. The receiver acknowledges them cumulatively; the sender keeps
// what is not acknowledged (references to memory, no copies), at most `window` bytes of it. After a
// reconnect both sides say what they have received last, and the other one sends the rest again. A
// link whose peer does not come back before the lease ends is closed for good.
//
//   class Prints : public LinkReceiver {
//     void OnMessage(Message message) override { ... }
//     ...
//   };
//   PENSTOCK_RETURN_IF_ERROR(link->Send({.header = request.SerializeAsString(), .payload = {slice}}));
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::remote {

// Memory that a message refers to. It must not change before the message is acknowledged.
struct Slice {
  std::shared_ptr<const void> owner = nullptr;
  const std::byte* data = nullptr;
  size_t size = 0;
};

// Header (a serialized message of protocol.proto), and raw bytes after it.
struct Message {
  std::string header = {};
  std::vector<Slice> payload = {};
  // Another message follows at once: this one may wait for it, at most a few milliseconds, and go with it.
  bool hold = false;

  size_t payload_bytes() const {
    size_t bytes = 0;
    for (const Slice& slice : payload) bytes += slice.size;
    return bytes;
  }
};

// Receives a link's messages and events. All calls come one at a time, in order, on threads of the link.
class LinkReceiver {
 public:
  virtual ~LinkReceiver() = default;
  // While it runs, no further message of this link is delivered, and the peer's window fills: this is
  // the backpressure.
  virtual void OnMessage(Message message) = 0;
  // Memory for the payload of the next message, which a copy in OnMessage would fill: the link checks and copies the
  // payload in one pass. None (the default): it stays where it was received. Called before OnMessage, maybe while an
  // earlier message is delivered, from one thread at a time. What it says may not happen: if the payload is damaged, the
  // message comes again.
  virtual Slice PayloadMemory(const std::string& header, size_t bytes) {
    (void)header, (void)bytes;
    return {};
  }
  // The connection broke; the link reconnects (or waits for the peer to do so) meanwhile.
  virtual void OnDisconnected(const absl::Status& reason) { (void)reason; }
  virtual void OnReconnected() {}
  // The last call: the link is closed, by the peer, because the lease ended, because the peer lost its state
  // (DATA_LOSS: the worker was started again), or by Close.
  virtual void OnClosed(const absl::Status& reason) = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  // Sends in order. Blocks while the window is full. An error only after the link is closed: a broken
  // connection is none.
  virtual absl::Status Send(Message message) = 0;
  // Same as Send, but never blocks, for threads of the runtime; the caller bounds what it posts.
  virtual absl::Status Post(Message message) = 0;
  // Sends what is queued, for at most a few seconds, then closes the link for good.
  virtual void Close(const absl::Status& reason) = 0;

  struct Stats {
    int64_t messages_sent = 0, messages_received = 0;
    int64_t bytes_sent = 0, bytes_received = 0;  // of messages, each counted once
    int64_t resent = 0;                          // messages sent again after reconnects
    int64_t reconnects = 0;
    int64_t unacknowledged_bytes = 0;
    bool connected = false;
  };
  virtual Stats stats() const = 0;
};

}  // namespace penstock::remote
