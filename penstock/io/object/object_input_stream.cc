#include "penstock/io/object/object_input_stream.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/types/span.h"

#include "penstock/base/status.h"
#include "penstock/io/object/read_window.h"

namespace penstock::io {
namespace {

struct Piece {
  Piece(int64_t offset, int64_t size)
      : offset(offset), size(size), bytes(std::make_unique_for_overwrite<char[]>(size)) {}

  const int64_t offset;
  const int64_t size;
  const std::unique_ptr<char[]> bytes;
  std::optional<ObjectRangeResult> end;  // guarded by Arrivals::mutex
};

// State shared with the client threads; it outlives a stream that is destroyed while ranges are in
// flight.
struct Arrivals {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<StoredObject> found;
};

class ObjectInputStream : public InputStream {
 public:
  ObjectInputStream(std::string text, std::shared_ptr<ObjectReader> reader,
                    std::shared_ptr<ReadAhead> ahead)
      : InputStream(std::move(text)),
        reader_(std::move(reader)),
        ahead_(std::move(ahead)),
        window_(ahead_->max_stream_bytes, ahead_->last_window) {}

  ~ObjectInputStream() override {
    if (next_ > window_.range_bytes()) ahead_->last_window = window_.bytes();
    Abandon();
  }

  absl::Status Open(const Uri& uri) {
    object_.uri = uri;
    ObjectRangeResult end = RequestFirst();
    if (!end.rejected_authorization.empty() && reader_->Reauthorize(end.rejected_authorization)) {
      GoBackTo(0);
      end = RequestFirst();
    }
    if (end.status.ok()) return absl::OkStatus();
    Abandon();
    // An empty object has no bytes to request; "not found" needs to be verified.
    const bool is_worth_a_look = absl::IsOutOfRange(end.status) || absl::IsNotFound(end.status);
    return is_worth_a_look ? OpenExistingObject() : end.status;
  }

  std::string version() const override { return object_.version; }

  absl::StatusOr<int64_t> Read(absl::Span<char> out) override {
    int64_t done = 0;
    const auto requested = static_cast<int64_t>(out.size());
    while (done < requested) {
      PENSTOCK_RETURN_IF_ERROR(status_);
      AskAhead();
      if (pieces_.empty()) break;
      const std::shared_ptr<Piece> piece = pieces_.front();
      status_ = Await(*piece);
      if (absl::IsUnauthenticated(status_) && !reauthorized_ &&
          reader_->Reauthorize(piece->end->rejected_authorization)) {
        reauthorized_ = true;
        GoBackTo(piece->offset + taken_of_first_);
        status_ = absl::OkStatus();
        continue;
      }
      if (!status_.ok()) {
        Abandon();
        return status_;
      }
      reauthorized_ = false;
      const int64_t n = std::min(requested - done, piece->end->bytes - taken_of_first_);
      std::memcpy(out.data() + done, piece->bytes.get() + taken_of_first_, n);
      done += n;
      taken_of_first_ += n;
      if (taken_of_first_ == piece->end->bytes) DropFirst();
    }
    return done;
  }

 private:
  // Returns OK once the object is known, or the error of the first range.
  ObjectRangeResult RequestFirst() {
    Request(window_.range_bytes());
    std::unique_lock lock(arrivals_->mutex);
    const Piece& first = *pieces_.front();
    arrivals_->came.wait(lock, [&] { return arrivals_->found || first.end; });
    if (!arrivals_->found) return *first.end;
    object_ = *arrivals_->found;
    next_ = std::min(next_, object_.size);
    return {};
  }

  absl::Status OpenExistingObject() {
    PENSTOCK_ASSIGN_OR_RETURN(object_, reader_->Stat(object_.uri));
    GoBackTo(0);
    return absl::OkStatus();
  }

  // Discards the ranges in flight and continues requesting at `offset`.
  void GoBackTo(int64_t offset) {
    Abandon();
    next_ = offset;
    cancelled_ = std::make_shared<std::atomic<bool>>(false);
  }

  // Requests the next `size` bytes, regardless of the window.
  void Request(int64_t size) {
    auto piece = std::make_shared<Piece>(next_, size);
    next_ += size;
    charged_ += size;
    ahead_->bytes += size;
    pieces_.push_back(piece);
    ObjectRange range{.offset = piece->offset,
                      .out = absl::MakeSpan(piece->bytes.get(), size),
                      .cancelled = cancelled_};
    if (object_.version.empty()) {
      range.on_found = [arrivals = arrivals_](const StoredObject& object) {
        std::lock_guard lock(arrivals->mutex);
        arrivals->found = object;
        arrivals->came.notify_all();
      };
    }
    reader_->Read(object_, std::move(range), [arrivals = arrivals_, piece](ObjectRangeResult end) {
      std::lock_guard lock(arrivals->mutex);
      piece->end = std::move(end);
      arrivals->came.notify_all();
    });
  }

  void AskAhead() {
    while (next_ < object_.size) {
      const int64_t size = std::min(window_.range_bytes(), object_.size - next_);
      if (!pieces_.empty() &&
          (charged_ + size > window_.bytes() || ahead_->bytes + size > ahead_->max_bytes)) {
        return;
      }
      Request(size);
    }
  }

  absl::Status Await(const Piece& piece) {
    std::unique_lock lock(arrivals_->mutex);
    arrivals_->came.wait(lock, [&] { return piece.end.has_value(); });
    return piece.end->status;
  }

  void DropFirst() {
    const Piece& piece = *pieces_.front();
    if (piece.end->first_byte_seconds >= 0) {
      window_.OnRangeReceived(piece.end->first_byte_seconds, piece.end->transfer_seconds,
                              piece.end->bytes);
    }
    window_.OnBytesConsumed(reader_->http().clock()->Seconds(), piece.end->bytes);
    Discharge(piece.size);
    pieces_.pop_front();
    taken_of_first_ = 0;
  }

  void Discharge(int64_t size) {
    charged_ -= size;
    ahead_->bytes -= size;
  }

  // Cancels the ranges in flight. The pieces live until the client threads have released them.
  void Abandon() {
    *cancelled_ = true;
    if (!pieces_.empty()) reader_->http().Wake();
    pieces_.clear();
    Discharge(charged_);
    taken_of_first_ = 0;
  }

  const std::shared_ptr<ObjectReader> reader_;
  const std::shared_ptr<ReadAhead> ahead_;
  const std::shared_ptr<Arrivals> arrivals_ = std::make_shared<Arrivals>();
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);

  StoredObject object_;
  ReadWindow window_;
  absl::Status status_;
  bool reauthorized_ = false;  // since the last bytes arrived
  int64_t next_ = 0;           // first byte not yet requested
  std::deque<std::shared_ptr<Piece>> pieces_;
  int64_t charged_ = 0;         // sum of the sizes of pieces_
  int64_t taken_of_first_ = 0;  // bytes of pieces_.front() already consumed
};

}  // namespace

absl::StatusOr<std::unique_ptr<InputStream>> OpenObjectInputStream(
    std::string text, const Uri& uri, std::shared_ptr<ObjectReader> reader,
    std::shared_ptr<ReadAhead> ahead) {
  auto stream =
      std::make_unique<ObjectInputStream>(std::move(text), std::move(reader), std::move(ahead));
  PENSTOCK_RETURN_IF_ERROR(stream->Open(uri));
  return stream;
}

}  // namespace penstock::io
