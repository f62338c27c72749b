// Huffman decoding of baseline JPEGs (ITU-T T.81, F.2.2), in the seat of libjpeg's own entropy
// decoder. Photographs at quality 90 spend three fifths of libjpeg-turbo's time there; this one
// takes half of that and less, while all else (markers, checks of the tables, inverse DCT,
// upsampling, colours, crops) stays libjpeg-turbo's. Penstock decodes for a living: what limits
// training from images is mostly this loop.
//
// What makes it fast: the bytes are laid out without stuffing first, so that refilling needs no
// branch; one look at a table often gives two coefficients, and there is no branch that depends on
// a code's length or a coefficient's sign; blocks outside a crop are run through but not written.
//
// The coefficients are those of libjpeg-turbo, bit for bit. Corruption is an error of the same
// code, and is always detected: libjpeg-turbo's own fast loop takes an invalid code for a valid
// one. It uses libjpeg's internal interface (jpegint.h), which libjpeg-turbo has kept since 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <jpeglib.h>
// It needs jpeglib.h before it.
#include <jpegint.h>

namespace penstock::image {

class JpegHuffman {
 public:
  JpegHuffman() = default;
  JpegHuffman(const JpegHuffman&) = delete;
  JpegHuffman& operator=(const JpegHuffman&) = delete;

  // Bytes of memory that TakeSeat needs for a file of so many.
  static size_t RoomFor(size_t file_size);

  // Between jpeg_start_decompress and the first row, inside Guarded. `room` and this object must
  // outlive the decoding, and the source must hold the whole rest of the file. False, and nothing
  // is changed, for what libjpeg must decode itself: progressive and arithmetic files, several
  // scans.
  bool TakeSeat(j_decompress_ptr cinfo, uint8_t* room);

 private:
  // As many bits as one look takes. 10 hold nearly all codes of a photograph, often with the next
  // one, too, and the tables of a file fit the first-level cache.
  static constexpr int kLookBits = 10;

  // A symbol and its extra bits: how many bits they are, how far the coefficient stands behind the
  // last one, its value. Length 0: there is no such code.
  struct Step {
    int length = 0;
    int advance = 0;
    int value = 0;
  };

  // The codes of one table (T.81, annex C).
  struct Codes {
    // Whether they are of that specification: images of a set mostly have the same tables.
    bool AreOf(const JHUFF_TBL& spec) const;
    void Build(const JHUFF_TBL& spec, bool is_ac);
    // At the beginning of `window`, of which at least kMostBits are there.
    Step Next(uint64_t window) const;

    struct Code {
      uint8_t length = 0;  // 0: longer than kLookBits
      uint8_t symbol = 0;
    };
    bool built = false;
    bool ac = false;
    std::array<uint8_t, 17> counts = {};    // of codes, by length
    std::array<uint8_t, 256> symbols = {};  // in the order of their codes
    std::array<Code, 1 << kLookBits> look;  // by the next bits
    // Codes of length l are below limit[l], both as the upper bits of 16, and the symbol of one is
    // symbols[code + first[l]].
    std::array<uint32_t, 17> limit;
    std::array<int32_t, 17> first;
  };

  // Two steps in one: value of the first << 48 | mask of the extra bits of the second << 32 |
  // advance of the first << 16 | of both << 8 | length of both. Of the second step the look holds
  // the code, and its extra bits are taken from where they stand. Of a step alone, the first is a
  // zero at the same place.
  using TwoSteps = uint64_t;

  struct AcTable {
    void Build(const JHUFF_TBL& spec);

    Codes codes;
    std::array<TwoSteps, 1 << kLookBits> look;  // by the next bits
  };

  // The next bits, from the top of `window`; behind `count` of them zeros, or those that follow.
  struct Bits {
    uint64_t window = 0;
    int count = 0;
    const uint8_t* next = nullptr;

    // Makes them 56 at least.
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

  // libjpeg calls these; its pointer to an entropy decoder is one to our first member.
  static boolean OnDecodeMcu(j_decompress_ptr cinfo, JBLOCKROW* mcu);
  static void OnStartPass(j_decompress_ptr cinfo);

  boolean DecodeMcu(JBLOCKROW* mcu);
  template <bool kStore>
  void DecodeBlocks(JBLOCKROW* mcu);
  bool InsideCrop() const;
  void LayOutSegment();
  void Restart();
  size_t BitsUsed(const Bits& bits) const;
  void GoBack(Bits& bits, size_t count) const;
  [[noreturn]] void Damaged(int code, const Bits& bits);
  [[noreturn]] void EndsTooEarly();

  jpeg_entropy_decoder seat_;  // first
  j_decompress_ptr cinfo_ = nullptr;
  uint8_t* room_ = nullptr;
  const JOCTET* segment_ = nullptr;  // in the file: where the bits laid out begin
  size_t segment_bytes_ = 0;         // of them, laid out
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
