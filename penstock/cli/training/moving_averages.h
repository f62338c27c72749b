// Note about batch normalization in a short training.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/nn/network.h"

namespace penstock::cli {

// A note if the moving averages of the network's batch normalization, with which it is evaluated,
// would still consist of their initial values by more than a tenth after that many steps from the
// beginning; empty otherwise. An average that begins with a holds a * momentum^steps of it.
std::string MovingAveragesNote(const nn::Network& network, int64_t steps);

}  // namespace penstock::cli
