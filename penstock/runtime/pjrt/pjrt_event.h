// PjrtEvent: a PJRT event as runtime::Event (completion event).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "penstock/runtime/client.h"

struct PJRT_Api;
struct PJRT_Event;

namespace penstock::runtime {

class PjrtClient;

class PjrtEvent final : public Event {
 public:
  // Takes ownership of `event`. `context` precedes the message of an error; may be empty.
  PjrtEvent(std::shared_ptr<PjrtClient> client, PJRT_Event* event, std::string context);
  ~PjrtEvent() override;

  absl::Status Await() override;
  bool IsReady() override;
  void OnReady(std::function<void(absl::Status)> callback) override;

 private:
  const std::shared_ptr<PjrtClient> client_;
  PJRT_Event* const event_;
  const std::string context_;
};

// The same for a raw event, which remains the caller's. A callback must not own an object that
// keeps a client alive for long: it may be destroyed on one of the plugin's threads.
absl::Status AwaitEvent(const PJRT_Api* api, PJRT_Event* event);
void DestroyEvent(const PJRT_Api* api, PJRT_Event* event);
void CallWhenReady(const PJRT_Api* api, PJRT_Event* event,
                   std::function<void(absl::Status)> callback);

// Whether the calling thread is inside a callback of CallWhenReady.
bool InsideCallback();

}  // namespace penstock::runtime
