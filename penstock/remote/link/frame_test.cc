#include "penstock/remote/link/frame.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include <gtest/gtest.h>

#include "penstock/remote/testing/link_sessions.h"

namespace penstock::remote {
namespace frame_test {

std::string Encode(FrameType type, uint64_t sequence, uint64_t ack, const std::string& header,
                   const std::string& payload) {
  std::string bytes;
  AppendFrame(type, sequence, ack, header, payload.size(), PayloadCrc({SliceOf(payload)}), &bytes);
  return bytes + payload;
}

// The bytes in slices of `step`.
std::vector<Slice> Split(const std::string& bytes, size_t step) {
  std::vector<Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += step) slices.push_back(SliceOf(bytes.substr(i, step)));
  return slices;
}

TEST(Frame, HasTheDocumentedLayout) {
  const std::string bytes = Encode(FrameType::kMessage, 0x0102, 7, "hh", "123456789");
  ASSERT_EQ(bytes.size(), 36u + 2 + 9);
  EXPECT_EQ(bytes.substr(0, 12),
            std::string("\xA7\x01\x03\x00\x02\x00\x00\x00\x09\x00\x00\x00", 12));
  // RFC 3720: the CRC-32C of "123456789" is 0xe3069283.
  EXPECT_EQ(bytes.substr(12, 4), "\x83\x92\x06\xe3");
  EXPECT_EQ(bytes.substr(16, 8), std::string("\x02\x01\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(24, 8), std::string("\x07\0\0\0\0\0\0\0", 8));
}

TEST(Frame, ReadsFramesFromSlicesOfAnySize) {
  const std::string payload(1000, 'p');
  const std::string bytes = Encode(FrameType::kMessage, 1, 0, "first", payload) +
                            Encode(FrameType::kAck, 0, 9, "", "") +
                            Encode(FrameType::kMessage, 2, 9, "", "x");
  for (const size_t step : {size_t{1}, size_t{7}, size_t{36}, size_t{100}, bytes.size()}) {
    FrameParser parser(Split(bytes, step));
    Frame frame;
    ASSERT_TRUE(*parser.Next(&frame));
    EXPECT_EQ(frame.header, "first");
    EXPECT_EQ(BytesOf({.header = "", .payload = frame.payload}), payload);
    ASSERT_TRUE(*parser.Next(&frame));
    EXPECT_EQ(frame.type, FrameType::kAck);
    EXPECT_EQ(frame.ack, 9u);
    ASSERT_TRUE(*parser.Next(&frame));
    EXPECT_EQ(frame.sequence, 2u);
    EXPECT_FALSE(*parser.Next(&frame));
  }
}

TEST(Frame, DetectsEveryDamagedByte) {
  const std::string bytes = Encode(FrameType::kMessage, 5, 4, "header", "payload");
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {0, 3, 7}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      FrameParser parser({SliceOf(damaged)});
      Frame frame;
      EXPECT_FALSE(parser.Next(&frame).ok()) << "byte " << i;
    }
  }
}

TEST(Frame, CopiesLargePayloadsWhereTheyBelong) {
  const std::string payload(100000, 'p');
  std::string bytes = Encode(FrameType::kMessage, 1, 0, "small", "p") +
                      Encode(FrameType::kMessage, 2, 0, "first", payload) +
                      Encode(FrameType::kMessage, 3, 0, "second", payload);
  bytes[bytes.size() - 7] = 'x';  // damaged
  std::string memory(payload.size(), '.');
  FrameParser parser(Split(bytes, 1000));
  std::vector<std::string> asked;
  parser.set_destination([&](const Frame& frame, size_t payload_bytes) {
    asked.push_back(frame.header);
    return Slice{nullptr, reinterpret_cast<const std::byte*>(memory.data()), payload_bytes};
  });
  Frame frame;
  ASSERT_TRUE(*parser.Next(&frame));
  ASSERT_TRUE(*parser.Next(&frame));
  EXPECT_EQ(memory, payload);
  ASSERT_EQ(frame.payload.size(), 1u);
  EXPECT_EQ(static_cast<const void*>(frame.payload[0].data), memory.data());
  EXPECT_EQ(frame.payload[0].size, payload.size());
  EXPECT_TRUE(absl::IsDataLoss(parser.Next(&frame).status()));
  EXPECT_EQ(asked, (std::vector<std::string>{"first", "second"}));
}

TEST(Frame, RejectsEveryTruncation) {
  const std::string bytes = Encode(FrameType::kMessage, 5, 4, "header", "payload");
  for (size_t size = 1; size < bytes.size(); ++size) {
    FrameParser parser({SliceOf(bytes.substr(0, size))});
    Frame frame;
    EXPECT_TRUE(absl::IsDataLoss(parser.Next(&frame).status())) << size;
  }
}

TEST(Frame, RejectsLengthsAboveTheLimit) {
  std::string bytes;
  AppendFrame(FrameType::kMessage, 1, 0, "", 0xffffffffu, 0, &bytes);
  FrameParser parser({SliceOf(bytes)}, 1000);
  Frame frame;
  const absl::Status status = parser.Next(&frame).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "4294967295 bytes, the limit is 1000")) << status;
}

}  // namespace frame_test
}  // namespace penstock::remote
