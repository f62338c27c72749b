// What the room's tests share: tensors of a test device, and their values.
#pragma once

#include <vector>

#include <gtest/gtest.h>

#include "penstock/lazy/tensor.h"
#include "penstock/lazy/xm.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::lazy::test {

inline Device TestDevice(int index = 0) { return Device(runtime::TestClient(2), index); }

inline Tensor Make(const Shape& shape, const std::vector<float>& values,
                   bool requires_grad = false) {
  return tensor(Array::Of<float>(shape, absl::MakeConstSpan(values)), TestDevice(), requires_grad);
}

inline std::vector<float> ValuesOf(const Tensor& x) {
  const auto array = x.cpu();
  EXPECT_TRUE(array.ok()) << array.status();
  if (!array.ok() || array->dtype() != DType::kF32) return {};
  const auto values = array->values<float>();
  return {values.begin(), values.end()};
}

// The error that reading the tensor returns; the thread has none afterwards.
inline std::string ErrorOf(const Tensor& x) {
  const auto array = x.cpu();
  return array.ok() ? "" : std::string(array.status().message());
}

}  // namespace penstock::lazy::test
