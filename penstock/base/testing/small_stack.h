// A thread with a small stack, for tests of code that must not recurse over what a user makes as
// long as they like.
#pragma once

#include <functional>

#include <gtest/gtest.h>
#include <pthread.h>

namespace penstock::base {

// Calls `function` in a thread whose stack has room for the frames of ordinary calls, also of a
// sanitizer, but not for thousands of nested ones. A stack overflow ends the program.
inline void OnSmallStack(const std::function<void()>& function) {
  constexpr size_t kBytes = size_t{512} << 10;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kBytes), 0);
  pthread_t thread;
  const auto call = [](void* of) -> void* {
    (*static_cast<const std::function<void()>*>(of))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, call,
                           const_cast<void*>(static_cast<const void*>(&function))),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace penstock::base
