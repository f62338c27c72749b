#include "penstock/runtime/compile_options.h"

#include <gtest/gtest.h>

namespace penstock::runtime {
namespace compile_options_test {

// The expected bytes follow the protobuf wire format: tag = field << 3 | type, then a varint (type
// 0) or a length and bytes (type 2). -1 takes ten bytes.
const std::string kMinusOne = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";

TEST(CompileOptions, AlwaysEncodesReplicasAndPartitions) {
  EXPECT_EQ(EncodeCompileOptions(8, {}, {}),
            "\x1a\x0f"  // 3: build options, 15 bytes
            "\x08" +
                kMinusOne +   // 1: device_ordinal = -1
                "\x20\x08"    // 4: num_replicas = 8
                "\x28\x01");  // 5: num_partitions = 1
}

TEST(CompileOptions, AssignsDeviceToEachReplica) {
  EXPECT_EQ(EncodeCompileOptions(2, {5, 300}, {}),
            "\x1a\x1c\x08" + kMinusOne + "\x20\x02\x28\x01" +
                "\x4a\x0b"                        // 9: device_assignment, 11 bytes
                "\x08\x02\x10\x01"                // 1: two replicas, 2: one computation
                "\x1a\x05\x08\x05\x08\xac\x02");  // 3: { 1: 5, 1: 300 }
}

TEST(CompileOptions, OverridesXlaFlagsByName) {
  const std::string build = "\x1a\x0f\x08" + kMinusOne + "\x20\x01\x28\x01";
  EXPECT_EQ(EncodeCompileOptions(1, {}, {{"ab", "7"}, {"c", "true"}}),
            build +
                "\x3a\x09\x0a\x02"
                "ab"
                "\x12\x03\x0a\x01"
                "7"  // 7: { "ab": { string: "7" } }
                +
                "\x3a\x07\x0a\x01"
                "c"
                "\x12\x02\x10\x01");  // 7: { "c": { bool: true } }
}

}  // namespace compile_options_test
}  // namespace penstock::runtime
