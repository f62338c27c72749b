// Two ends of a link within this process, without a network: for tests of what stands above a link.
#pragma once

#include <memory>
#include <utility>

#include "penstock/remote/link/link.h"

namespace penstock::remote {

// What is sent on `first` is delivered to `second`'s receiver, by a thread of the pair, and the reverse.
// Receivers must outlive the links. Both ends close together, after what is queued has been delivered. A link
// must not be destroyed within a call of a receiver.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> MakeLinkPair(LinkReceiver* first_receiver,
                                                                     LinkReceiver* second_receiver);

}  // namespace penstock::remote
