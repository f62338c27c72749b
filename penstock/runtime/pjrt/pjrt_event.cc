#include "penstock/runtime/pjrt/pjrt_event.h"

#include <utility>

#include "penstock/base/status.h"
#include "penstock/runtime/pjrt/pjrt_api.h"
#include "penstock/runtime/pjrt/pjrt_client.h"

namespace penstock::runtime {
namespace {

thread_local int callback_depth = 0;

struct Callback {
  const PJRT_Api* api;
  std::function<void(absl::Status)> function;
};

void RunCallback(PJRT_Error* error, void* argument) {
  std::unique_ptr<Callback> callback(static_cast<Callback*>(argument));
  ++callback_depth;
  callback->function(TakeError(callback->api, error));
  callback.reset();
  --callback_depth;
}

absl::Status InContext(absl::Status status, const std::string& context) {
  return status.ok() || context.empty() ? status : base::WithContext(status, context);
}

}  // namespace

bool InsideCallback() { return callback_depth > 0; }

absl::Status AwaitEvent(const PJRT_Api* api, PJRT_Event* event) {
  PENSTOCK_PJRT_ARGS(PJRT_Event_Await_Args, args);
  args.event = event;
  return PENSTOCK_PJRT_CALL(api, PJRT_Event_Await, args);
}

void DestroyEvent(const PJRT_Api* api, PJRT_Event* event) {
  PENSTOCK_PJRT_ARGS(PJRT_Event_Destroy_Args, args);
  args.event = event;
  PENSTOCK_PJRT_CALL(api, PJRT_Event_Destroy, args).IgnoreError();
}

void CallWhenReady(const PJRT_Api* api, PJRT_Event* event,
                   std::function<void(absl::Status)> callback) {
  auto owned = std::make_unique<Callback>(Callback{api, std::move(callback)});
  PENSTOCK_PJRT_ARGS(PJRT_Event_OnReady_Args, args);
  args.event = event;
  args.callback = RunCallback;
  args.user_arg = owned.get();
  const absl::Status registered = PENSTOCK_PJRT_CALL(api, PJRT_Event_OnReady, args);
  if (registered.ok()) {
    (void)owned.release();  // RunCallback frees it
  } else {
    owned->function(registered);
  }
}

PjrtEvent::PjrtEvent(std::shared_ptr<PjrtClient> client, PJRT_Event* event, std::string context)
    : client_(std::move(client)), event_(event), context_(std::move(context)) {}

PjrtEvent::~PjrtEvent() { DestroyEvent(client_->api(), event_); }

absl::Status PjrtEvent::Await() { return InContext(AwaitEvent(client_->api(), event_), context_); }

bool PjrtEvent::IsReady() {
  PENSTOCK_PJRT_ARGS(PJRT_Event_IsReady_Args, args);
  args.event = event_;
  // If the plugin cannot tell, Await does.
  return PENSTOCK_PJRT_CALL(client_->api(), PJRT_Event_IsReady, args).ok() && args.is_ready;
}

void PjrtEvent::OnReady(std::function<void(absl::Status)> callback) {
  CallWhenReady(client_->api(), event_,
                [callback = std::move(callback), context = context_](absl::Status status) {
                  callback(InContext(std::move(status), context));
                });
}

}  // namespace penstock::runtime
