#include "penstock/kernels/all_finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/kernels/parallel.h"
#include "penstock/kernels/typed_call.h"
#include "penstock/kernels/vector_loops.h"

#include "xla/ffi/api/ffi.h"

namespace penstock::kernels {
namespace {

namespace ffi = xla::ffi;

// A number is NaN or infinite if all bits of its exponent are set, in every IEEE format.
template <typename Word>
struct WordsArgs {
  const Word* words;
  int64_t count;
  Word exponent;
  bool* finite;
};

template <typename Word>
struct WordsOf {
  using Vector __attribute__((vector_size(64))) = Word;
  static constexpr int64_t kLanes = 64 / sizeof(Word);
};

struct TestExponents {
  template <typename Word>
  PENSTOCK_INLINE static void Run(const WordsArgs<Word>& args) {
    using Vector = typename WordsOf<Word>::Vector;
    constexpr int64_t kStep = WordsOf<Word>::kLanes;
    const Vector exponent = Vector{} + args.exponent;
    Vector found{};
    int64_t i = 0;
    for (; i + kStep <= args.count; i += kStep) {
      Vector words;
      std::memcpy(&words, args.words + i, sizeof(words));
      found |= __builtin_bit_cast(Vector, (words & exponent) == exponent);
    }
    Word any = 0;
    for (int64_t lane = 0; lane < kStep; ++lane) any |= found[lane];
    for (; i < args.count; ++i) any |= (args.words[i] & args.exponent) == args.exponent;
    *args.finite = any == 0;
  }
};

template <typename Word>
bool AreFinite(const void* data, int64_t begin, int64_t end, Word exponent) {
  bool finite = true;
  Dispatch<TestExponents>(
      WordsArgs<Word>{static_cast<const Word*>(data) + begin, end - begin, exponent, &finite});
  return finite;
}

// A range [begin, end) of a tensor's elements.
struct Part {
  const void* data = nullptr;
  ffi::DataType type = ffi::F32;
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  bool IsFinite(int64_t first, int64_t last) const {
    switch (type) {
      case ffi::F16:
        return AreFinite<uint16_t>(data, first, last, 0x7c00);
      case ffi::BF16:
        return AreFinite<uint16_t>(data, first, last, 0x7f80);
      case ffi::F64:
        return AreFinite<uint64_t>(data, first, last, uint64_t{0x7ff} << 52);
      default:
        return AreFinite<uint32_t>(data, first, last, 0x7f800000);
    }
  }
};

// Testing fewer elements is faster than waking a thread.
constexpr int64_t kLeastToTest = 1 << 17;

absl::Status TestParts(ffi::ThreadPool& pool, const std::vector<Part>& parts, bool& finite) {
  int64_t total = 0;
  for (const Part& part : parts) total += part.size();
  const int64_t pieces = std::min(MaxPieces(pool), std::max<int64_t>(1, total / kLeastToTest));
  std::vector<uint8_t> fine(static_cast<size_t>(pieces), 1);
  PENSTOCK_RETURN_IF_ERROR(ForEachPiece(pool, pieces, [&](int64_t index) {
    const Rows share = RowsOf(total, pieces, index);  // of all elements, in order
    int64_t before = 0;
    for (const Part& part : parts) {
      const int64_t first = std::max<int64_t>(share.begin - before, 0),
                    last = std::min(share.end - before, part.size());
      if (first < last && !part.IsFinite(part.begin + first, part.begin + last)) fine[index] = 0;
      before += part.size();
    }
    return absl::OkStatus();
  }));
  finite = std::all_of(fine.begin(), fine.end(), [](uint8_t f) { return f != 0; });
  return absl::OkStatus();
}

ffi::Error AllFinite(ffi::ThreadPool pool, ffi::RemainingArgs tensors,
                     ffi::Result<ffi::AnyBuffer> finite, ffi::Span<const int64_t> ranges) {
  return ToXlaError([&]() -> absl::Status {
    std::vector<Part> parts;
    for (size_t i = 0; i + 2 < ranges.size(); i += 3) {
      const auto tensor = tensors.get<ffi::AnyBuffer>(static_cast<size_t>(ranges[i]));
      const int64_t begin = ranges[i + 1], end = ranges[i + 2];
      if (!tensor.has_value() || begin < 0 || begin > end ||
          end > static_cast<int64_t>(tensor->element_count())) {
        return absl::InvalidArgumentError(absl::StrCat("all_finite: elements ", begin, " to ", end,
                                                       " of operand ", ranges[i], " do not exist"));
      }
      parts.push_back({tensor->untyped_data(), tensor->element_type(), begin, end});
    }
    return TestParts(pool, parts, *static_cast<bool*>(finite->untyped_data()));
  });
}

XLA_FFI_DEFINE_HANDLER(kAllFiniteHandler, AllFinite,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .RemainingArgs()
                           .Ret<ffi::AnyBuffer>()
                           .Attr<ffi::Span<const int64_t>>("ranges"));

}  // namespace

std::vector<runtime::Kernel> AllFiniteKernels() {
  return {{kAllFiniteTarget, reinterpret_cast<void*>(kAllFiniteHandler)}};
}

std::vector<KernelCost> AllFiniteCosts() {
  return {{kAllFiniteTarget, 1, [](const KernelCall& call) {
             const std::vector<int64_t> ranges = call.Ints("ranges");
             double elements = 0;
             for (size_t i = 0; i + 2 < ranges.size(); i += 3) {
               elements += static_cast<double>(ranges[i + 2] - ranges[i + 1]);
             }
             return elements;
           }}};
}

}  // namespace penstock::kernels
