#include "penstock/remote/testing/in_process_worker.h"

#include <tuple>
#include <utility>

#include "penstock/base/status.h"
#include "penstock/remote/link/link_pair.h"
#include "penstock/remote/wire/features.h"
#include "penstock/remote/worker/worker_info.h"

namespace penstock::remote {
namespace {

// The client's ends of the links, and the session at the others.
class InProcessLinks : public SessionLinks {
 public:
  InProcessLinks(std::shared_ptr<runtime::Client> local, const DeviceSessionOptions& options,
                 const DeviceClient::Receivers& receivers)
      : worker_(DescribeClient(*local, options.devices)), session_(std::move(local), options) {
    for (const std::string& prefix : options.readable) worker_.add_readable(prefix);
    for (const std::string& prefix : options.writable) worker_.add_writable(prefix);
    std::tie(control_, worker_control_) =
        MakeLinkPair(receivers.control, session_.control_receiver());
    std::tie(bulk_, worker_bulk_) = MakeLinkPair(receivers.bulk, session_.bulk_receiver());
    session_.Attach(worker_control_.get(), worker_bulk_.get());
  }

  Link& control() override { return *control_; }
  Link& bulk() override { return *bulk_; }
  const WorkerInfo& worker() const override { return worker_; }
  std::vector<std::string> features() const override { return OurFeatures(); }

 private:
  WorkerInfo worker_;
  DeviceSession session_;
  std::unique_ptr<Link> worker_control_, worker_bulk_, control_, bulk_;
};

}  // namespace

DeviceClient::Connect InProcessConnector(std::shared_ptr<runtime::Client> local,
                                         const DeviceSessionOptions& options) {
  return [local = std::move(local), options](const DeviceClient::Receivers& receivers)
             -> absl::StatusOr<std::unique_ptr<SessionLinks>> {
    return std::make_unique<InProcessLinks>(local, options, receivers);
  };
}

absl::StatusOr<std::shared_ptr<runtime::Client>> OpenInProcess(
    std::shared_ptr<runtime::Client> local, const DeviceSessionOptions& options) {
  return DeviceClient::Open(InProcessConnector(std::move(local), options));
}

}  // namespace penstock::remote
