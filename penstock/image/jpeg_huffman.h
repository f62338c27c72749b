// JpegHuffman: a Huffman (entropy) decoder of baseline JPEGs (ITU-T T.81, F.2.2) that replaces
// libjpeg's own. libjpeg-turbo spends three fifths of its time on photographs at quality 90 there;
// this one takes half of that or less, while everything else (markers, table checks, inverse DCT,
// upsampling, color conversion, crops) remains libjpeg-turbo's. Image training is often input-bound
// on this loop.
//
// Performance: the bytes are first copied without byte stuffing, so that refilling the bit buffer
// is branch-free; one table lookup often gives two coefficients, and no branch depends on a code's
// length or a coefficient's sign; blocks outside a crop are decoded but not written.
//
// The coefficients are bit-identical to libjpeg-turbo's. Corruption gives the same error code, and
// invalid codes are always detected, which libjpeg-turbo's own fast loop does not guarantee. It
// uses libjpeg's internal interface (jpegint.h), which libjpeg-turbo has kept stable since 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <jpeglib.h>
// jpeglib.h must be included first.
#include <jpegint.h>

namespace penstock::image {

class JpegHuffman {
 public:
  JpegHuffman() = default;
  JpegHuffman(const JpegHuffman&) = delete;
  JpegHuffman& operator=(const JpegHuffman&) = delete;

  // Size of the scratch memory that Install needs for a file of `file_size` bytes.
  static size_t ScratchBytes(size_t file_size);

  // Replaces libjpeg's entropy decoder. To be called between jpeg_start_decompress and the first
  // row, inside Guarded. `scratch` and this object must outlive the decoding, and the source must
  // contain the complete rest of the file. Returns false and changes nothing if libjpeg must decode
  // the file itself: progressive and arithmetic-coded files, and files with several scans.
  bool Install(j_decompress_ptr cinfo, uint8_t* scratch);

 private:
  // Number of bits of a table lookup. 10 bits cover nearly all codes of a photograph, often
  // including the next code, and the tables of a file fit into the L1 cache.
  static constexpr int kLookupBits = 10;

  // A decoded symbol with its extra bits: their length in bits, the distance of the coefficient
  // from the previous one, and its value. Length 0: invalid code.
  struct Step {
    int length = 0;
    int advance = 0;
    int value = 0;
  };

  // Lookup tables for the codes of one Huffman table (T.81, annex C).
  struct Codes {
    // Whether these are the tables of `spec`, to reuse them: images of a data set mostly have the
    // same tables.
    bool AreOf(const JHUFF_TBL& spec) const;
    void Build(const JHUFF_TBL& spec, bool is_ac);
    // Decodes the symbol at the beginning of `window`, which has at least kMaxBits valid bits.
    Step Next(uint64_t window) const;

    struct Code {
      uint8_t length = 0;  // 0: longer than kLookupBits
      uint8_t symbol = 0;
    };
    bool built = false;
    bool ac = false;
    std::array<uint8_t, 17> counts = {};        // number of codes by length
    std::array<uint8_t, 256> symbols = {};      // in the order of their codes
    std::array<Code, 1 << kLookupBits> lookup;  // by the next bits
    // Codes of length l are below limit[l] (both left-aligned in 16 bits), and the symbol of a code
    // is symbols[code + first[l]].
    std::array<uint32_t, 17> limit;
    std::array<int32_t, 17> first;
  };

  // Two steps in one table entry: value of the first << 48 | mask of the extra bits of the second
  // << 32 | advance of the first << 16 | advance of both << 8 | length of both. The lookup covers
  // the code of the second step; its extra bits are read from the window. For a single step, the
  // first one is a zero at the same position.
  using TwoSteps = uint64_t;

  struct AcTable {
    void Build(const JHUFF_TBL& spec);

    Codes codes;
    std::array<TwoSteps, 1 << kLookupBits> lookup;  // by the next bits
  };

  // Bit buffer: the next bits, left-aligned in `window`; after `count` bits come zeros or following
  // bits.
  struct Bits {
    uint64_t window = 0;
    int count = 0;
    const uint8_t* next = nullptr;

    // Refills the buffer to at least 56 bits.
    void Refill();
    void Drop(int length) {
      window <<= length;
      count -= length;
    }
  };

  struct BlockOfMcu {
    const Codes* dc;
    const AcTable* ac;
    int* last_dc;
  };

  // Called by libjpeg, whose pointer to the entropy decoder points to our first member.
  static boolean OnDecodeMcu(j_decompress_ptr cinfo, JBLOCKROW* mcu);
  static void OnStartPass(j_decompress_ptr cinfo);

  boolean DecodeMcu(JBLOCKROW* mcu);
  template <bool kStore>
  void DecodeBlocks(JBLOCKROW* mcu);
  bool InsideCrop() const;
  void UnstuffSegment();
  void Restart();
  size_t BitsUsed(const Bits& bits) const;
  void Rewind(Bits& bits, size_t count) const;
  [[noreturn]] void FailCorrupt(int code, const Bits& bits);
  [[noreturn]] void FailTruncated();

  jpeg_entropy_decoder decoder_;  // first
  j_decompress_ptr cinfo_ = nullptr;
  uint8_t* scratch_ = nullptr;
  const JOCTET* segment_ = nullptr;  // in the file: begin of the unstuffed segment
  size_t segment_bytes_ = 0;         // number of bytes of the unstuffed segment
  Bits bits_;
  JDIMENSION column_ = 0;  // of the next MCU
  unsigned restarts_to_go_ = 0;
  int next_restart_ = 0;
  int blocks_ = 0;
  std::array<BlockOfMcu, D_MAX_BLOCKS_IN_MCU> block_;
  std::array<int, MAX_COMPS_IN_SCAN> last_dc_;
  std::array<Codes, NUM_HUFF_TBLS> dc_;
  std::array<AcTable, NUM_HUFF_TBLS> ac_;
};

}  // namespace penstock::image
