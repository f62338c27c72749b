#include "penstock/base/termination_signal.h"

#include <csignal>

#include "gtest/gtest.h"

namespace penstock::base {
namespace termination_signal_test {

volatile std::sig_atomic_t own_signals = 0;
void CountOwnSignal(int) { own_signals = own_signals + 1; }

TEST(TerminationSignal, FirstSignalIsNoticed) {
  const auto sigterm = TerminationSignal::Install();
  ASSERT_TRUE(sigterm.ok()) << sigterm.status();
  EXPECT_FALSE((*sigterm)->received());
  std::raise(SIGTERM);
  EXPECT_TRUE((*sigterm)->received());
}

TEST(TerminationSignalDeathTest, SecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const auto sigterm = TerminationSignal::Install();
        std::raise(SIGTERM);
        std::raise(SIGTERM);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(TerminationSignal, PreviousHandlerIsRestored) {
  const auto before = std::signal(SIGTERM, &CountOwnSignal);
  for (const bool signaled : {false, true}) {
    own_signals = 0;
    {
      const auto sigterm = TerminationSignal::Install();
      ASSERT_TRUE(sigterm.ok()) << sigterm.status();
      EXPECT_FALSE((*sigterm)->received()) << "left over from an earlier one";
      if (signaled) std::raise(SIGTERM);
      EXPECT_EQ(own_signals, 0);
    }
    std::raise(SIGTERM);
    EXPECT_EQ(own_signals, 1);
  }
  std::signal(SIGTERM, before);
}

TEST(TerminationSignal, HandlerThatReplacedItStays) {
  const auto before = std::signal(SIGTERM, SIG_DFL);
  {
    const auto sigterm = TerminationSignal::Install();
    ASSERT_TRUE(sigterm.ok()) << sigterm.status();
    std::signal(SIGTERM, &CountOwnSignal);
  }
  EXPECT_EQ(std::signal(SIGTERM, before), &CountOwnSignal);
}

TEST(TerminationSignal, OnlyOneIsInstalled) {
  auto first = TerminationSignal::Install();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(TerminationSignal::Install().status()));
  *first = nullptr;
  EXPECT_TRUE(TerminationSignal::Install().ok());
}

}  // namespace termination_signal_test
}  // namespace penstock::base
