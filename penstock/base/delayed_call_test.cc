#include "penstock/base/delayed_call.h"

#include <future>

#include "gtest/gtest.h"

namespace penstock::base {
namespace delayed_call_test {
namespace {

TEST(DelayedCall, CallsOnceWhenItTakesLong) {
  std::promise<void> called;
  const DelayedCall late(0.001, [&] { called.set_value(); });  // a second call would throw
  called.get_future().wait();
}

TEST(DelayedCall, DoesNotCallWhatEndsInTime) {
  bool called = false;
  {
    const DelayedCall late(86400, [&] { called = true; });
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace delayed_call_test
}  // namespace penstock::base
