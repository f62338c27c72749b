#include "penstock/record/crc32c.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace penstock::record {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read in host byte order");

constexpr uint32_t kPolynomial = 0x82f63b78u;  // reflected

// kTables[k][b]: the CRC register after byte b and k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> MakeTables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = MakeTables();

uint64_t LoadWord(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

uint32_t ByTable(uint32_t crc, const char* p, size_t n) {
  for (; n >= 8; p += 8, n -= 8) {
    const uint64_t word = LoadWord(p) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; n > 0; ++p, --n) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(*p)) & 0xff];
  }
  return crc;
}

#if defined(__x86_64__) || defined(__ARM_FEATURE_CRC32)

// The CRC instruction has a latency of 3 cycles and a throughput of one per cycle, so three
// stretches of kStretch bytes are processed in parallel. Combining two registers means advancing
// the first one over kStretch zero bytes, which is linear: kShift is its effect on each byte of the
// register.
constexpr size_t kStretchLog2 = 10;
constexpr size_t kStretch = size_t{1} << kStretchLog2;

constexpr std::array<std::array<uint32_t, 256>, 4> MakeShift() {
  using Columns = std::array<uint32_t, 32>;  // image of each bit of the register
  auto apply = [](const Columns& columns, uint32_t crc) {
    uint32_t out = 0;
    for (size_t bit = 0; crc != 0; ++bit, crc >>= 1) {
      if (crc & 1) out ^= columns[bit];
    }
    return out;
  };
  Columns columns{};
  for (size_t bit = 0; bit < 32; ++bit) {
    const uint32_t crc = uint32_t{1} << bit;
    columns[bit] = (crc >> 8) ^ kTables[0][crc & 0xff];
  }
  for (size_t doubling = 0; doubling < kStretchLog2; ++doubling) {
    Columns twice{};
    for (size_t bit = 0; bit < 32; ++bit) twice[bit] = apply(columns, columns[bit]);
    columns = twice;
  }
  std::array<std::array<uint32_t, 256>, 4> shift{};
  for (uint32_t k = 0; k < 4; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) shift[k][byte] = apply(columns, byte << (8 * k));
  }
  return shift;
}
constexpr auto kShift = MakeShift();

uint32_t Shift(uint32_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][(crc >> 8) & 0xff] ^ kShift[2][(crc >> 16) & 0xff] ^
         kShift[3][crc >> 24];
}

#if defined(__x86_64__)
#define PENSTOCK_CRC_TARGET __attribute__((target("sse4.2")))
PENSTOCK_CRC_TARGET inline uint32_t Step(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(_mm_crc32_u64(crc, word));
}
PENSTOCK_CRC_TARGET inline uint32_t StepByte(uint32_t crc, char byte) {
  return _mm_crc32_u8(crc, static_cast<unsigned char>(byte));
}
#else
#define PENSTOCK_CRC_TARGET
inline uint32_t Step(uint32_t crc, uint64_t word) { return __crc32cd(crc, word); }
inline uint32_t StepByte(uint32_t crc, char byte) {
  return __crc32cb(crc, static_cast<unsigned char>(byte));
}
#endif

PENSTOCK_CRC_TARGET uint32_t ByInstruction(uint32_t crc, const char* p, size_t n) {
  for (; n >= 3 * kStretch; p += 3 * kStretch, n -= 3 * kStretch) {
    uint32_t second = 0;
    uint32_t third = 0;
    for (size_t i = 0; i < kStretch; i += 8) {
      crc = Step(crc, LoadWord(p + i));
      second = Step(second, LoadWord(p + kStretch + i));
      third = Step(third, LoadWord(p + 2 * kStretch + i));
    }
    crc = Shift(Shift(crc) ^ second) ^ third;
  }
  for (; n >= 8; p += 8, n -= 8) crc = Step(crc, LoadWord(p));
  for (; n > 0; ++p, --n) crc = StepByte(crc, *p);
  return crc;
}

#if defined(__x86_64__)
// As ByInstruction, with non-temporal stores: they do not read the memory that they overwrite.
PENSTOCK_CRC_TARGET uint32_t CopyByInstruction(uint32_t crc, const char* p, size_t n, char* to) {
  constexpr size_t kLine = 64;
  const size_t head = std::min(n, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  std::memcpy(to, p, head);
  crc = ByInstruction(crc, p, head);
  p += head, to += head, n -= head;
  const auto store = [](char* at, uint64_t word) {
    _mm_stream_si64(reinterpret_cast<long long*>(at), static_cast<long long>(word));
  };
  for (; n >= 3 * kStretch; p += 3 * kStretch, to += 3 * kStretch, n -= 3 * kStretch) {
    uint32_t second = 0;
    uint32_t third = 0;
    for (size_t i = 0; i < kStretch; i += 8) {
      const uint64_t a = LoadWord(p + i);
      const uint64_t b = LoadWord(p + kStretch + i);
      const uint64_t c = LoadWord(p + 2 * kStretch + i);
      crc = Step(crc, a);
      second = Step(second, b);
      third = Step(third, c);
      store(to + i, a);
      store(to + kStretch + i, b);
      store(to + 2 * kStretch + i, c);
    }
    crc = Shift(Shift(crc) ^ second) ^ third;
  }
  _mm_sfence();
  std::memcpy(to, p, n);
  return ByInstruction(crc, p, n);
}
#endif
#undef PENSTOCK_CRC_TARGET

#endif

using Extend = uint32_t (*)(uint32_t, const char*, size_t);

Extend ChooseExtend() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2") ? ByInstruction : ByTable;
#elif defined(__ARM_FEATURE_CRC32)
  return ByInstruction;
#else
  return ByTable;
#endif
}

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, absl::string_view data) {
  static const Extend extend = ChooseExtend();
  return ~extend(~crc, data.data(), data.size());
}

uint32_t CopyCrc32c(uint32_t crc, absl::string_view data, char* to) {
#if defined(__x86_64__)
  static const bool by_instruction = ChooseExtend() == ByInstruction;
  if (by_instruction) return ~CopyByInstruction(~crc, data.data(), data.size(), to);
#endif
  return internal::CopyCrc32cPlainly(crc, data, to);
}

namespace internal {

uint32_t CopyCrc32cPlainly(uint32_t crc, absl::string_view data, char* to) {
  if (!data.empty()) std::memcpy(to, data.data(), data.size());
  return ExtendCrc32c(crc, data);
}

uint32_t ExtendCrc32cByTable(uint32_t crc, absl::string_view data) {
  return ~ByTable(~crc, data.data(), data.size());
}

}  // namespace internal
}  // namespace penstock::record
