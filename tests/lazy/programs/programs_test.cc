// Random programs of views, in-place operations and gradients beside PyTorch (programs.py):
// wherever a step ends or a value is read, the values, types and gradients are PyTorch's, bit for
// bit, and what is a mistake there is an error here.
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/testing/random_cases.h"
#include "penstock/lazy/autograd.h"
#include "penstock/lazy/functional.h"
#include "penstock/lazy/trace.h"
#include "penstock/lazy/xm.h"

#include "tests/python.h"

namespace penstock::tests::lazy_programs {
namespace {

// NOLINTNEXTLINE(google-build-using-namespace): instructions read like PyTorch programs
namespace torch = ::penstock::lazy;
namespace xm = ::penstock::lazy::xm;
using base::Array;
using base::DType;
using Json = nlohmann::json;
using T = lazy::Tensor;

DType TypeNamed(const std::string& name) {
  static const std::map<std::string, DType> kTypes = {
      {"f64", DType::kF64}, {"f32", DType::kF32}, {"bf16", DType::kBF16},
      {"f16", DType::kF16}, {"i64", DType::kI64}, {"i32", DType::kI32},
      {"i16", DType::kI16}, {"u8", DType::kU8},   {"bool", DType::kBool}};
  return kTypes.at(name);
}

Array ArrayOf(const Json& json) {
  const auto values = json["values"].get<std::vector<double>>();
  const auto shape = json["shape"].get<std::vector<int64_t>>();
  return *Array::Of<double>(base::Shape(shape), absl::MakeConstSpan(values))
              .Cast(TypeNamed(json["dtype"]));
}

std::optional<int64_t> Maybe(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<int64_t>());
}

class Machine;
using Instruction = std::function<torch::Tensors(Machine& m, const Json& i)>;
const std::map<std::string, Instruction>& Instructions();

// Runs instructions; `interruptions` (unless 0) decides where steps end and values are read.
class Machine {
 public:
  Machine(const lazy::Device& device, uint64_t interruptions)
      : device_(device), interrupts_(interruptions != 0), random_(interruptions) {}

  T& at(const Json& name) { return tensors_[name.get<int>()]; }
  T& x(const Json& i) { return at(i["x"]); }
  const lazy::Device& device() const { return device_; }
  std::map<int, T>& tensors() { return tensors_; }

  torch::Operand Argument(const Json& i, size_t n = 0) {
    const Json& json = i["args"][n];
    if (json.is_object()) return at(json["t"]);
    if (json.is_number_float()) return json.get<double>();
    return json.get<int>();
  }
  torch::Indices IndicesOf(const Json& i) {
    torch::Indices indices;
    for (const Json& entry : i["index"]) {
      if (entry.is_null()) {
        indices.push_back(torch::None);
      } else if (entry.is_number()) {
        indices.push_back(entry.get<int64_t>());
      } else if (entry.is_string()) {
        indices.push_back(torch::Ellipsis);
      } else {
        indices.push_back(
            torch::Slice{Maybe(entry[0]), Maybe(entry[1]), Maybe(entry[2]).value_or(1)});
      }
    }
    return indices;
  }

  // Empty, or what is wrong.
  std::string Run(const Json& i) {
    const auto found = Instructions().find(i["op"]);
    if (found == Instructions().end()) return "unknown";
    {
      const torch::no_grad guard(i.contains("no_grad"));
      const torch::Tensors results = found->second(*this, i);
      const absl::Status error = lazy::Recorder::OfThread().TakeError();
      if (error.ok() == i.contains("fails")) {
        return error.ok() ? absl::StrCat("is no error; PyTorch: ", std::string(i["fails"]))
                          : absl::StrCat("fails: ", error.message());
      }
      if (i.contains("out") && error.ok()) {
        for (size_t n = 0; n < i["out"].size() && n < results.size(); ++n) {
          tensors_[i["out"][n]] = results[n];
        }
      }
    }
    return interrupts_ ? Interrupt() : "";
  }

 private:
  std::string Interrupt() {
    absl::Status status;
    if (random_() % 4 == 0) {
      status = xm::mark_step();
    } else if (random_() % 4 == 0 && !tensors_.empty()) {
      const auto any =
          std::next(tensors_.begin(), static_cast<int64_t>(random_() % tensors_.size()));
      if (any->second.defined()) status = any->second.cpu().status();
    }
    return status.ok() ? "" : absl::StrCat("after it: ", status.message());
  }

  const lazy::Device device_;
  const bool interrupts_;
  std::mt19937_64 random_;
  std::map<int, T> tensors_;
};

// ---- Instructions ----

using Ts = torch::Tensors;

Instruction Unary(T (*function)(const T&, lazy::SourceLocation)) {
  return [=](Machine& m, const Json& i) { return Ts{function(m.x(i), {})}; };
}
Instruction Binary(T (*function)(const torch::Operand&, const torch::Operand&)) {
  return [=](Machine& m, const Json& i) { return Ts{function(m.x(i), m.Argument(i))}; };
}
Instruction OfDim(T (*function)(const T&, int64_t, lazy::SourceLocation)) {
  return [=](Machine& m, const Json& i) {
    return Ts{function(m.x(i), i["args"][0].get<int64_t>(), {})};
  };
}
template <typename Function>
Instruction InPlace(const Function& function) {
  return [=](Machine& m, const Json& i) {
    function(m, i, m.x(i));
    return Ts{};
  };
}
template <typename Function>
Instruction Makes(const Function& function) {
  return [=](Machine& m, const Json& i) { return Ts{function(m, i, m.x(i), i["args"])}; };
}
torch::Sizes List(const Json& json) { return json.get<std::vector<int64_t>>(); }
torch::Scalar Keyword(const Json& i, const char* name) {
  if (!i["kw"].contains(name)) return 1;
  const Json& value = i["kw"][name];
  return value.is_number_float() ? torch::Scalar(value.get<double>())
                                 : torch::Scalar(value.get<int>());
}

const std::map<std::string, Instruction>& Instructions() {
  using A = const Json&;
  static const auto* const all = new std::map<std::string, Instruction>{
      {"tensor",
       [](Machine& m, A i) {
         return Ts{torch::tensor(ArrayOf(i), m.device(), i["grad"].get<bool>())};
       }},
      {"alias", [](Machine& m, A i) { return Ts{m.x(i)}; }},
      {"delete",
       [](Machine& m, A i) {
         m.tensors().erase(i["x"].get<int>());
         return Ts{};
       }},
      // Views.
      {"view", Makes([](Machine&, A, T& x, A a) { return torch::view(x, List(a[0])); })},
      {"transpose", Makes([](Machine&, A, T& x, A a) { return torch::transpose(x, a[0], a[1]); })},
      {"permute", Makes([](Machine&, A, T& x, A a) { return torch::permute(x, List(a[0])); })},
      {"t", Unary(torch::t)},
      {"unsqueeze", OfDim(torch::unsqueeze)},
      {"squeeze", Makes([](Machine&, A, T& x, A a) {
         return a.empty() ? torch::squeeze(x) : torch::squeeze(x, a[0].get<int64_t>());
       })},
      {"expand", Makes([](Machine&, A, T& x, A a) { return torch::expand(x, List(a[0])); })},
      {"narrow", Makes([](Machine&, A, T& x, A a) { return torch::narrow(x, a[0], a[1], a[2]); })},
      {"select", Makes([](Machine&, A, T& x, A a) { return torch::select(x, a[0], a[1]); })},
      {"detach", Makes([](Machine&, A, T& x, A) { return x.detach(); })},
      {"diagonal", Unary(torch::diagonal)},
      {"chunk",
       [](Machine& m, A i) {
         return torch::chunk(m.x(i), i["args"][0].get<int64_t>(), i["args"][1].get<int64_t>());
       }},
      {"movedim", Makes([](Machine&, A, T& x, A a) { return torch::movedim(x, a[0], a[1]); })},
      {"index", Makes([](Machine& m, A i, T& x, A) { return torch::index(x, m.IndicesOf(i)); })},
      // In place.
      {"add_", InPlace([](Machine& m, A i, T& x) {
         const torch::Operand y = m.Argument(i);
         y.is_scalar() ? x.add_(y.scalar()) : x.add_(y.tensor(), Keyword(i, "alpha"));
       })},
      {"sub_", InPlace([](Machine& m, A i, T& x) { x.sub_(m.Argument(i).tensor()); })},
      {"mul_", InPlace([](Machine& m, A i, T& x) {
         const torch::Operand y = m.Argument(i);
         y.is_scalar() ? x.mul_(y.scalar()) : x.mul_(y.tensor());
       })},
      {"copy_", InPlace([](Machine& m, A i, T& x) { x.copy_(m.Argument(i).tensor()); })},
      {"fill_", InPlace([](Machine&, A i, T& x) { x.fill_(i["args"][0].get<double>()); })},
      {"zero_", InPlace([](Machine&, A, T& x) { x.zero_(); })},
      {"clamp_", InPlace([](Machine&, A i, T& x) {
         x.clamp_(i["args"][0].get<int>(), i["args"][1].get<int>());
       })},
      {"masked_fill_", InPlace([](Machine& m, A i, T& x) {
         x.masked_fill_(m.Argument(i).tensor(), i["args"][1].get<int>());
       })},
      {"relu_", InPlace([](Machine&, A, T& x) { x.relu_(); })},
      {"neg_", InPlace([](Machine&, A, T& x) { x.neg_(); })},
      {"abs_", InPlace([](Machine&, A, T& x) { x.abs_(); })},
      {"addcmul_", InPlace([](Machine& m, A i, T& x) {
         x.addcmul_(m.Argument(i).tensor(), m.Argument(i, 1).tensor(),
                    Keyword(i, "value"));
       })},
      {"index_put_",
       InPlace([](Machine& m, A i, T& x) { x.index_put_(m.IndicesOf(i), m.Argument(i)); })},
      {"requires_grad_",
       InPlace([](Machine&, A i, T& x) { x.requires_grad_(i["args"][0].get<bool>()); })},
      {"detach_", InPlace([](Machine&, A, T& x) { x.detach_(); })},
      // Functions.
      {"add", Makes([](Machine& m, A i, T& x, A) { return torch::add(x, m.Argument(i)); })},
      {"sub", Makes([](Machine& m, A i, T& x, A) { return torch::sub(x, m.Argument(i)); })},
      {"mul", Binary(torch::mul)},
      {"maximum", Binary(torch::maximum)},
      {"minimum", Binary(torch::minimum)},
      {"eq", Binary(torch::eq)},
      {"ne", Binary(torch::ne)},
      {"lt", Binary(torch::lt)},
      {"le", Binary(torch::le)},
      {"gt", Binary(torch::gt)},
      {"ge", Binary(torch::ge)},
      {"remainder", Binary(torch::remainder)},
      {"fmod", Binary(torch::fmod)},
      {"floor_divide", Binary(torch::floor_divide)},
      {"bitwise_and", Binary(torch::bitwise_and)},
      {"bitwise_or", Binary(torch::bitwise_or)},
      {"bitwise_xor", Binary(torch::bitwise_xor)},
      {"logical_and", Binary(torch::logical_and)},
      {"logical_or", Binary(torch::logical_or)},
      {"logical_xor", Binary(torch::logical_xor)},
      {"neg", Unary(torch::neg)},
      {"abs", Unary(torch::abs)},
      {"relu", Unary(torch::relu)},
      {"sign", Unary(torch::sign)},
      {"square", Unary(torch::square)},
      {"clone", Unary(torch::clone)},
      {"logical_not", Unary(torch::logical_not)},
      {"sum", Makes([](Machine&, A, T& x, A a) {
         const torch::Sizes dims = a.empty()         ? torch::Sizes()
                                   : a[0].is_array() ? List(a[0])
                                                     : torch::Sizes(a[0].get<int64_t>());
         return torch::sum(x, dims, a.size() > 1);
       })},
      {"to", Makes([](Machine&, A i, T& x, A) { return x.to(TypeNamed(i["dtype"])); })},
      {"clamp", Makes([](Machine&, A, T& x, A a) {
         return torch::clamp(x, a[0].get<int>(), a[1].get<int>());
       })},
      {"where", Makes([](Machine& m, A i, T& x, A) {
         return torch::where(x, m.Argument(i), m.Argument(i, 1));
       })},
      {"matmul", Makes([](Machine& m, A i, T& x, A) {
         return torch::matmul(x, m.Argument(i).tensor());
       })},
      {"stack",
       [](Machine& m, A i) {
         Ts all;
         for (const Json& name : i["xs"]) all.push_back(m.at(name));
         return Ts{torch::stack(all, i["dim"])};
       }},
      {"cat",
       [](Machine& m, A i) {
         Ts all;
         for (const Json& name : i["xs"]) all.push_back(m.at(name));
         return Ts{torch::cat(all, i["dim"])};
       }},
      {"cumsum", OfDim(torch::cumsum)},
      {"flip",
       Makes([](Machine&, A, T& x, A a) { return torch::flip(x, a[0].get<int64_t>()); })},
      {"repeat", Makes([](Machine&, A, T& x, A a) { return torch::repeat(x, List(a[0])); })},
      {"tril", OfDim(torch::tril)},
      {"triu", OfDim(torch::triu)},
      {"any", Makes([](Machine&, A, T& x, A) { return torch::any(x); })},
      {"all", Makes([](Machine&, A, T& x, A) { return torch::all(x); })},
      {"amax", Makes([](Machine&, A, T& x, A a) { return torch::amax(x, a[0].get<int64_t>()); })},
      {"amin", Makes([](Machine&, A, T& x, A a) { return torch::amin(x, a[0].get<int64_t>()); })},
      {"prod", Makes([](Machine&, A, T& x, A a) { return torch::prod(x, a[0].get<int64_t>()); })},
      {"index_select", Makes([](Machine& m, A i, T& x, A a) {
         return torch::index_select(x, a[0], m.Argument(i, 1).tensor());
       })},
      {"gather", Makes([](Machine& m, A i, T& x, A a) {
         return torch::gather(x, a[0], m.Argument(i, 1).tensor());
       })},
      {"masked_fill", Makes([](Machine& m, A i, T& x, A a) {
         return torch::masked_fill(x, m.Argument(i).tensor(), a[1].get<int>());
       })},
      // Gradients.
      {"get_grad", Makes([](Machine&, A, T& x, A) { return x.grad(); })},
      {"clear_grad", InPlace([](Machine&, A, T& x) { x.set_grad(T()); })},
      {"backward", InPlace([](Machine& m, A i, T& x) {
         x.backward(i["gradient"].is_null() ? T() : m.at(i["gradient"]), i["retain"].get<bool>());
       })},
      {"gradients",
       [](Machine& m, A i) {
         Ts ys, xs, gradients;
         for (const Json& name : i["ys"]) ys.push_back(m.at(name));
         for (const Json& name : i["xs"]) xs.push_back(m.at(name));
         for (const Json& name : i["gradients"]) gradients.push_back(m.at(name));
         return torch::autograd::grad(ys, xs,
                                      {.grad_outputs = gradients,
                                       .retain_graph = i["retain"].get<bool>(),
                                       .create_graph = i["create"].get<bool>()});
       }},
  };
  return *all;
}

// ---- Comparison ----

// Empty: equal. Step functions have gradients of zero in PyTorch, and none here.
std::string Difference(const T& got, const Json& want) {
  if (!got.defined()) return "is undefined";
  const absl::StatusOr<Array> value = got.cpu();
  if (!value.ok()) return absl::StrCat("cannot be read: ", value.status().message());
  const Array expected = ArrayOf(want);
  if (value->TypeString() != expected.TypeString()) {
    return absl::StrCat("is ", value->TypeString(), ", PyTorch has ", expected.TypeString());
  }
  const Array g = *value->Cast(DType::kF64);
  const auto values = want["values"].get<std::vector<double>>();
  for (size_t k = 0; k < values.size(); ++k) {
    if (g.values<double>()[k] == values[k]) continue;
    return absl::StrCat("is ", value->ToString(100), ", PyTorch has ", expected.ToString(100));
  }
  return "";
}

bool IsZero(const Json& array) {
  for (const double value : array["values"].get<std::vector<double>>()) {
    if (value != 0) return false;
  }
  return true;
}

std::string DifferenceOfTensor(const T& got, const Json& want) {
  if (got.requires_grad() != want["requires_grad"].get<bool>()) {
    return absl::StrCat("requires_grad is ", got.requires_grad());
  }
  if (std::string wrong = Difference(got, want); !wrong.empty()) return wrong;
  if (!want.contains("grad")) return got.grad().defined() ? "has a gradient" : "";
  if (!got.grad().defined()) return IsZero(want["grad"]) ? "" : "has no gradient";
  std::string wrong = Difference(got.grad(), want["grad"]);
  return wrong.empty() ? "" : absl::StrCat("gradient ", wrong);
}

// What is wrong with a run of the program; empty if nothing is.
std::string WrongIn(const Json& program, const Json& tensors, const lazy::Device& device,
                    uint64_t interruptions) {
  Machine m(device, interruptions);
  size_t line = 0;
  for (const Json& i : program) {
    const std::string wrong = m.Run(i);
    // PyTorch can modify a part of an expanded tensor that repeats nothing.
    if (wrong.find("use clone() first") != std::string::npos) return "";
    if (!wrong.empty()) return absl::StrCat("line ", line, " ", i.dump(), " ", wrong);
    ++line;
  }
  for (const Json& want : tensors) {
    const std::string wrong = DifferenceOfTensor(m.at(want["name"]), want);
    if (!wrong.empty()) return absl::StrCat("t", want["name"].dump(), " ", wrong);
  }
  return "";
}

std::string Listing(const Json& program) {
  std::string text;
  size_t line = 0;
  for (const Json& i : program) absl::StrAppend(&text, line++, ": ", i.dump(), "\n");
  return text;
}

TEST(LazyPrograms, EqualPyTorchWhereverStepsEnd) {
  const TemporaryFolder folder;
  const absl::StatusOr<lazy::Device> device = xm::xla_device();
  ASSERT_TRUE(device.ok()) << device.status();
  const int kAtOnce = 10;
  for (base::RandomCases cases(2); cases.Next();) {
    const uint64_t first = cases.seed() * kAtOnce;
    const absl::Status ran =
        RunDebianPython("lazy/programs/programs.py",
                        {folder.path().string(), absl::StrCat(first), absl::StrCat(kAtOnce)});
    ASSERT_TRUE(ran.ok()) << ran;
    for (uint64_t seed = first; seed < first + kAtOnce; ++seed) {
      std::ifstream file(folder.path() / absl::StrCat(seed, ".json"));
      const Json json = Json::parse(file);
      for (uint64_t interruptions = 0; interruptions <= 2; ++interruptions) {
        const std::string wrong =
            WrongIn(json["program"], json["tensors"], *device, interruptions * (seed + 1));
        EXPECT_TRUE(wrong.empty()) << cases.Describe() << ", program " << seed << ", interruptions "
                                   << interruptions << ": " << wrong << "\n"
                                   << Listing(json["program"]);
        if (!wrong.empty()) break;
      }
    }
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace penstock::tests::lazy_programs
