#include "penstock/session/session.h"

#include <mutex>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/session/data.h"
#include "penstock/session/run/iterator_def.h"
#include "penstock/session/run/session_state.h"
#include "penstock/train/file_host.h"

namespace penstock::session {

class Session::Impl : public SessionState {
 public:
  using SessionState::SessionState;
};

class Callable::Impl {
 public:
  std::shared_ptr<SessionState> session;
  Prepared* prepared = nullptr;
};

Session::Session(absl::string_view target, const ConfigProto& config, Graph* graph)
    : impl_(std::make_shared<Impl>(target, config, graph)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const absl::Status& Session::status() const { return impl_->status(); }
Graph* Session::graph() const { return impl_->graph(); }

absl::StatusOr<std::vector<Array>> Session::Run(const Fetches& fetches, const FeedDict& feeds) {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  PENSTOCK_RETURN_IF_ERROR(impl_->CheckOpen());
  PENSTOCK_ASSIGN_OR_RETURN(Prepared * prepared, impl_->Prepare(fetches, feeds));
  absl::InlinedVector<Array, 4> values;
  for (const Feed& feed : feeds) values.push_back(feed.second);
  return impl_->Run(*prepared, values);
}

absl::StatusOr<Array> Session::Run(const Tensor& fetch, const FeedDict& feeds) {
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<Array> values, Run(Fetches{fetch}, feeds));
  return std::move(values[0]);
}

absl::Status Session::Run(const Operation& fetch, const FeedDict& feeds) {
  return Run(Fetches{fetch}, feeds).status();
}

absl::StatusOr<Callable> Session::MakeCallable(const Fetches& fetches, const Tensors& feeds) {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  PENSTOCK_RETURN_IF_ERROR(impl_->CheckOpen());
  Callable callable;
  callable.impl_ = std::make_shared<Callable::Impl>();
  callable.impl_->session = impl_;
  PENSTOCK_ASSIGN_OR_RETURN(callable.impl_->prepared, impl_->Prepare(fetches, feeds));
  return callable;
}

absl::StatusOr<std::vector<Array>> Callable::operator()(absl::Span<const Array> feeds) {
  if (impl_ == nullptr) {
    return absl::FailedPreconditionError("this Callable is empty; make it with MakeCallable");
  }
  const std::lock_guard<std::mutex> lock(impl_->session->mutex());
  PENSTOCK_RETURN_IF_ERROR(impl_->session->CheckOpen());
  const size_t wanted = impl_->prepared->plan.feeds.size();
  if (feeds.size() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("the callable takes ", wanted, " feeds, got ", feeds.size()));
  }
  return impl_->session->Run(*impl_->prepared, feeds);
}

absl::StatusOr<std::vector<Array>> Session::RunLoop(int64_t n, const Fetches& fetches,
                                                    const FeedDict& feeds, int64_t* steps_done) {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  PENSTOCK_RETURN_IF_ERROR(impl_->CheckOpen());
  PENSTOCK_ASSIGN_OR_RETURN(Prepared * prepared, impl_->Prepare(fetches, feeds));
  absl::InlinedVector<Array, 4> values;
  for (const Feed& feed : feeds) values.push_back(feed.second);
  return impl_->RunLoop(*prepared, n, values, steps_done);
}

absl::StatusOr<std::string> Session::IteratorPosition(const Iterator& iterator) {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  PENSTOCK_RETURN_IF_ERROR(impl_->CheckOpen());
  if (!iterator.valid()) return absl::InvalidArgumentError("the iterator is invalid");
  return impl_->PositionOf(*iterator.def());
}

absl::Status Session::SetIteratorPosition(const Iterator& iterator, absl::string_view position) {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  PENSTOCK_RETURN_IF_ERROR(impl_->CheckOpen());
  if (!iterator.valid()) return absl::InvalidArgumentError("the iterator is invalid");
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<HostInput> input, iterator.def()->OpenAt(position));
  impl_->inputs().Set(*iterator.def(), std::move(input));
  return absl::OkStatus();
}

std::vector<runtime::Device> Session::ListDevices() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  return impl_->devices();
}

std::vector<std::string> Session::UninitializedVariables() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  return impl_->UninitializedVariables();
}

absl::StatusOr<Array> Session::GetVariableValue(absl::string_view name) const {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  return impl_->GetVariableValue(name);
}

absl::Status Session::SetVariableValue(absl::string_view name, const Array& value) {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  return impl_->SetVariableValue(name, value);
}

absl::Status Session::UseVariables(
    absl::Span<const std::string> names,
    absl::FunctionRef<absl::Status(const runtime::Buffers& values)> use) const {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  PENSTOCK_RETURN_IF_ERROR(impl_->CheckOpen());
  runtime::Buffers values;
  for (const std::string& name : names) {
    PENSTOCK_ASSIGN_OR_RETURN(values.emplace_back(), impl_->VariableBuffer(name));
  }
  return use(values);
}

absl::StatusOr<std::shared_ptr<io::FileSystem>> Session::WorkerFiles() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  PENSTOCK_RETURN_IF_ERROR(impl_->CheckOpen());
  auto* const host = dynamic_cast<::penstock::train::FileHost*>(impl_->client());
  if (host != nullptr) return host->Files();
  return absl::FailedPreconditionError(
      "the session's devices are this machine's, and so are its files: leave "
      "SaverOptions::file_system unset");
}

void Session::SetRandomDraws(uint32_t draws) {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  impl_->SetRandomDraws(draws);
}

void Session::Close() {
  const std::lock_guard<std::mutex> lock(impl_->mutex());
  impl_->Close();
}

}  // namespace penstock::session
