#include "penstock/remote/link/health.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "penstock/remote/protocol.pb.h"

namespace penstock::remote {
namespace {

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr size_t kMostRequestBytes = 4096;
constexpr size_t kMostWatchers = 64;
// A write to a watcher that has disconnected fails, which ends the call.
constexpr double kRepeatSeconds = 30;

bool IsKnown(const std::string& service) {
  return service.empty() || service == "penstock.remote.Worker";
}

grpc::ByteBuffer ResponseOf(HealthCheckResponse::Status status) {
  HealthCheckResponse response;
  response.set_status(status);
  const grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

bool Parse(const grpc::ByteBuffer& buffer, HealthCheckRequest* request) {
  grpc::Slice slice;
  return buffer.Length() <= kMostRequestBytes && buffer.DumpToSingleSlice(&slice).ok() &&
         request->ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
}

}  // namespace

bool Health::Has(absl::string_view method) { return method == kCheck || method == kWatch; }

void Health::OnCall(const std::shared_ptr<ServerStream>& stream, PollingThreads& threads,
                    double request_seconds) {
  const auto deadline = BreakAfter(threads, request_seconds, stream,
                                   absl::DeadlineExceededError("the request did not come in time"));
  stream->set_events({.opened = {},
                      .bytes =
                          [this, deadline, stream, &threads](const grpc::ByteBuffer& request) {
                            PollingThreads::Cancel(deadline);
                            OnRequest(stream, threads, request);
                          },
                      .written = {},
                      .ended = {}});
  stream->Read();
}

void Health::OnRequest(const std::shared_ptr<ServerStream>& stream, PollingThreads& threads,
                       const grpc::ByteBuffer& buffer) {
  HealthCheckRequest request;
  if (!Parse(buffer, &request)) {
    return stream->Break(absl::InvalidArgumentError("damaged HealthCheckRequest"));
  }
  const bool known = IsKnown(request.service());
  if (stream->context().method() == kCheck) {
    if (!known) return stream->Break(absl::NotFoundError("unknown service"));
    stream->set_events({.opened = {},
                        .bytes = {},
                        .written = [stream] { stream->Break(absl::OkStatus()); },
                        .ended = {}});
    std::unique_lock lock(mutex_);
    const auto status = serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
    lock.unlock();
    return stream->Write(ResponseOf(status));
  }
  Watch(stream, threads, known);
}

void Health::Watch(const std::shared_ptr<ServerStream>& stream, PollingThreads& threads,
                   bool known) {
  const auto watcher = std::make_shared<Watcher>();
  watcher->stream = stream;
  watcher->known = known;
  {
    std::unique_lock lock(mutex_);
    if (ended_ || watchers_.size() >= kMostWatchers) {
      lock.unlock();
      return stream->Break(absl::ResourceExhaustedError(
          absl::StrCat("the worker has its limit of ", kMostWatchers, " watchers of its health")));
    }
    watchers_.insert(watcher);
  }
  stream->set_events({.opened = {},
                      .bytes = [](const grpc::ByteBuffer&) {},
                      .written =
                          [this, watcher] {
                            {
                              std::lock_guard lock(mutex_);
                              watcher->writing = false;
                            }
                            Tell(watcher);
                          },
                      .ended = [this, watcher](const absl::Status&) { Forget(watcher); }});
  Tell(watcher);
  Repeat(watcher, threads);
}

void Health::Forget(const std::shared_ptr<Watcher>& watcher) {
  std::unique_lock lock(mutex_);
  watchers_.erase(watcher);
  watcher->stream = nullptr;
  const auto timer = std::exchange(watcher->timer, nullptr);
  lock.unlock();
  if (timer) PollingThreads::Cancel(timer);
}

void Health::Repeat(const std::shared_ptr<Watcher>& watcher, PollingThreads& threads) {
  std::lock_guard lock(mutex_);
  if (!watcher->stream) return;
  watcher->timer = threads.After(kRepeatSeconds, [this, watcher, &threads] {
    {
      std::lock_guard lock(mutex_);
      watcher->sent = -1;
    }
    Tell(watcher);
    Repeat(watcher, threads);
  });
}

void Health::Tell(const std::shared_ptr<Watcher>& watcher) {
  std::unique_lock lock(mutex_);
  const auto status = !watcher->known ? HealthCheckResponse::SERVICE_UNKNOWN
                      : serving_      ? HealthCheckResponse::SERVING
                                      : HealthCheckResponse::NOT_SERVING;
  if (watcher->writing || watcher->sent == status || !watcher->stream) return;
  watcher->writing = true;
  watcher->sent = status;
  const std::shared_ptr<ServerStream> stream = watcher->stream;
  lock.unlock();
  stream->Write(ResponseOf(status));
}

void Health::Drain() {
  std::unique_lock lock(mutex_);
  serving_ = false;
  const std::vector<std::shared_ptr<Watcher>> watchers(watchers_.begin(), watchers_.end());
  lock.unlock();
  for (const auto& watcher : watchers) Tell(watcher);
}

void Health::End() {
  std::vector<std::shared_ptr<ServerStream>> streams;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    for (const auto& watcher : watchers_) streams.push_back(watcher->stream);
  }
  for (const auto& stream : streams) stream->Break(absl::UnavailableError("the worker ends"));
}

}  // namespace penstock::remote
