// Tensors of every type, whose bytes the peers' scripts compute from a tensor's name by the same
// formula (tensors() in pytorch_files.py and tensor_bundle_files.py).
#pragma once

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "penstock/base/array.h"
#include "penstock/save/save.h"

namespace penstock::tests {

// Four shapes of each type, named "float32<separator>vector" and so on.
inline base::NamedArrays TensorsOfTypes(absl::Span<const base::DType> types,
                                        absl::string_view separator) {
  const std::pair<const char*, base::Shape> shapes[] = {
      {"vector", {7}}, {"scalar", {}}, {"cube", {3, 1, 4}}, {"empty", {2, 0}}};
  base::NamedArrays arrays;
  for (const base::DType dtype : types) {
    for (const auto& [shape_name, shape] : shapes) {
      const std::string name = absl::StrCat(base::DTypeName(dtype), separator, shape_name);
      base::Array array = base::Array::Uninitialized(dtype, shape);
      auto* bytes = static_cast<unsigned char*>(array.mutable_raw());
      for (int64_t k = 0; k < array.num_bytes(); ++k) {
        const auto value =
            static_cast<unsigned char>((static_cast<int64_t>(name.size()) * 31 + k * 7) % 256);
        bytes[k] = dtype == base::DType::kBool ? value % 2 : value;
      }
      arrays.Append(name, array);
    }
  }
  return arrays;
}

// The weights hold `want` under this name, bit for bit.
inline void ExpectArray(const save::Weights& weights, absl::string_view name,
                        const base::Array& want) {
  const base::Array* found = weights.arrays.Find(name);
  ASSERT_NE(found, nullptr) << name;
  EXPECT_TRUE(base::BitwiseEqual(*found, want)) << name << ": " << found->ToString();
}

}  // namespace penstock::tests
