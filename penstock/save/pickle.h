// Reader of pickles that cannot run code: of the instructions of Python's pickle machine only those
// that build values are known, and a pickle may refer to a class or function by name only if the
// caller allows that name. A call is recorded, never made.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(bytes, {"collections.OrderedDict"}));
//   const Pickle::Value& root = pickle.root();
//
// The instructions: https://docs.python.org/3/library/pickletools.html (protocols 0 to 5; without
// Python's long texts of protocol 0). Errors: OUT_OF_RANGE if the bytes end before the pickle,
// DATA_LOSS if it is malformed or larger than a limit, UNIMPLEMENTED for a name or an instruction
// that is not allowed; messages contain the offset.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace penstock::save {

class Pickle {
 public:
  enum class Kind : uint8_t {
    kNone,
    kBool,        // integer
    kInt,         // integer
    kLong,        // an integer beyond 64 bits: `text` is its little-endian bytes
    kFloat,       // real
    kText,        // text, UTF-8
    kBytes,       // text
    kTuple,       // items
    kList,        // items
    kDict,        // items: key, value, key, value, ...
    kGlobal,      // text: "module.name"
    kCall,        // items: callable, arguments (a tuple), and the state of BUILD, if any
    kPersistent,  // items: the persistent id
  };
  using Id = uint32_t;  // index into the values
  struct Value {
    Kind kind = Kind::kNone;
    int64_t integer = 0;
    double real = 0;
    absl::string_view text = {};  // into the parsed bytes, or `texts_`
    std::vector<Id> items = {};
  };

  // Maximum number of values, and of references between them.
  static constexpr size_t kMaxValues = 4 << 20;

  // Parses one pickle at the beginning of `bytes`, which must outlive the result. `offset` is the
  // place of `bytes` in the file, for messages.
  static absl::StatusOr<Pickle> Parse(absl::string_view bytes,
                                      absl::Span<const absl::string_view> allowed_names,
                                      int64_t offset = 0);

  // Values refer to texts by address, which a move keeps and a copy would not.
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;

  const Value& root() const { return values_[root_]; }
  const Value& operator[](Id id) const { return values_[id]; }
  size_t size() const { return size_; }  // bytes of the pickle

 private:
  friend class PickleParser;
  Pickle() = default;

  std::vector<Value> values_;
  std::deque<std::string> texts_;
  Id root_ = 0;
  size_t size_ = 0;
};

}  // namespace penstock::save
