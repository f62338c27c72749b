#include "penstock/record/crc32c.h"

#include <string>

#include "gtest/gtest.h"

#include "penstock/base/random.h"

namespace penstock::record {
namespace crc32c_test {

std::string RandomBytes(size_t size, uint64_t seed) {
  base::Random random(seed);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random.Next());
  return out;
}

// Bitwise CRC, straight from the definition.
uint32_t Crc32cByDefinition(absl::string_view data) {
  uint32_t crc = 0xffffffffu;
  for (char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

TEST(Crc32c, MatchesRfc3720) {
  std::string up(32, '\0');
  std::string down(32, '\0');
  for (int i = 0; i < 32; ++i) {
    up[i] = static_cast<char>(i);
    down[i] = static_cast<char>(31 - i);
  }
  const unsigned char iscsi_read[48] = {0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00,
                                        0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00,
                                        0x00, 0x18, 0x28, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                        0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(up), 0x46dd794eu);
  EXPECT_EQ(Crc32c(down), 0x113fdb5cu);
  EXPECT_EQ(Crc32c(absl::string_view(reinterpret_cast<const char*>(iscsi_read), 48)), 0xd9963a56u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32c, EveryImplementationMatchesDefinitionAtEveryLengthAndAlignment) {
  const std::string bytes = RandomBytes(10000, 1);
  for (size_t size : {0, 1, 7, 8, 9, 63, 1023, 1024, 3071, 3072, 3073, 6144, 9000}) {
    for (size_t start = 0; start < 9; ++start) {
      const absl::string_view data = absl::string_view(bytes).substr(start, size);
      const uint32_t expected = Crc32cByDefinition(data);
      ASSERT_EQ(Crc32c(data), expected) << size << " bytes from " << start;
      ASSERT_EQ(internal::ExtendCrc32cByTable(0, data), expected)
          << size << " bytes from " << start;
    }
  }
}

TEST(Crc32c, CopiesAtEveryLengthAndAlignment) {
  const std::string bytes = RandomBytes(20000, 4);
  for (size_t size : {0, 1, 7, 8, 63, 64, 65, 3071, 3072, 3135, 3136, 9000, 19000}) {
    for (size_t start = 0; start < 3; ++start) {
      for (size_t to : {0, 1, 8, 63}) {
        const absl::string_view data = absl::string_view(bytes).substr(start, size);
        for (const auto copy : {CopyCrc32c, internal::CopyCrc32cPlainly}) {
          std::string out(size + 128, '.');
          ASSERT_EQ(copy(Crc32c("before"), data, out.data() + to),
                    ExtendCrc32c(Crc32c("before"), data))
              << size << " bytes from " << start << " to " << to;
          std::string expected(size + 128, '.');
          expected.replace(to, size, data.data(), size);
          ASSERT_EQ(out, expected) << size << " bytes from " << start << " to " << to;
        }
      }
    }
  }
}

TEST(Crc32c, ExtendsAcrossAnySplit) {
  const std::string bytes = RandomBytes(7000, 2);
  const uint32_t whole = Crc32c(bytes);
  for (size_t cut = 0; cut <= bytes.size(); cut += 97) {
    const absl::string_view view(bytes);
    ASSERT_EQ(ExtendCrc32c(Crc32c(view.substr(0, cut)), view.substr(cut)), whole);
  }
}

TEST(Crc32c, UnmaskInvertsMask) {
  // TensorFlow's mask: rotate right by 15 bits and add a constant.
  EXPECT_EQ(MaskCrc(0), 0xa282ead8u);
  EXPECT_EQ(MaskCrc(0x8000), 0xa282ead9u);
  base::Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const uint32_t crc = static_cast<uint32_t>(random.Next());
    ASSERT_EQ(UnmaskCrc(MaskCrc(crc)), crc);
    ASSERT_NE(MaskCrc(crc), crc);
  }
}

}  // namespace crc32c_test
}  // namespace penstock::record
