#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/remote/testing/fake_client.h"
#include "penstock/remote/worker/device_session.h"

namespace penstock::remote {
namespace {

// Discards what the session sends.
class NullLink : public Link {
 public:
  absl::Status Send(Message) override { return Post({}); }
  absl::Status Post(Message) override {
    return closed_ ? absl::CancelledError("closed") : absl::OkStatus();
  }
  void Close(const absl::Status&) override { closed_ = true; }
  Stats stats() const override { return {}; }

 private:
  std::atomic<bool> closed_{false};
};

}  // namespace
}  // namespace penstock::remote

// A sequence of messages of any content: each is a byte (its link: the lowest bit), the length of the header
// and of the payload (one byte, two bytes, little-endian), and both. The session survives all of them, and
// ends.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::remote;
  NullLink control, bulk;
  DeviceSession session(std::make_shared<FakeClient>(),
                        {.limits = {.max_buffers = 64,
                                    .max_buffer_bytes = 1 << 22,
                                    .max_tensor_bytes = 1 << 20,
                                    .max_programs = 8,
                                    .max_program_bytes = 1 << 12,
                                    .max_uploads = 8},
                         .writable = {"memory://b/"},
                         .file_system = penstock::io::MakeMemoryFileSystem()});
  session.Attach(&control, &bulk);
  while (size >= 4) {
    const size_t header = std::min<size_t>(data[1], size - 4);
    const size_t payload = std::min<size_t>(data[2] | data[3] << 8, size - 4 - header);
    // Copied, so that the sanitizer finds reads beyond it.
    const auto bytes = std::make_shared<std::vector<std::byte>>(payload);
    if (payload > 0) std::memcpy(bytes->data(), data + 4 + header, payload);
    Message message{.header = std::string(reinterpret_cast<const char*>(data + 4), header),
                    .payload = {}};
    if (payload > 0) message.payload.push_back({bytes, bytes->data(), payload});
    (data[0] % 2 == 0 ? session.control_receiver() : session.bulk_receiver())
        ->OnMessage(std::move(message));
    data += 4 + header + payload;
    size -= 4 + header + payload;
  }
  session.control_receiver()->OnClosed(absl::OkStatus());
  session.bulk_receiver()->OnClosed(absl::OkStatus());
  return 0;
}
