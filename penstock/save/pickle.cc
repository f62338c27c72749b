#include "penstock/save/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/save/quoted.h"

namespace penstock::save {

// The pickle machine: a stack of values, marks on it, and a memo of values by number.
class PickleParser {
 public:
  using Id = Pickle::Id;
  using Kind = Pickle::Kind;
  using Value = Pickle::Value;

  PickleParser(absl::string_view bytes, absl::Span<const absl::string_view> allowed, int64_t offset)
      : bytes_(bytes), allowed_(allowed), offset_(offset) {}

  absl::StatusOr<Pickle> Run() {
    while (!done_) {
      begin_ = at_;
      const absl::string_view code = Take(1);
      if (ok_) Execute(code[0]);
      if (!ok_) return status_;
      if (pickle_.values_.size() > Pickle::kMaxValues || stack_.size() > Pickle::kMaxValues ||
          marks_.size() > Pickle::kMaxValues || links_ > Pickle::kMaxValues) {
        return absl::DataLossError(absl::StrCat("offset ", Place(), ": the pickle has more than ",
                                                Pickle::kMaxValues, " values"));
      }
    }
    pickle_.size_ = at_;
    return std::move(pickle_);
  }

 private:
  int64_t Place() const { return offset_ + static_cast<int64_t>(begin_); }
  void Fail(absl::Status status) {
    if (ok_) status_ = std::move(status);
    ok_ = false;
  }
  void Corrupt(absl::string_view what) {
    Fail(absl::DataLossError(absl::StrCat("offset ", Place(), ": the pickle ", what)));
  }

  // The next bytes of the pickle; empty at its end, with ok_ false.
  absl::string_view Take(uint64_t count) {
    if (ok_ && count <= bytes_.size() - at_) {
      const absl::string_view out = bytes_.substr(at_, count);
      at_ += count;
      return out;
    }
    Fail(absl::OutOfRangeError(absl::StrCat("offset ", Place(), ": the pickle is cut short")));
    return {};
  }
  absl::string_view TakeLine() {
    const size_t end = bytes_.find('\n', at_);
    if (end == absl::string_view::npos) return Take(UINT64_MAX);
    const absl::string_view line = Take(end - at_);
    Take(1);
    return line;
  }
  template <typename T>
  T Number() {
    T value{};
    const absl::string_view raw = Take(sizeof(T));
    if (ok_) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  Id Add(Value value) {
    pickle_.values_.push_back(std::move(value));
    return static_cast<Id>(pickle_.values_.size() - 1);
  }
  void Push(Id id) { stack_.push_back(id); }
  void Push(Value value) {
    if (ok_) Push(Add(std::move(value)));
  }
  void PushText(Kind kind, uint64_t size) {
    const absl::string_view text = Take(size);
    Push(Value{.kind = kind, .text = text});
  }
  Id Pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
      Corrupt("takes a value from an empty stack");
      return 0;
    }
    const Id id = stack_.back();
    stack_.pop_back();
    return id;
  }
  std::vector<Id> PopToMark() {
    if (marks_.empty()) {
      Corrupt("has no mark");
      return {};
    }
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Id> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    links_ += items.size();
    return items;
  }
  // The value on top of the stack, which stays there.
  Value* Top(Kind kind, const char* what) {
    if (!ok_) return nullptr;
    if (stack_.size() > (marks_.empty() ? 0 : marks_.back())) {
      Value& value = pickle_.values_[stack_.back()];
      if (value.kind == kind) return &value;
    }
    Corrupt(absl::StrCat("expects ", what, " on the stack"));
    return nullptr;
  }
  void Extend(Kind kind, const char* what, const std::vector<Id>& items) {
    Value* value = Top(kind, what);
    if (value == nullptr) return;
    value->items.insert(value->items.end(), items.begin(), items.end());
    links_ += items.size();
  }
  void ExtendDict(const std::vector<Id>& items) {
    if (items.size() % 2 != 0) return Corrupt("has a key without a value");
    Extend(Kind::kDict, "a dict", items);
  }
  void PushTuple(size_t count) {
    std::vector<Id> items(count);
    for (size_t i = count; i-- > 0;) items[i] = Pop();
    Push(Value{.kind = Kind::kTuple, .items = std::move(items)});
  }

  void Memoize(uint64_t index) {
    if (!ok_) return;
    if (stack_.empty()) return Corrupt("memoizes a value of an empty stack");
    memo_[index] = stack_.back();
  }
  void Recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) return Corrupt(absl::StrCat("has no value ", index, " in its memo"));
    Push(found->second);
  }

  void PushGlobal(absl::string_view module, absl::string_view name) {
    if (!ok_) return;
    pickle_.texts_.push_back(absl::StrCat(module, ".", name));
    const std::string& full = pickle_.texts_.back();
    if (std::find(allowed_.begin(), allowed_.end(), full) == allowed_.end()) {
      return Fail(absl::UnimplementedError(
          absl::StrCat("offset ", Place(), ": the pickle uses the name ", Quoted(full),
                       ", which is not on the list of names that a file of weights may use "
                       "(nothing was executed)")));
    }
    Push(Value{.kind = Kind::kGlobal, .text = full});
  }

  // Calls of OrderedDict make a dict, others are recorded.
  void Call() {
    const Id arguments = Pop(), callable = Pop();
    if (!ok_) return;
    const Value& function = pickle_.values_[callable];
    const Value& given = pickle_.values_[arguments];
    if (function.kind != Kind::kGlobal) return Corrupt("calls what is not a name");
    if (given.kind != Kind::kTuple) return Corrupt("calls with arguments that are no tuple");
    if (function.text != "collections.OrderedDict") {
      return Push(Value{.kind = Kind::kCall, .items = {callable, arguments}});
    }
    Value dict{.kind = Kind::kDict};
    if (given.items.size() > 1) return Corrupt("calls OrderedDict with several arguments");
    if (given.items.size() == 1) {
      for (const Id pair : pickle_.values_[given.items[0]].items) {
        const std::vector<Id>& entry = pickle_.values_[pair].items;
        if (entry.size() != 2) return Corrupt("calls OrderedDict with what are no pairs");
        dict.items.insert(dict.items.end(), entry.begin(), entry.end());
      }
      links_ += dict.items.size();
    }
    Push(std::move(dict));
  }

  // obj.__setstate__(state): kept for a call, ignored for a dict (a state_dict's _metadata).
  void Build() {
    const Id state = Pop();
    if (!ok_) return;
    if (stack_.empty()) return Corrupt("sets the state of no object");
    Value& object = pickle_.values_[stack_.back()];
    if (object.kind == Kind::kDict) return;
    if (object.kind != Kind::kCall) return Corrupt("sets the state of what is not an object");
    object.items.resize(2);
    object.items.push_back(state);
  }

  // A little-endian integer in two's complement.
  void PushLong(uint64_t size) {
    const absl::string_view raw = Take(size);
    if (!ok_) return;
    if (raw.size() > 8) return Push(Value{.kind = Kind::kLong, .text = raw});
    uint64_t bits = 0;
    if (!raw.empty()) {
      std::memcpy(&bits, raw.data(), raw.size());
      const int unused = static_cast<int>(8 * (8 - raw.size()));
      bits = static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
    }
    Push(Value{.kind = Kind::kInt, .integer = static_cast<int64_t>(bits)});
  }
  void PushInt(int64_t value) { Push(Value{.kind = Kind::kInt, .integer = value}); }

  void Execute(char code);

  const absl::string_view bytes_;
  const absl::Span<const absl::string_view> allowed_;
  const int64_t offset_;
  size_t at_ = 0, begin_ = 0;  // next byte; begin of the instruction at hand
  bool ok_ = true, done_ = false;
  absl::Status status_;
  Pickle pickle_;
  std::vector<Id> stack_;
  std::vector<size_t> marks_;
  absl::flat_hash_map<uint64_t, Id> memo_;
  size_t links_ = 0;  // items of all values
};

void PickleParser::Execute(char code) {
  switch (code) {
    case '\x80': {  // PROTO
      const auto protocol = Number<uint8_t>();
      if (protocol > 5) Corrupt(absl::StrCat("has the unknown protocol ", int{protocol}));
      return;
    }
    case '\x95':  // FRAME
      Take(8);
      return;
    case '.': {  // STOP
      pickle_.root_ = Pop();
      done_ = ok_;
      return;
    }
    case '(':
      marks_.push_back(stack_.size());
      return;
    case '0':  // POP, which also removes a mark
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        Pop();
      }
      return;
    case '1':
      PopToMark();
      return;
    case '2': {  // DUP
      const Id top = Pop();
      Push(top);
      return Push(top);
    }
    case 'N':
      return Push(Value{.kind = Kind::kNone});
    case '\x88':
      return Push(Value{.kind = Kind::kBool, .integer = 1});
    case '\x89':
      return Push(Value{.kind = Kind::kBool, .integer = 0});
    case 'J':
      return PushInt(Number<int32_t>());
    case 'K':
      return PushInt(Number<uint8_t>());
    case 'M':
      return PushInt(Number<uint16_t>());
    case '\x8a':
      return PushLong(Number<uint8_t>());
    case '\x8b':
      return PushLong(Number<uint32_t>());
    case 'I':
    case 'L': {  // decimal
      absl::string_view line = TakeLine();
      if (code == 'I' && (line == "00" || line == "01")) {
        return Push(Value{.kind = Kind::kBool, .integer = line == "01"});
      }
      if (code == 'L' && !line.empty() && line.back() == 'L') line.remove_suffix(1);
      int64_t value = 0;
      if (ok_ && !absl::SimpleAtoi(line, &value)) return Corrupt("has a malformed number");
      return PushInt(value);
    }
    case 'F': {
      double value = 0;
      if (!absl::SimpleAtod(TakeLine(), &value) && ok_) return Corrupt("has a malformed number");
      return Push(Value{.kind = Kind::kFloat, .real = value});
    }
    case 'G':  // BINFLOAT, big-endian
      return Push(Value{.kind = Kind::kFloat,
                        .real = std::bit_cast<double>(__builtin_bswap64(Number<uint64_t>()))});
    case 'X':
      return PushText(Kind::kText, Number<uint32_t>());
    case '\x8c':
      return PushText(Kind::kText, Number<uint8_t>());
    case '\x8d':
      return PushText(Kind::kText, Number<uint64_t>());
    case 'U':  // texts of Python 2
      return PushText(Kind::kText, Number<uint8_t>());
    case 'T':
      return PushText(Kind::kText, Number<uint32_t>());
    case 'C':
      return PushText(Kind::kBytes, Number<uint8_t>());
    case 'B':
      return PushText(Kind::kBytes, Number<uint32_t>());
    case '\x8e':
      return PushText(Kind::kBytes, Number<uint64_t>());
    case ')':
      return PushTuple(0);
    case '\x85':
      return PushTuple(1);
    case '\x86':
      return PushTuple(2);
    case '\x87':
      return PushTuple(3);
    case 't':
      return Push(Value{.kind = Kind::kTuple, .items = PopToMark()});
    case ']':
      return Push(Value{.kind = Kind::kList});
    case 'l':
      return Push(Value{.kind = Kind::kList, .items = PopToMark()});
    case 'a': {
      const Id item = Pop();
      return Extend(Kind::kList, "a list", {item});
    }
    case 'e':
      return Extend(Kind::kList, "a list", PopToMark());
    case '}':
      return Push(Value{.kind = Kind::kDict});
    case 'd': {
      std::vector<Id> items = PopToMark();
      Push(Value{.kind = Kind::kDict});
      return ExtendDict(items);
    }
    case 's': {
      const Id value = Pop(), key = Pop();
      return ExtendDict({key, value});
    }
    case 'u':
      return ExtendDict(PopToMark());
    case 'c': {
      const absl::string_view module = TakeLine();
      return PushGlobal(module, TakeLine());
    }
    case '\x93': {
      const Id name = Pop(), module = Pop();
      if (!ok_) return;
      if (pickle_.values_[name].kind != Kind::kText ||
          pickle_.values_[module].kind != Kind::kText) {
        return Corrupt("has a name that is not a text");
      }
      return PushGlobal(pickle_.values_[module].text, pickle_.values_[name].text);
    }
    case 'R':     // REDUCE
    case '\x81':  // NEWOBJ
      return Call();
    case 'b':
      return Build();
    case 'Q': {  // BINPERSID
      const Id id = Pop();
      return Push(Value{.kind = Kind::kPersistent, .items = {id}});
    }
    case 'q':
      return Memoize(Number<uint8_t>());
    case 'r':
      return Memoize(Number<uint32_t>());
    case '\x94':
      return Memoize(memo_.size());
    case 'h':
      return Recall(Number<uint8_t>());
    case 'j':
      return Recall(Number<uint32_t>());
    default:
      Fail(absl::UnimplementedError(absl::StrFormat(
          "offset %d: the pickle has the instruction 0x%02x, which files of weights do not use",
          Place(), static_cast<uint8_t>(code))));
  }
}

absl::StatusOr<Pickle> Pickle::Parse(absl::string_view bytes,
                                     absl::Span<const absl::string_view> allowed_names,
                                     int64_t offset) {
  return PickleParser(bytes, allowed_names, offset).Run();
}

}  // namespace penstock::save
