#include "penstock/remote/worker/device_session.h"

#include <utility>

#include "penstock/remote/worker/session_state.h"

namespace penstock::remote {

class DeviceSession::Receiver : public LinkReceiver {
 public:
  Receiver(SessionState* state, bool control) : state_(state), control_(control) {}

  void OnMessage(Message message) override {
    if (control_) {
      state_->OnControlMessage(std::move(message));
    } else {
      state_->OnBulkMessage(std::move(message));
    }
  }
  Slice PayloadMemory(const std::string& header, size_t bytes) override {
    return control_ ? Slice() : state_->PayloadMemory(header, bytes);
  }
  void OnClosed(const absl::Status&) override {
    if (control_) {
      state_->OnControlClosed();
    } else {
      state_->OnBulkClosed();
    }
  }

 private:
  SessionState* const state_;
  const bool control_;
};

DeviceSession::DeviceSession(std::shared_ptr<runtime::Client> client, DeviceSessionOptions options)
    : state_(std::make_shared<SessionState>(std::move(client), std::move(options))),
      control_(std::make_unique<Receiver>(state_.get(), true)),
      bulk_(std::make_unique<Receiver>(state_.get(), false)) {}

DeviceSession::~DeviceSession() { state_->Shutdown(); }

LinkReceiver* DeviceSession::control_receiver() { return control_.get(); }
LinkReceiver* DeviceSession::bulk_receiver() { return bulk_.get(); }

void DeviceSession::Attach(Link* control, Link* bulk) { state_->Attach(control, bulk); }

void DeviceSession::NotifyDraining(const std::string& reason, int64_t deadline_seconds) {
  state_->NotifyDraining(reason, deadline_seconds);
}

SessionStats DeviceSession::stats() const { return state_->stats(); }

}  // namespace penstock::remote
