#include "penstock/image/jpeg_huffman.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <jerror.h>

namespace penstock::image {
namespace {

// Maximum number of bits of a step: the longest code and its extra bits.
constexpr int kMaxBits = 16 + 15;
// Zero padding after a segment: decoding past its end continues at most to the end of the MCU, with
// kMaxBits per coefficient, and reads 8 bytes at a time.
constexpr size_t kPadding = size_t{D_MAX_BLOCKS_IN_MCU} * DCTSIZE2 * (kMaxBits + 1) / 8 + 16;
// Advance of an end-of-block symbol, large enough to end the block.
constexpr int kToEnd = 64;
// Zigzag order: index of a coefficient in the file to its index in memory. A hostile run may end
// after the block; libjpeg maps such positions to the last one, and so does the end of a block,
// whose zero is written to a position not written yet.
constexpr std::array<uint8_t, 2 * DCTSIZE2 + 16> kNaturalOrder = [] {
  std::array<uint8_t, 2 * DCTSIZE2 + 16> order{};
  for (auto& place : order) place = DCTSIZE2 - 1;
  int k = 0;
  for (int diagonal = 0; diagonal < 2 * DCTSIZE - 1; ++diagonal) {
    for (int i = 0; i <= diagonal; ++i) {
      const int row = diagonal % 2 == 0 ? diagonal - i : i;
      const int column = diagonal - row;
      if (row < DCTSIZE && column < DCTSIZE) {
        order[static_cast<size_t>(k++)] = static_cast<uint8_t>(row * DCTSIZE + column);
      }
    }
  }
  return order;
}();

// Table entry for a code that is longer than the lookup. Its zero is written after the block, too.
constexpr uint64_t kNone = uint64_t{kToEnd} << 16 | uint64_t{kToEnd} << 8;

// Compiled to a load and a byte swap.
uint64_t LoadBigEndian64(const uint8_t* p) {
  return uint64_t{p[0]} << 56 | uint64_t{p[1]} << 48 | uint64_t{p[2]} << 40 | uint64_t{p[3]} << 32 |
         uint64_t{p[4]} << 24 | uint64_t{p[5]} << 16 | uint64_t{p[6]} << 8 | p[7];
}

// Advance of a symbol: in AC tables a symbol is run << 4 | size, and an end of block has size 0.
int Advance(int symbol, bool ac) {
  if (!ac) return 1;
  const bool ends = (symbol & 15) == 0 && symbol >> 4 != 15;
  return ends ? kToEnd : (symbol >> 4) + 1;
}

// Number of extra bits after a symbol.
int NumExtraBits(int symbol) { return symbol & 15; }
uint32_t Mask(int symbol) { return (1u << NumExtraBits(symbol)) - 1; }

// T.81, F.2.2.1: extra bits that begin with 0 encode a negative number. Branch-free, because signs
// are unpredictable.
int Extend(uint32_t extra, uint32_t mask) {
  const uint32_t negative = extra < (mask + 1) >> 1 ? 1 : 0;
  return static_cast<int>(extra) - static_cast<int>(mask & (0 - negative));
}

uint64_t Pack(int value, uint32_t mask, int advance, int advance_of_both, int length) {
  return uint64_t{static_cast<uint16_t>(value)} << 48 | uint64_t{mask} << 32 |
         static_cast<uint64_t>(advance << 16 | advance_of_both << 8 | length);
}

}  // namespace

bool JpegHuffman::Codes::AreOf(const JHUFF_TBL& spec) const {
  return built && std::equal(counts.begin(), counts.end(), spec.bits) &&
         std::equal(symbols.begin(), symbols.end(), spec.huffval);
}

// libjpeg's start_pass has validated the table: the codes fit their lengths.
void JpegHuffman::Codes::Build(const JHUFF_TBL& spec, bool is_ac) {
  built = true;
  ac = is_ac;
  std::copy_n(spec.bits, counts.size(), counts.begin());
  std::copy_n(spec.huffval, symbols.size(), symbols.begin());
  lookup.fill({});
  uint32_t code = 0;
  int index = 0;
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    const auto l = static_cast<size_t>(length);
    first[l] = index - static_cast<int>(code);
    for (int i = 0; i < spec.bits[length]; ++i, ++code, ++index) {
      if (length > kLookupBits) continue;
      const int rest = kLookupBits - length;
      std::fill_n(lookup.begin() + (code << rest), 1 << rest,
                  Code{static_cast<uint8_t>(length), symbols[static_cast<size_t>(index)]});
    }
    limit[l] = code << (16 - length);
  }
}

inline JpegHuffman::Step JpegHuffman::Codes::Next(uint64_t window) const {
  Code code = lookup[window >> (64 - kLookupBits)];
  if (code.length == 0) {
    const auto next = static_cast<uint32_t>(window >> 48);
    size_t l = kLookupBits + 1;
    while (l <= 16 && next >= limit[l]) ++l;
    if (l > 16) return {};
    const int place = static_cast<int>(next >> (16 - l)) + first[l];
    code = {static_cast<uint8_t>(l), symbols[static_cast<size_t>(place)]};
  }
  const int length = code.length + NumExtraBits(code.symbol);
  const uint32_t mask = Mask(code.symbol);
  const auto extra = static_cast<uint32_t>(window >> (64 - length)) & mask;
  return {length, Advance(code.symbol, ac), Extend(extra, mask)};
}

void JpegHuffman::AcTable::Build(const JHUFF_TBL& spec) {
  codes.Build(spec, /*is_ac=*/true);
  for (size_t bits = 0; bits < lookup.size(); ++bits) {
    const Codes::Code one = codes.lookup[bits];
    if (one.length == 0) {
      lookup[bits] = kNone;
      continue;
    }
    const int length = one.length + NumExtraBits(one.symbol);
    const int advance = Advance(one.symbol, /*ac=*/true);
    lookup[bits] = Pack(0, Mask(one.symbol), advance, advance, length);
    if (length > kLookupBits || advance == kToEnd) continue;
    const Codes::Code two = codes.lookup[(bits << length) % lookup.size()];
    if (two.length == 0 || length + two.length > kLookupBits) continue;
    const uint32_t mask = Mask(one.symbol);
    const int value = Extend(static_cast<uint32_t>(bits) >> (kLookupBits - length) & mask, mask);
    lookup[bits] =
        Pack(value, Mask(two.symbol), advance, advance + Advance(two.symbol, /*ac=*/true),
             length + two.length + NumExtraBits(two.symbol));
  }
}

inline void JpegHuffman::Bits::Refill() {
  window |= LoadBigEndian64(next) >> count;
  next += (63 - count) >> 3;
  count |= 56;
}

size_t JpegHuffman::ScratchBytes(size_t file_size) { return file_size + kPadding; }

bool JpegHuffman::Install(j_decompress_ptr cinfo, uint8_t* scratch) {
  static_assert(std::is_standard_layout_v<JpegHuffman> && offsetof(JpegHuffman, decoder_) == 0);
  if (cinfo->progressive_mode || cinfo->arith_code || cinfo->inputctl->has_multiple_scans ||
      cinfo->comps_in_scan != cinfo->num_components) {
    return false;
  }
  cinfo_ = cinfo;
  scratch_ = scratch;
  for (int i = 0; i < cinfo->comps_in_scan; ++i) {
    const auto dc = static_cast<size_t>(cinfo->cur_comp_info[i]->dc_tbl_no);
    const auto ac = static_cast<size_t>(cinfo->cur_comp_info[i]->ac_tbl_no);
    const JHUFF_TBL& dc_spec = *cinfo->dc_huff_tbl_ptrs[dc];
    if (!dc_[dc].AreOf(dc_spec)) dc_[dc].Build(dc_spec, /*is_ac=*/false);
    const JHUFF_TBL& ac_spec = *cinfo->ac_huff_tbl_ptrs[ac];
    if (!ac_[ac].codes.AreOf(ac_spec)) ac_[ac].Build(ac_spec);
  }
  blocks_ = cinfo->blocks_in_MCU;
  for (int i = 0; i < blocks_; ++i) {
    const int component = cinfo->MCU_membership[i];
    const jpeg_component_info& info = *cinfo->cur_comp_info[component];
    block_[static_cast<size_t>(i)] = {&dc_[static_cast<size_t>(info.dc_tbl_no)],
                                      &ac_[static_cast<size_t>(info.ac_tbl_no)],
                                      &last_dc_[static_cast<size_t>(component)]};
  }
  last_dc_.fill(0);
  column_ = 0;
  restarts_to_go_ = cinfo->restart_interval;
  next_restart_ = 0;
  UnstuffSegment();
  decoder_.start_pass = OnStartPass;
  decoder_.decode_mcu = OnDecodeMcu;
  decoder_.insufficient_data = FALSE;
  cinfo->entropy = &decoder_;
  return true;
}

void JpegHuffman::OnStartPass(j_decompress_ptr cinfo) {
  // In a file with one scan the only pass has already begun.
  ERREXIT(cinfo, JERR_BAD_STATE);
}

boolean JpegHuffman::OnDecodeMcu(j_decompress_ptr cinfo, JBLOCKROW* mcu) {
  return reinterpret_cast<JpegHuffman*>(cinfo->entropy)->DecodeMcu(mcu);
}

// Copies the bytes up to the next marker, removing the stuffed zero after each 0xff (T.81,
// F.1.2.3), and leaves the source at the marker.
void JpegHuffman::UnstuffSegment() {
  jpeg_source_mgr& source = *cinfo_->src;
  const JOCTET* from = source.next_input_byte;
  const JOCTET* const end = from + source.bytes_in_buffer;
  segment_ = from;
  uint8_t* to = scratch_;
  while (true) {
    const void* found = std::memchr(from, 0xff, static_cast<size_t>(end - from));
    const JOCTET* const stop = found == nullptr ? end : static_cast<const JOCTET*>(found);
    std::memcpy(to, from, static_cast<size_t>(stop - from));
    to += stop - from;
    from = stop;
    if (from == end) break;
    const JOCTET* behind = from;
    while (behind < end && *behind == 0xff) ++behind;  // as libjpeg: there may be several
    if (behind == end || *behind != 0) break;
    *to++ = 0xff;
    from = behind + 1;
  }
  segment_bytes_ = static_cast<size_t>(to - scratch_);
  std::memset(to, 0, kPadding);
  source.next_input_byte = from;
  source.bytes_in_buffer = static_cast<size_t>(end - from);
  bits_ = {.next = scratch_};
}

size_t JpegHuffman::BitsUsed(const Bits& bits) const {
  return static_cast<size_t>(bits.next - scratch_) * 8 - static_cast<size_t>(bits.count);
}

void JpegHuffman::Rewind(Bits& bits, size_t count) const {
  const size_t used = BitsUsed(bits) - count;
  bits = {.next = scratch_ + used / 8};
  bits.Refill();
  bits.Drop(used % 8);
}

// Sets the source's position, which the message reports.
void JpegHuffman::FailCorrupt(int code, const Bits& bits) {
  // The invalid code is in the zero padding, not in the bits of the file.
  if (BitsUsed(bits) + 16 > segment_bytes_ * 8) FailTruncated();
  jpeg_source_mgr& source = *cinfo_->src;
  const size_t used = std::min(BitsUsed(bits) / 8, segment_bytes_);
  source.bytes_in_buffer += static_cast<size_t>(source.next_input_byte - segment_) - used;
  source.next_input_byte = segment_ + used;
  ERREXIT(cinfo_, code);
  std::abort();  // unreachable: libjpeg's error handlers do not return
}

void JpegHuffman::FailTruncated() {
  jpeg_source_mgr& source = *cinfo_->src;
  // Without a marker the file itself is truncated, which the source reports.
  if (source.bytes_in_buffer < 2) source.fill_input_buffer(cinfo_);
  ERREXIT(cinfo_, JWRN_HIT_MARKER);
  std::abort();  // as above
}

void JpegHuffman::Restart() {
  jpeg_source_mgr& source = *cinfo_->src;
  while (source.bytes_in_buffer > 2 && source.next_input_byte[1] == 0xff) {
    ++source.next_input_byte;
    --source.bytes_in_buffer;
  }
  if (source.bytes_in_buffer < 2) FailTruncated();
  if (source.next_input_byte[1] != JPEG_RST0 + next_restart_) ERREXIT(cinfo_, JWRN_MUST_RESYNC);
  source.next_input_byte += 2;
  source.bytes_in_buffer -= 2;
  next_restart_ = (next_restart_ + 1) % 8;
  restarts_to_go_ = cinfo_->restart_interval;
  last_dc_.fill(0);
  UnstuffSegment();
}

// The state is in local variables, which the compiler keeps in registers; most of the speed comes
// from that.
template <bool kStore>
void JpegHuffman::DecodeBlocks(JBLOCKROW* mcu) {
  Bits bits = bits_;
  for (int i = 0; i < blocks_; ++i) {
    const BlockOfMcu& block = block_[static_cast<size_t>(i)];
    JCOEF* const out = kStore ? *mcu[i] : nullptr;
    bits.Refill();
    const Step dc = block.dc->Next(bits.window);
    if (dc.length == 0) FailCorrupt(JWRN_HUFF_BAD_CODE, bits);
    bits.Drop(dc.length);
    const int64_t sum = int64_t{*block.last_dc} + dc.value;
    if (sum > INT_MAX || sum < INT_MIN) FailCorrupt(JERR_BAD_DCT_COEF, bits);
    *block.last_dc = static_cast<int>(sum);
    if (kStore) out[0] = static_cast<JCOEF>(sum);

    const TwoSteps* const lookup = block.ac->lookup.data();
    TwoSteps two = 0;
    int k = 1;
    const auto put = [out](int end, int value) {
      if (kStore) out[kNaturalOrder[static_cast<size_t>(end - 1)]] = static_cast<JCOEF>(value);
    };
    const auto take = [&] {
      two = lookup[bits.window >> (64 - kLookupBits)];
      const int length = static_cast<int>(two & 63);
      const auto mask = static_cast<uint32_t>(two >> 32 & 0xffff);
      const auto extra = static_cast<uint32_t>(std::rotl(bits.window, length)) & mask;
      bits.Drop(length);
      put(k + static_cast<int>(two >> 16 & 255), static_cast<int>(two >> 48));
      k += static_cast<int>(two >> 8 & 255);
      put(k, Extend(extra, mask));
      return k < DCTSIZE2;
    };
    while (true) {
      bits.Refill();
      // As many lookups as 56 bits allow.
      static_assert(2 * (kLookupBits + 15) <= 56);
      if (take() && take()) continue;
      // The block is full, except for two kinds of lookups that are undone: two steps of which the
      // first already filled the block, and a code longer than the lookup. Both are repeated as one
      // step.
      const int all = static_cast<int>(two >> 8 & 255);
      const int second = all - static_cast<int>(two >> 16 & 255);
      if (two != kNone && (second == 0 || k - second < DCTSIZE2)) break;
      k -= all;
      Rewind(bits, static_cast<size_t>(two & 63));
      const Step step = block.ac->codes.Next(bits.window);
      if (step.length == 0) FailCorrupt(JWRN_HUFF_BAD_CODE, bits);
      bits.Drop(step.length);
      k += step.advance;
      put(k, step.value);
      if (k >= DCTSIZE2) break;
    }
  }
  bits_ = bits;
}

// Same condition as in libjpeg's coefficient controller, which passes nothing outside these columns
// to the DCT.
bool JpegHuffman::InsideCrop() const {
  return column_ >= cinfo_->master->first_iMCU_col && column_ <= cinfo_->master->last_iMCU_col;
}

boolean JpegHuffman::DecodeMcu(JBLOCKROW* mcu) {
  if (cinfo_->restart_interval != 0) {
    if (restarts_to_go_ == 0) Restart();
    --restarts_to_go_;
  }
  if (mcu != nullptr && InsideCrop()) {
    DecodeBlocks<true>(mcu);
  } else {
    DecodeBlocks<false>(nullptr);
  }
  if (BitsUsed(bits_) > segment_bytes_ * 8) FailTruncated();
  if (++column_ == cinfo_->MCUs_per_row) column_ = 0;
  return TRUE;
}

}  // namespace penstock::image
