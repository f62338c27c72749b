#include "penstock/runtime/testing/client_conformance.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <gmock/gmock.h>

#include "penstock/base/thread_pool.h"

namespace penstock::runtime {
namespace {

using base::DType;
using base::Shape;
using testing::AllOf;
using testing::HasSubstr;

const TensorType kF32x4{DType::kF32, {4}};
// Large enough for zero-copy transfers.
const TensorType kLarge{DType::kF32, {1 << 16}};

// r0 = p0 + p1
TestProgram Add(const TensorType& type = kF32x4) {
  return {.name = "add",
          .parameters = {type, type},
          .results = {type},
          .body = {absl::StrCat("%0 = stablehlo.add %p0, %p1 : ", MlirType(type))},
          .returns = {"%0"}};
}

// r0 = p0 + p1, written to the donated p0
TestProgram AddInPlace(const TensorType& type = kF32x4) {
  TestProgram program = Add(type);
  program.alias = {0, -1};
  return program;
}

// r0 = sum of p0 over the replicas
TestProgram AllReduce(int replicas) {
  std::vector<std::string> ids;
  for (int i = 0; i < replicas; ++i) ids.push_back(absl::StrCat(i));
  return {.name = "all_reduce",
          .parameters = {kF32x4},
          .results = {kF32x4},
          .body = {absl::StrCat("%0 = \"stablehlo.all_reduce\"(%p0) ({"),
                   "^bb0(%a: tensor<f32>, %b: tensor<f32>):",
                   "%s = stablehlo.add %a, %b : tensor<f32>", "stablehlo.return %s : tensor<f32>",
                   absl::StrCat("}) {replica_groups = dense<[[", absl::StrJoin(ids, ","),
                                "]]> : tensor<1x", replicas,
                                "xi64>} : (tensor<4xf32>) -> tensor<4xf32>")},
          .returns = {"%0"},
          .num_replicas = replicas};
}

// Counts to p0 in a loop, so that the execution takes some time.
TestProgram Count() {
  const TensorType scalar{DType::kI32, {}};
  return {.name = "count",
          .parameters = {scalar},
          .results = {scalar},
          .body = {"%zero = stablehlo.constant dense<0> : tensor<i32>",
                   "%one = stablehlo.constant dense<1> : tensor<i32>",
                   "%0 = stablehlo.while(%i = %zero) : tensor<i32>", "cond {",
                   "%c = stablehlo.compare LT, %i, %p0 : (tensor<i32>, tensor<i32>) -> tensor<i1>",
                   "stablehlo.return %c : tensor<i1>", "} do {",
                   "%n = stablehlo.add %i, %one : tensor<i32>", "stablehlo.return %n : tensor<i32>",
                   "}"},
          .returns = {"%0"}};
}

Array Floats(std::initializer_list<float> values) {
  return Array::Of<float>({static_cast<int64_t>(values.size())}, values);
}

Array Filled(const TensorType& type, float value) {
  Array out = Array::Uninitialized(type.dtype, type.shape);
  std::fill_n(out.mutable_data<float>(), out.num_elements(), value);
  return out;
}

// Distinct bytes per element; 0 and 1 for booleans.
Array Pattern(DType dtype, const Shape& shape) {
  Array out = Array::Uninitialized(dtype, shape);
  auto* bytes = static_cast<uint8_t*>(out.mutable_raw());
  for (int64_t i = 0; i < out.num_bytes(); ++i) {
    bytes[i] = dtype == DType::kBool ? i % 2 : static_cast<uint8_t>(i * 37 + 11);
  }
  return out;
}

bool SameBytes(const Array& a, const Array& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

#define ASSERT_OK_AND_ASSIGN(declaration, expression) \
  ASSERT_OK_AND_ASSIGN_IMPL(PENSTOCK_CONCAT_(or_, __LINE__), declaration, expression)
#define ASSERT_OK_AND_ASSIGN_IMPL(result, declaration, expression) \
  auto result = (expression);                                      \
  ASSERT_TRUE(result.ok()) << result.status();                     \
  declaration = *std::move(result)

}  // namespace

std::string ClientFactoryName(const testing::TestParamInfo<ClientFactory>& info) {
  return info.param.name;
}

void ClientConformance::SetUp() { client_ = Open(2); }

std::shared_ptr<Client> ClientConformance::Open(int devices) {
  absl::StatusOr<std::shared_ptr<Client>> client = GetParam().open(devices);
  PENSTOCK_CHECK_OK(client.status());
  return *client;
}

std::shared_ptr<Executable> ClientConformance::Compile(const ir::Program& program) {
  absl::StatusOr<std::shared_ptr<Executable>> executable = client_->Compile(program);
  PENSTOCK_CHECK_OK(executable.status());
  return *executable;
}

Buffer ClientConformance::Put(const Array& array, int device) {
  absl::StatusOr<Buffer> buffer = client_->Put(array, client_->devices()[device]);
  PENSTOCK_CHECK_OK(buffer.status());
  return *buffer;
}

// The linker may include this file in a program without a client to test.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ClientConformance);

TEST_P(ClientConformance, DescribesItsDevices) {
  EXPECT_FALSE(client_->platform().empty());
  EXPECT_FALSE(client_->version().empty());
  ASSERT_EQ(client_->devices().size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(client_->devices()[i].index, i);
    EXPECT_FALSE(client_->devices()[i].kind.empty());
    EXPECT_FALSE(client_->devices()[i].description.empty());
  }
  EXPECT_NE(client_->devices()[0].id, client_->devices()[1].id);
}

TEST_P(ClientConformance, GetReturnsWhatPutTransferred) {
  for (DType dtype : {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8,
                      DType::kU16, DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF32,
                      DType::kF64, DType::kC64, DType::kF8E4M3, DType::kF8E5M2, DType::kF8E8M0}) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{1}, Shape{7}, Shape{3, 5},
                               Shape{2, 3, 4, 5}, Shape{1, 2, 1, 3, 1, 2, 1, 2}}) {
      const Array in = Pattern(dtype, shape);
      SCOPED_TRACE(in.TypeString());
      ASSERT_OK_AND_ASSIGN(Buffer buffer, client_->Put(in, client_->devices()[1]));
      EXPECT_EQ(buffer.type(), (TensorType{dtype, shape}));
      EXPECT_EQ(buffer.device().index, 1);
      EXPECT_TRUE(buffer.Await().ok());
      ASSERT_OK_AND_ASSIGN(const Array out, buffer.Get());
      EXPECT_TRUE(SameBytes(in, out));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(out.raw()) % base::kArrayAlignment, 0u);
    }
  }
}

TEST_P(ClientConformance, PutAcceptsUnalignedMemory) {
  const Array all = Floats({0, 1, 2, 3, 4, 5, 6, 7});
  ASSERT_OK_AND_ASSIGN(const Array out, Put(all.Slice(3, 7)).Get());
  EXPECT_TRUE(SameBytes(out, Floats({3, 4, 5, 6})));
}

TEST_P(ClientConformance, PutReadsUnownedMemoryBeforeReturning) {
  alignas(64) float values[4] = {1, 2, 3, 4};
  const Buffer buffer = Put(Array::View(DType::kF32, {4}, values, nullptr));
  values[0] = 99;
  ASSERT_OK_AND_ASSIGN(const Array out, buffer.Get());
  EXPECT_TRUE(SameBytes(out, Floats({1, 2, 3, 4})));
}

TEST_P(ClientConformance, PutHoldsArrayOwnerUntilDone) {
  std::mutex mutex;
  std::condition_variable freed_now;
  bool freed = false;
  {
    const Array backing = Floats({1, 2, 3, 4});
    Array view;
    {
      std::shared_ptr<const void> owner(backing.raw(), [&, backing](const void*) {
        const std::lock_guard<std::mutex> lock(mutex);
        freed = true;
        freed_now.notify_one();
      });
      view = Array::View(DType::kF32, {4}, backing.raw(), std::move(owner));
    }
    const Buffer buffer = Put(view);
    view = Array();
    ASSERT_OK_AND_ASSIGN(const Array out, buffer.Get());
    EXPECT_TRUE(SameBytes(out, Floats({1, 2, 3, 4})));
  }
  std::unique_lock<std::mutex> lock(mutex);
  freed_now.wait(lock, [&] { return freed; });  // blocks forever if the buffer leaks
}

TEST_P(ClientConformance, PutRejectsUnsupportedTypes) {
  EXPECT_THAT(Message(client_->Put(Array::Strings({1}, {"cat"}), client_->devices()[0]).status()),
              AllOf(HasSubstr("string"), HasSubstr("float32")));
  EXPECT_FALSE(client_->Put(Array(), client_->devices()[0]).ok());
}

TEST_P(ClientConformance, PutRejectsUnknownDevice) {
  Device other = client_->devices()[0];
  other.index = 7;
  other.description = "SomeDevice(7)";
  EXPECT_THAT(Message(client_->Put(Floats({1}), other).status()),
              AllOf(HasSubstr("SomeDevice(7)"), HasSubstr(client_->devices()[1].description)));
}

TEST_P(ClientConformance, PutAllKeepsTheOrder) {
  const std::vector<Array> in = {Floats({1}), Array::Scalar<int32_t>(2), Floats({3, 4})};
  ASSERT_OK_AND_ASSIGN(const Buffers buffers, client_->PutAll(in, client_->devices()[0]));
  ASSERT_EQ(buffers.size(), in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_OK_AND_ASSIGN(const Array out, buffers[i].Get());
    EXPECT_TRUE(SameBytes(out, in[i]));
  }
}

TEST_P(ClientConformance, RejectsEmptyBuffer) {
  const Buffer empty;
  EXPECT_FALSE(empty.valid());
  EXPECT_FALSE(empty.donated());
  EXPECT_FALSE(empty.Await().ok());
  EXPECT_FALSE(empty.Get().ok());
  EXPECT_FALSE(empty.GetAsync(Floats({1})).ok());
}

TEST_P(ClientConformance, ComputesOnOneDevice) {
  const auto add = Compile(Print(Add()));
  ASSERT_OK_AND_ASSIGN(const auto out,
                       add->Execute({{Put(Floats({1, 2, 3, 4})), Put(Floats({10, 20, 30, 40}))}}));
  ASSERT_EQ(out.size(), 1u);
  ASSERT_EQ(out[0].size(), 1u);
  EXPECT_EQ(out[0][0].type(), kF32x4);
  ASSERT_OK_AND_ASSIGN(const Array sum, out[0][0].Get());
  EXPECT_TRUE(SameBytes(sum, Floats({11, 22, 33, 44})));
}

TEST_P(ClientConformance, ReturnsResultsOfSeveralTypesInOrder) {
  TestProgram program = {
      .name = "several",
      .parameters = {kF32x4},
      .results = {{DType::kBool, {4}}, kF32x4, {DType::kI32, {}}},
      .body = {"%0 = stablehlo.compare GT, %p0, %p0 : (tensor<4xf32>, tensor<4xf32>) -> "
               "tensor<4xi1>",
               "%1 = stablehlo.constant dense<42> : tensor<i32>"},
      .returns = {"%0", "%p0", "%1"}};
  const auto executable = Compile(Print(program));
  ASSERT_OK_AND_ASSIGN(const auto out, executable->Execute({{Put(Floats({1, 2, 3, 4}))}}));
  ASSERT_EQ(out[0].size(), 3u);
  EXPECT_TRUE(SameBytes(*out[0][0].Get(), Array::Zeros(DType::kBool, {4})));
  EXPECT_TRUE(SameBytes(*out[0][1].Get(), Floats({1, 2, 3, 4})));
  EXPECT_EQ(out[0][2].Get()->item<int32_t>(), 42);
}

TEST_P(ClientConformance, RunsWithoutParameters) {
  const auto executable = Compile(Print({.results = {{DType::kI32, {}}},
                                         .body = {"%0 = stablehlo.constant dense<7> : tensor<i32>"},
                                         .returns = {"%0"}}));
  ASSERT_OK_AND_ASSIGN(const auto out, executable->Execute({Buffers{}}));
  EXPECT_EQ(out[0][0].Get()->item<int32_t>(), 7);
}

TEST_P(ClientConformance, RunsOnRequestedDevice) {
  ASSERT_OK_AND_ASSIGN(const auto add, client_->Compile(Print(Add()), {.devices = {1}}));
  const Array ones = Floats({1, 1, 1, 1});
  ASSERT_OK_AND_ASSIGN(const auto out, add->Execute({{Put(ones, 1), Put(ones, 1)}}));
  EXPECT_EQ(out[0][0].device().index, 1);
  EXPECT_TRUE(SameBytes(*out[0][0].Get(), Floats({2, 2, 2, 2})));
}

TEST_P(ClientConformance, AllReduceSumsOverEightReplicas) {
  client_ = Open(8);
  const auto all_reduce = Compile(Print(AllReduce(8)));
  std::vector<Buffers> arguments;
  for (int i = 0; i < 8; ++i) arguments.push_back({Put(Floats({1.f * i, 1, 0, -1.f * i}), i)});
  ASSERT_OK_AND_ASSIGN(const auto out, all_reduce->Execute(arguments));
  ASSERT_EQ(out.size(), 8u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(out[i][0].device().index, i);
    EXPECT_TRUE(SameBytes(*out[i][0].Get(), Floats({28, 8, 0, -28})));
  }
}

TEST_P(ClientConformance, ReplicasRunOnRequestedDevices) {
  client_ = Open(8);
  ASSERT_OK_AND_ASSIGN(const auto all_reduce,
                       client_->Compile(Print(AllReduce(2)), {.devices = {5, 2}}));
  ASSERT_OK_AND_ASSIGN(const auto out, all_reduce->Execute({{Put(Floats({1, 2, 3, 4}), 5)},
                                                            {Put(Floats({4, 3, 2, 1}), 2)}}));
  EXPECT_EQ(out[0][0].device().index, 5);
  EXPECT_EQ(out[1][0].device().index, 2);
  for (const Buffers& replica : out) {
    EXPECT_TRUE(SameBytes(*replica[0].Get(), Floats({5, 5, 5, 5})));
  }
}

// ---- invalid arguments ----

TEST_P(ClientConformance, RejectsAnotherTypeOfSameSize) {
  const auto add = Compile(Print(Add()));
  const Buffer ok = Put(Floats({1, 2, 3, 4}));
  EXPECT_THAT(Message(add->Execute({{ok, Put(Array::Zeros(DType::kI32, {4}))}}).status()),
              AllOf(HasSubstr("'add'"), HasSubstr("parameter 1 ('p1')"),
                    HasSubstr("expected float32[4]"), HasSubstr("got int32[4]")));
  EXPECT_THAT(Message(add->Execute({{Put(Array::Zeros(DType::kF32, {2, 2})), ok}}).status()),
              AllOf(HasSubstr("parameter 0 ('p0')"), HasSubstr("got float32[2,2]")));
}

TEST_P(ClientConformance, RejectsMissingAndEmptyArguments) {
  const auto add = Compile(Print(Add()));
  const Buffer ok = Put(Floats({1, 2, 3, 4}));
  EXPECT_THAT(Message(add->Execute({{ok}}).status()),
              AllOf(HasSubstr("expected 2 arguments"), HasSubstr("got 1")));
  EXPECT_THAT(Message(add->Execute({{ok, Buffer()}}).status()), HasSubstr("empty"));
}

TEST_P(ClientConformance, RejectsArgumentsForAnotherNumberOfReplicas) {
  const auto all_reduce = Compile(Print(AllReduce(2)));
  const Buffer ok = Put(Floats({1, 2, 3, 4}));
  EXPECT_THAT(Message(all_reduce->Execute({{ok}}).status()),
              AllOf(HasSubstr("for 2 replicas"), HasSubstr("for 1")));
}

TEST_P(ClientConformance, RejectsBufferOnAnotherDevice) {
  const auto all_reduce = Compile(Print(AllReduce(2)));
  const Buffer first = Put(Floats({1, 2, 3, 4}), 0);
  EXPECT_THAT(
      Message(all_reduce->Execute({{first}, {first}}).status()),
      AllOf(HasSubstr("replica 1, parameter 0"),
            HasSubstr(absl::StrCat("expected a buffer on ", client_->devices()[1].description)),
            HasSubstr(absl::StrCat("got one on ", client_->devices()[0].description))));
}

TEST_P(ClientConformance, RejectsBufferOfAnotherClient) {
  const auto add = Compile(Print(Add()));
  const Buffer ours = Put(Floats({1, 2, 3, 4}));
  const std::shared_ptr<Client> other = Open(1);
  ASSERT_OK_AND_ASSIGN(const Buffer theirs, other->Put(Floats({1, 2, 3, 4}), other->devices()[0]));
  EXPECT_THAT(Message(add->Execute({{ours, theirs}}).status()),
              AllOf(HasSubstr("parameter 1"), HasSubstr("another client")));
}

TEST_P(ClientConformance, RejectsMoreReplicasThanDevices) {
  EXPECT_THAT(Message(client_->Compile(Print(AllReduce(3))).status()),
              AllOf(HasSubstr("3 replicas"), HasSubstr("2 devices"),
                    HasSubstr(client_->devices()[1].description)));
}

TEST_P(ClientConformance, RejectsDevicesThatDoNotMatchReplicas) {
  const ir::Program program = Print(AllReduce(2));
  EXPECT_FALSE(client_->Compile(program, {.devices = {0}}).ok());
  EXPECT_FALSE(client_->Compile(program, {.devices = {0, 2}}).ok());
  EXPECT_FALSE(client_->Compile(program, {.devices = {1, 1}}).ok());
}

// ---- donation ----

TEST_P(ClientConformance, DonationReusesArgumentMemory) {
  const auto add = Compile(Print(AddInPlace()));
  ASSERT_OK_AND_ASSIGN(const MemoryStats memory, add->Memory());
  EXPECT_EQ(memory.aliased, 16);
  EXPECT_GE(memory.arguments, 32);
  ASSERT_OK_AND_ASSIGN(const MemoryStats without, Compile(Print(Add()))->Memory());
  EXPECT_EQ(without.aliased, 0);
}

TEST_P(ClientConformance, CompileRejectsCopyOfDonatedMemory) {
  TestProgram text_does_not_donate = Add();
  ir::Program program = Print(text_does_not_donate);
  program.alias = {0, -1};
  EXPECT_THAT(Message(client_->Compile(program).status()),
              AllOf(HasSubstr("16 bytes"), HasSubstr("reuses only 0"),
                    HasSubstr("allow_copied_donations")));
  EXPECT_TRUE(client_->Compile(program, {.allow_copied_donations = true}).ok());
}

TEST_P(ClientConformance, UseOfDonatedBufferIsAnError) {
  const auto add = Compile(Print(AddInPlace()));
  const Buffer state = Put(Floats({1, 2, 3, 4})), one = Put(Floats({1, 1, 1, 1}));
  ASSERT_OK_AND_ASSIGN(const auto out, add->Execute({{state, one}}));
  EXPECT_TRUE(state.donated());
  EXPECT_FALSE(one.donated());
  const auto names_it = AllOf(HasSubstr("float32[4]"), HasSubstr("was donated"));
  EXPECT_THAT(Message(state.Await()), names_it);
  EXPECT_THAT(Message(state.Get().status()), names_it);
  EXPECT_THAT(Message(state.GetAsync(Floats({0, 0, 0, 0})).status()), names_it);
  EXPECT_THAT(Message(add->Execute({{state, one}}).status()),
              AllOf(names_it, HasSubstr("parameter 0 ('p0')")));
  EXPECT_THAT(Message(add->Execute({{out[0][0], state}}).status()),
              AllOf(names_it, HasSubstr("parameter 1 ('p1')")));
  EXPECT_FALSE(out[0][0].donated());  // a rejected execution donates nothing
  EXPECT_TRUE(SameBytes(*out[0][0].Get(), Floats({2, 3, 4, 5})));
}

TEST_P(ClientConformance, StateMayBeDonatedStepAfterStep) {
  const auto add = Compile(Print(AddInPlace()));
  const Buffer one = Put(Floats({1, 1, 1, 1}));
  Buffer state = Put(Floats({0, 1, 2, 3}));
  for (int step = 0; step < 100; ++step) {
    ASSERT_OK_AND_ASSIGN(const auto out, add->Execute({{state, one}}));
    state = out[0][0];
  }
  EXPECT_TRUE(SameBytes(*state.Get(), Floats({100, 101, 102, 103})));
}

TEST_P(ClientConformance, DonationDoesNotChangeArraysOfPut) {
  for (const TensorType& type : {kF32x4, kLarge}) {
    const auto add = Compile(Print(AddInPlace(type)));
    const Array array = Filled(type, 1);
    ASSERT_OK_AND_ASSIGN(const auto out, add->Execute({{Put(array), Put(array)}}));
    EXPECT_TRUE(SameBytes(*out[0][0].Get(), Filled(type, 2)));
    EXPECT_TRUE(SameBytes(array, Filled(type, 1)));
  }
}

TEST_P(ClientConformance, DonationDoesNotChangeArraysOfGet) {
  for (const TensorType& type : {kF32x4, kLarge}) {
    const auto add = Compile(Print(AddInPlace(type)));
    const Buffer one = Put(Filled(type, 1));
    ASSERT_OK_AND_ASSIGN(auto out, add->Execute({{Put(Filled(type, 1)), one}}));
    const Buffer state = out[0][0];
    ASSERT_OK_AND_ASSIGN(const Array before, state.Get());
    ASSERT_OK_AND_ASSIGN(out, add->Execute({{state, one}}));
    EXPECT_TRUE(state.donated());
    EXPECT_FALSE(state.Get().ok());
    EXPECT_TRUE(SameBytes(*out[0][0].Get(), Filled(type, 3)));
    EXPECT_TRUE(SameBytes(before, Filled(type, 2)));
  }
}

TEST_P(ClientConformance, ArrayOutlivesItsBuffer) {
  Array out;
  {
    const auto add = Compile(Print(Add(kLarge)));
    const Buffer one = Put(Filled(kLarge, 1));
    ASSERT_OK_AND_ASSIGN(const auto results, add->Execute({{one, one}}));
    out = *results[0][0].Get();
    client_.reset();
  }
  EXPECT_TRUE(SameBytes(out, Filled(kLarge, 2)));
}

TEST_P(ClientConformance, ResultArrayDoesNotAliasInputArray) {
  Array in = Filled(kLarge, 1);
  Buffer buffer = Put(in);
  ASSERT_OK_AND_ASSIGN(const Array out, buffer.Get());
  buffer = Buffer();
  in.mutable_data<float>()[0] = 99;
  EXPECT_TRUE(SameBytes(out, Filled(kLarge, 1)));
}

TEST_P(ClientConformance, RejectsBufferDonatedAndUsedInOneExecution) {
  const auto add = Compile(Print(AddInPlace()));
  const Buffer both = Put(Floats({1, 2, 3, 4}));
  EXPECT_THAT(Message(add->Execute({{both, both}}).status()),
              AllOf(HasSubstr("parameter 1 ('p1')"), HasSubstr("same buffer is donated")));
  EXPECT_FALSE(both.donated());
  EXPECT_TRUE(SameBytes(*both.Get(), Floats({1, 2, 3, 4})));
}

TEST_P(ClientConformance, RejectsBufferDonatedTwiceInOneExecution) {
  TestProgram program = Add();
  program.results = {kF32x4, kF32x4};
  program.returns = {"%0", "%0"};
  program.alias = {0, 1};
  const auto executable = Compile(Print(program));
  const Buffer both = Put(Floats({1, 2, 3, 4}));
  EXPECT_THAT(Message(executable->Execute({{both, both}}).status()),
              AllOf(HasSubstr("parameter 1 ('p1')"), HasSubstr("donated twice"),
                    HasSubstr("parameter 0 ('p0')")));
  EXPECT_FALSE(both.donated());
}

TEST_P(ClientConformance, RejectsDonationToResultOfAnotherType) {
  ir::Program program = Print(AddInPlace());
  program.parameters[0].shape = {2, 2};
  EXPECT_THAT(Message(client_->Compile(program).status()),
              AllOf(HasSubstr("parameter 0 ('p0'), float32[2,2]"),
                    HasSubstr("result 0 ('r0'), float32[4]")));
  program = Print(AddInPlace());
  program.alias = {0, 0};
  EXPECT_THAT(Message(client_->Compile(program).status()), HasSubstr("both donated to result 0"));
  program.alias = {3, -1};
  EXPECT_THAT(Message(client_->Compile(program).status()), HasSubstr("result 3"));
}

// ---- compile errors ----

TEST_P(ClientConformance, SyntaxErrorNamesLineAndOrigin) {
  TestProgram program = Add();
  program.body[0] = "%0 = stablehlo.add %p0 %p1 : tensor<4xf32>";
  EXPECT_THAT(Message(client_->Compile(Print(program)).status()),
              AllOf(HasSubstr("program 'add'"), HasSubstr("line 3 is: %0 = stablehlo.add %p0 %p1"),
                    HasSubstr("layer \"layer0\" (model.cc:10)")));
}

TEST_P(ClientConformance, TypeErrorNamesLineAndOrigin) {
  TestProgram program = Add();
  program.body = {"%1 = stablehlo.negate %p0 : tensor<4xf32>",
                  "%0 = \"stablehlo.concatenate\"(%1, %p1) {dimension = 3 : i64} : (tensor<4xf32>, "
                  "tensor<4xf32>) -> tensor<8xf32>"};
  EXPECT_THAT(Message(client_->Compile(Print(program)).status()),
              AllOf(HasSubstr("line 4 is: %0 ="), HasSubstr("layer \"layer1\" (model.cc:11)")));
}

TEST_P(ClientConformance, ErrorAtLocationNamesLayer) {
  TestProgram program = Add();
  program.body = {"%1 = stablehlo.negate %p0 : tensor<4xf32> loc(\"layer0\"(\"model.cc\":10:1))",
                  "%0 = \"stablehlo.concatenate\"(%1, %p1) {dimension = 3 : i64} : (tensor<4xf32>, "
                  "tensor<4xf32>) -> tensor<8xf32> loc(\"layer1\"(\"model.cc\":11:1))"};
  EXPECT_THAT(Message(client_->Compile(Print(program)).status()),
              HasSubstr("layer \"layer1\" (model.cc:11)"));
}

TEST_P(ClientConformance, RejectsProgramWithWrongListOfResults) {
  ir::Program program = Print(Add());
  program.results.push_back(kF32x4);
  EXPECT_THAT(Message(client_->Compile(program).status()),
              AllOf(HasSubstr("returns 1"), HasSubstr("lists 2")));
}

TEST_P(ClientConformance, RejectsProgramWithWrongTypesOfResults) {
  for (const TensorType& wrong : {TensorType{DType::kF32, {8}}, TensorType{DType::kI32, {4}}}) {
    ir::Program program = Print(Add());
    program.results = {wrong};
    EXPECT_THAT(Message(client_->Compile(program).status()), HasSubstr(wrong.ToString()));
  }
}

TEST_P(ClientConformance, RejectsUnknownXlaFlag) {
  EXPECT_THAT(
      Message(client_->Compile(Print(Add()), {.xla_flags = {{"xla_nonsense", "true"}}}).status()),
      HasSubstr("xla_nonsense"));
  EXPECT_TRUE(client_
                  ->Compile(Print(Add()), {.xla_flags = {{"xla_backend_optimization_level", "1"},
                                                         {"xla_hlo_profile", "false"}}})
                  .ok());
}

// ---- asynchronous execution ----

TEST_P(ClientConformance, DeviceErrorNamesProgram) {
  // 2^62 bytes exceed every address space, so this fails everywhere without allocating memory.
  const TensorType huge{DType::kF32, {int64_t{1} << 60}};
  const auto executable =
      Compile(Print({.name = "huge",
                     .parameters = {{DType::kF32, {}}},
                     .results = {huge},
                     .body = {absl::StrCat("%0 = stablehlo.broadcast_in_dim %p0, dims = [] : "
                                           "(tensor<f32>) -> ",
                                           MlirType(huge))},
                     .returns = {"%0"}}));
  const auto out = executable->Execute({{Put(Array::Scalar(1.f))}});
  const absl::Status status = out.ok() ? (*out)[0][0].Await() : out.status();
  EXPECT_THAT(Message(status), HasSubstr("program 'huge'"));
}

TEST_P(ClientConformance, GetAsyncCopiesIntoCallersMemory) {
  const Buffer buffer = Put(Floats({1, 2, 3, 4}));
  Array out = Array::Zeros(DType::kF32, {4});
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Event> event, buffer.GetAsync(out));
  ASSERT_TRUE(event->Await().ok());
  EXPECT_TRUE(event->IsReady());
  EXPECT_TRUE(SameBytes(out, Floats({1, 2, 3, 4})));
}

TEST_P(ClientConformance, GetAsyncOfEmptyBufferCompletes) {
  const Buffer buffer = Put(Array::Zeros(DType::kF32, {0, 3}));
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Event> event,
                       buffer.GetAsync(Array::Zeros(DType::kF32, {0, 3})));
  EXPECT_TRUE(event->Await().ok());
}

TEST_P(ClientConformance, GetAsyncRejectsMemoryOfAnotherType) {
  const Buffer buffer = Put(Floats({1, 2, 3, 4}));
  EXPECT_THAT(Message(buffer.GetAsync(Array::Zeros(DType::kF32, {3})).status()),
              AllOf(HasSubstr("float32[3]"), HasSubstr("float32[4]")));
  EXPECT_FALSE(buffer.GetAsync(Array::Zeros(DType::kI32, {4})).ok());
  EXPECT_FALSE(buffer.GetAsync(Array()).ok());
}

TEST_P(ClientConformance, OnReadyCallsOnceAfterEverythingElseIsDestroyed) {
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;
  absl::Status status = absl::UnknownError("not called");
  {
    const auto count = Compile(Print(Count()));
    ASSERT_OK_AND_ASSIGN(auto out, count->Execute({{Put(Array::Scalar<int32_t>(1000))}}));
    ASSERT_OK_AND_ASSIGN(const auto event, out[0][0].GetAsync(Array::Zeros(DType::kI32, {})));
    event->OnReady([&](absl::Status result) {
      const std::lock_guard<std::mutex> lock(mutex);
      ++calls;
      status = result;
      changed.notify_one();
    });
    client_.reset();
  }
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return calls > 0; });
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(ClientConformance, CallbackMayOwnLastBuffer) {
  std::mutex mutex;
  std::condition_variable changed;
  bool called = false;
  const auto count = Compile(Print(Count()));
  ASSERT_OK_AND_ASSIGN(auto out, count->Execute({{Put(Array::Scalar<int32_t>(1000))}}));
  ASSERT_OK_AND_ASSIGN(auto event, out[0][0].GetAsync(Array::Zeros(DType::kI32, {})));
  event->OnReady([&, last = std::move(out[0][0])](const absl::Status&) {
    const std::lock_guard<std::mutex> lock(mutex);
    called = true;
    changed.notify_one();
  });
  event.reset();
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return called; });
}

TEST_P(ClientConformance, BuffersAndExecutablesOutliveClientHandle) {
  auto add = Compile(Print(Add()));
  const Buffer one = Put(Floats({1, 1, 1, 1}));
  client_.reset();
  ASSERT_OK_AND_ASSIGN(auto out, add->Execute({{one, one}}));
  add.reset();
  EXPECT_TRUE(SameBytes(*out[0][0].Get(), Floats({2, 2, 2, 2})));
}

TEST_P(ClientConformance, EverythingMayBeDestroyedWhileExecuting) {
  for (int i = 0; i < 20; ++i) {
    client_ = Open(1);
    const auto count = Compile(Print(Count()));
    ASSERT_TRUE(count->Execute({{Put(Array::Scalar<int32_t>(20000))}}).ok());
    client_.reset();
  }
}

TEST_P(ClientConformance, ThreadsExecuteConcurrently) {
  const auto add = Compile(Print(AddInPlace()));
  const Buffer one = Put(Floats({1, 1, 1, 1}));
  base::ThreadPool pool(4);
  std::atomic<int> wrong = 0;
  base::ParallelFor(pool, 0, 16, [&](int64_t i) {
    const float start = static_cast<float>(i);
    Buffer state = Put(Floats({start, 0, 0, 0}));
    for (int step = 0; step < 25; ++step) {
      absl::StatusOr<std::vector<Buffers>> out = add->Execute({{state, one}});
      if (!out.ok()) {
        ++wrong;
        return;
      }
      state = (*out)[0][0];
    }
    if (!SameBytes(*state.Get(), Floats({start + 25, 25, 25, 25}))) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(ClientConformance, ConcurrentDonationsOfOneBufferSucceedOnce) {
  const auto add = Compile(Print(AddInPlace()));
  const Buffer one = Put(Floats({1, 1, 1, 1}));
  base::ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    const Buffer state = Put(Floats({1, 2, 3, 4}));
    std::atomic<int> won = 0;
    base::ParallelFor(pool, 0, 4, [&](int64_t) {
      if (add->Execute({{state, one}}).ok()) ++won;
    });
    EXPECT_EQ(won, 1);
  }
}

TEST_P(ClientConformance, EstimatesArePlausible) {
  const auto add = Compile(Print(Add()));
  const auto cost = add->Cost();
  if (!cost.ok()) {
    EXPECT_TRUE(absl::IsUnimplemented(cost.status())) << cost.status();
    return;
  }
  EXPECT_EQ(cost->flops, 4);
}

}  // namespace penstock::runtime
