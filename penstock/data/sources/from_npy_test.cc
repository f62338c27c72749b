#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/formats/npy.h"
#include "penstock/formats/zip.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::data {
namespace from_npy_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::PrintElement;
using testing::ReadAll;
using testing::ReadSome;

constexpr int64_t kRows = 100;

// Row i is {i, i + 0.5, -i}.
Array Values(int64_t rows = kRows) {
  Array out = Array::Uninitialized(DType::kF32, {rows, 3});
  for (int64_t i = 0; i < rows; ++i) {
    const float f = static_cast<float>(i);
    float* row = out.mutable_data<float>() + 3 * i;
    row[0] = f;
    row[1] = f + 0.5f;
    row[2] = -f;
  }
  return out;
}

Array Labels(int64_t rows = kRows) {
  Array out = Array::Uninitialized(DType::kU8, {rows});
  for (int64_t i = 0; i < rows; ++i) out.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(i);
  return out;
}

std::vector<std::string> Printed(bool labels = false) {
  std::vector<std::string> out;
  const Array values = Values(), classes = Labels();
  for (int64_t i = 0; i < kRows; ++i) {
    NamedArrays row = {{"x", values.Row(i)}};
    if (labels) row.Set("y", classes.Row(i));
    out.push_back(PrintElement(row));
  }
  return out;
}

class FromNpyTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(::testing::TempDir(), "/from_npy_",
                        ::testing::UnitTest::GetInstance()->current_test_info()->name(), "/", name);
  }
  const std::shared_ptr<io::FileSystem> fs_ = io::FileSystem::Default();
};

// Address of the first row in the source, before an iterator copies it for its reader.
const void* FirstRow(const Dataset& dataset) {
  const void* row = nullptr;
  auto iterator = dataset.Take(1)
                      .Map([&row](const NamedArrays& in, NamedArrays* out) {
                        row = in[0].second.raw();
                        *out = in;
                        return absl::OkStatus();
                      })
                      .MakeIterator();
  NamedArrays element;
  EXPECT_TRUE(*(*iterator)->Next(&element));
  return row;
}

TEST_F(FromNpyTest, MemoryMapsLocalArray) {
  PENSTOCK_CHECK_OK(formats::WriteNpy(*fs_, Path("x.npy"), Values()));
  for (NpyAccess access : {NpyAccess::kAuto, NpyAccess::kMap}) {
    const Dataset dataset = Dataset::FromNpy(Path("x.npy"), {.access = access, .memory_bytes = 1});
    EXPECT_EQ(dataset.spec().ToString(), "{x: float32[3]}");
    EXPECT_THAT(*ReadAll(dataset), ElementsAreArray(Printed()));
    // Two iterators return the same address, so the array was not copied.
    EXPECT_EQ(FirstRow(dataset), FirstRow(dataset));
  }
}

TEST_F(FromNpyTest, LoadsOrStreamsTheSame) {
  PENSTOCK_CHECK_OK(formats::WriteNpy(*fs_, Path("x.npy"), Values()));
  for (int64_t block : {1, 50, 1 << 20}) {
    const Dataset dataset = Dataset::FromNpy(Path("x.npy"), {.access = NpyAccess::kStream,
                                                             .memory_bytes = 1,
                                                             .read_ahead_bytes = block,
                                                             .block_bytes = block});
    EXPECT_THAT(*ReadAll(dataset), ElementsAreArray(Printed()));
    EXPECT_EQ(ReadAll(dataset.Repeat(3).Batch(7))->size(), 43);
  }
  EXPECT_THAT(*ReadAll(Dataset::FromNpy(Path("x.npy"), {.access = NpyAccess::kLoad})),
              ElementsAreArray(Printed()));
}

// Members with the same name are ambiguous: the spec of the first would be applied to the bytes of
// the second.
TEST_F(FromNpyTest, RejectsDuplicateArrayNames) {
  const std::string a = *formats::SerializeNpy(Labels()), b = *formats::SerializeNpy(Values());
  for (const std::string& other : {std::string("x.npy"), std::string("x")}) {
    std::string bytes;
    formats::ZipWriter zip([&](absl::string_view piece) {
      absl::StrAppend(&bytes, piece);
      return absl::OkStatus();
    });
    PENSTOCK_CHECK_OK(zip.Add("x.npy", {a}, false));
    PENSTOCK_CHECK_OK(zip.Add(other, {b}, false));
    PENSTOCK_CHECK_OK(zip.Finish());
    PENSTOCK_CHECK_OK(io::WriteFile(*fs_, Path("two.npz"), bytes));
    for (NpyAccess access : {NpyAccess::kAuto, NpyAccess::kLoad, NpyAccess::kStream}) {
      for (const std::vector<std::string>& select : {std::vector<std::string>{}, {"x"}}) {
        const Dataset two = Dataset::FromNpy(Path("two.npz"), {.access = access, .select = select});
        EXPECT_EQ(two.status().code(), absl::StatusCode::kDataLoss) << two.status();
        EXPECT_THAT(std::string(two.status().message()), HasSubstr("'x'"));
      }
    }
  }
}

// A header can declare any number of rows if each row has 0 bytes.
TEST_F(FromNpyTest, RejectsTooManyRows) {
  std::string bytes = *formats::SerializeNpy(Array::Zeros(DType::kU8, {1000000000, 0}));
  const size_t at = bytes.find("1000000000, 0");
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(bytes.substr(at + 13, 1), ")");
  // The header keeps its length: the digits replace padding.
  const std::string huge = "4000000000000000000, 0";
  bytes.replace(at, 13, huge);
  const size_t padding = bytes.find("          ", at);
  ASSERT_NE(padding, std::string::npos);
  bytes.erase(padding, huge.size() - 13);
  PENSTOCK_CHECK_OK(io::WriteFile(*fs_, Path("huge.npy"), bytes));
  const Dataset dataset = Dataset::FromNpy(Path("huge.npy"));
  EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument) << dataset.status();
}

// The length of a stored member's name determines the alignment of its elements.
TEST_F(FromNpyTest, ReadsArchivesOfAnyAlignment) {
  for (int64_t length = 1; length < 9; ++length) {
    const std::string name(static_cast<size_t>(length), 'x');
    PENSTOCK_CHECK_OK(formats::WriteNpz(*fs_, Path("a.npz"), {{name, Values()}, {"y", Labels()}}));
    std::vector<std::string> expected = Printed(true);
    for (std::string& row : expected) row = absl::StrCat(std::string(name.size() - 1, 'x'), row);
    for (NpyAccess access : {NpyAccess::kAuto, NpyAccess::kLoad, NpyAccess::kStream}) {
      EXPECT_THAT(*ReadAll(Dataset::FromNpy(Path("a.npz"), {.access = access})),
                  ElementsAreArray(expected));
    }
    // Single bytes have no alignment, so they can be mapped.
    EXPECT_EQ(ReadAll(Dataset::FromNpy(Path("a.npz"), {.access = NpyAccess::kMap, .select = {"y"}}))
                  ->size(),
              kRows);
  }
}

TEST_F(FromNpyTest, DecompressesArchives) {
  PENSTOCK_CHECK_OK(formats::WriteNpz(*fs_, Path("a.npz"), {{"x", Values()}, {"y", Labels()}},
                                      {.compress = true}));
  EXPECT_THAT(*ReadAll(Dataset::FromNpy(Path("a.npz"))), ElementsAreArray(Printed(true)));
  EXPECT_THAT(*ReadAll(Dataset::FromNpy(Path("a.npz"), {.select = {"x"}})),
              ElementsAreArray(Printed()));
  EXPECT_THAT(
      std::string(Dataset::FromNpy(Path("a.npz"), {.access = NpyAccess::kMap}).status().message()),
      HasSubstr("'x' cannot be mapped: it is compressed"));
  EXPECT_THAT(
      std::string(
          Dataset::FromNpy(Path("a.npz"), {.access = NpyAccess::kStream}).status().message()),
      HasSubstr("'x' cannot be read block by block: it is compressed"));
}

TEST_F(FromNpyTest, RejectsTooLargeArrayBeforeLoading) {
  PENSTOCK_CHECK_OK(formats::WriteNpy(*fs_, Path("x.npy"), Values()));
  PENSTOCK_CHECK_OK(formats::WriteNpz(*fs_, Path("x.npz"), {{"x", Values()}}, {.compress = true}));
  const auto remote = io::MakeMemoryFileSystem();
  PENSTOCK_CHECK_OK(formats::WriteNpy(*remote, "memory://d/x.npy", Values()));
  PENSTOCK_CHECK_OK(formats::WriteNpz(*remote, "memory://d/x.npz", {{"x", Values()}}));
  for (const Dataset& dataset :
       {Dataset::FromNpy(Path("x.npy"), {.access = NpyAccess::kLoad, .memory_bytes = 1199}),
        Dataset::FromNpy(Path("x.npz"), {.memory_bytes = 1199}),
        Dataset::FromNpy("memory://d/x.npy", {.memory_bytes = 1199, .file_system = remote}),
        Dataset::FromNpy("memory://d/x.npz", {.memory_bytes = 1199, .file_system = remote})}) {
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kResourceExhausted);
    const std::string message(dataset.status().message());
    for (const char* part : {"x.np", "KiB of memory, but 1.2 KiB are available", "kStream",
                             "penstock pack", ".Cache(", ".memory_bytes"}) {
      EXPECT_THAT(message, HasSubstr(part));
    }
  }
  EXPECT_TRUE(Dataset::FromNpy(Path("x.npy"), {.access = NpyAccess::kLoad, .memory_bytes = 1200})
                  .status()
                  .ok());
}

TEST_F(FromNpyTest, ReadsFromAnyFileSystem) {
  const auto remote = io::MakeMemoryFileSystem();
  PENSTOCK_CHECK_OK(formats::WriteNpy(*remote, "memory://d/x.npy", Values()));
  PENSTOCK_CHECK_OK(
      formats::WriteNpz(*remote, "memory://d/a.npz", {{"x", Values()}, {"z", Labels(3)}}));
  for (NpyAccess access : {NpyAccess::kAuto, NpyAccess::kLoad, NpyAccess::kStream}) {
    EXPECT_THAT(
        *ReadAll(Dataset::FromNpy("memory://d/x.npy", {.access = access, .file_system = remote})),
        ElementsAreArray(Printed()));
  }
  EXPECT_THAT(
      *ReadAll(Dataset::FromNpy("memory://d/a.npz", {.select = {"x"}, .file_system = remote})),
      ElementsAreArray(Printed()));
  const auto message = [&](const std::string& uri, NpyAccess access) {
    return std::string(
        Dataset::FromNpy(uri, {.access = access, .file_system = remote}).status().message());
  };
  EXPECT_THAT(message("memory://d/x.npy", NpyAccess::kMap), HasSubstr("only a local file"));
  EXPECT_THAT(message("memory://d/a.npz", NpyAccess::kStream), HasSubstr("local disk"));
  EXPECT_THAT(message("memory://d/a.npz", NpyAccess::kAuto), HasSubstr(".select"));
  EXPECT_THAT(message("memory://d/b.npy", NpyAccess::kAuto), HasSubstr("memory://d/b.npy"));
}

TEST_F(FromNpyTest, AStreamedFileThatWasReplacedIsAnError) {
  const auto remote = io::MakeMemoryFileSystem();
  PENSTOCK_CHECK_OK(formats::WriteNpy(*remote, "memory://d/x.npy", Values()));
  const Dataset dataset =
      Dataset::FromNpy("memory://d/x.npy", {.access = NpyAccess::kStream, .file_system = remote});
  PENSTOCK_CHECK_OK(formats::WriteNpy(*remote, "memory://d/x.npy", Values(2 * kRows)));
  EXPECT_THAT(std::string(ReadAll(dataset).status().message()),
              HasSubstr("describe the dataset again"));
}

TEST_F(FromNpyTest, ErrorNamesReasonAgainstMapping) {
  const std::string source = __FILE__;
  const std::string folder = source.substr(0, source.rfind('/')) + "/../../formats/testdata/";
  const auto message = [&](const std::string& name) {
    return std::string(
        Dataset::FromNpy(folder + name, {.access = NpyAccess::kMap}).status().message());
  };
  EXPECT_THAT(message("big_endian.npy"), HasSubstr("big-endian"));
  EXPECT_THAT(message("column_major.npy"), HasSubstr("ascontiguousarray"));
  EXPECT_THAT(message("bytes.npy"), HasSubstr("strings"));
  EXPECT_THAT(message("object.npy"), HasSubstr("pickles"));
  EXPECT_EQ(message("int32.npy"), "");
  // Without kMap they can be loaded.
  EXPECT_EQ(ReadAll(Dataset::FromNpy(folder + "big_endian.npy"))->size(), 2);
  EXPECT_EQ(ReadAll(Dataset::FromNpy(folder + "column_major.npy"))->size(), 2);
  EXPECT_EQ(ReadAll(Dataset::FromNpy(folder + "bool.npy", {.access = NpyAccess::kStream}))->size(),
            2);
}

TEST_F(FromNpyTest, ReadsOnlySelectedArrays) {
  const std::string x = *formats::SerializeNpy(Values());
  std::string archive;
  formats::ZipWriter zip([&](absl::string_view bytes) {
    absl::StrAppend(&archive, bytes);
    return absl::OkStatus();
  });
  PENSTOCK_CHECK_OK(zip.Add("pickled.npy", {"not read"}, false));
  PENSTOCK_CHECK_OK(zip.Add("x.npy", {x}, false));
  PENSTOCK_CHECK_OK(zip.Finish());
  PENSTOCK_CHECK_OK(io::WriteFile(*fs_, Path("a.npz"), archive));
  EXPECT_THAT(*ReadAll(Dataset::FromNpy(Path("a.npz"), {.select = {"x"}})),
              ElementsAreArray(Printed()));
  EXPECT_FALSE(Dataset::FromNpy(Path("a.npz")).status().ok());
}

TEST_F(FromNpyTest, RejectsCorruptOrInvalidFiles) {
  PENSTOCK_CHECK_OK(formats::WriteNpy(*fs_, Path("x.npy"), Values()));
  std::string bytes = *io::ReadFile(*fs_, Path("x.npy"));
  bytes.resize(bytes.size() - 1);
  PENSTOCK_CHECK_OK(io::WriteFile(*fs_, Path("short.npy"), bytes));
  const auto remote = io::MakeMemoryFileSystem();
  PENSTOCK_CHECK_OK(io::WriteFile(*remote, "memory://short.npy", bytes));
  for (NpyAccess access :
       {NpyAccess::kAuto, NpyAccess::kMap, NpyAccess::kLoad, NpyAccess::kStream}) {
    EXPECT_FALSE(Dataset::FromNpy(Path("short.npy"), {.access = access}).status().ok());
    EXPECT_FALSE(Dataset::FromNpy("memory://short.npy", {.access = access, .file_system = remote})
                     .status()
                     .ok());
  }
  PENSTOCK_CHECK_OK(formats::WriteNpz(*fs_, Path("a.npz"), {{"x", Values()}, {"y", Labels(7)}}));
  for (NpyAccess access : {NpyAccess::kAuto, NpyAccess::kStream}) {
    EXPECT_THAT(std::string(Dataset::FromNpy(Path("a.npz"), {.access = access}).status().message()),
                HasSubstr(".select"));
  }
  EXPECT_THAT(std::string(Dataset::FromNpy(Path("a.npz"), {.select = {"w"}}).status().message()),
              HasSubstr("no array 'w'; there are: x, y"));
  EXPECT_THAT(std::string(Dataset::FromNpy(Path("a.txt")).status().message()),
              HasSubstr(".npy or .npz"));
}

TEST_F(FromNpyTest, NamesTheRowOfAnError) {
  PENSTOCK_CHECK_OK(formats::WriteNpy(*fs_, Path("x.npy"), Values()));
  for (NpyAccess access : {NpyAccess::kMap, NpyAccess::kStream}) {
    const Dataset dataset =
        Dataset::FromNpy(Path("x.npy"), {.access = access, .block_bytes = 100})
            .Skip(41)
            .Map([](const NamedArrays&, NamedArrays*) { return absl::DataLossError("bad"); });
    EXPECT_EQ(ReadAll(dataset).status().message(), absl::StrCat(Path("x.npy"), ":41: Map: bad"));
  }
}

TEST_F(FromNpyTest, CanBeDestroyedAnywhere) {
  PENSTOCK_CHECK_OK(formats::WriteNpy(*fs_, Path("x.npy"), Values()));
  const Dataset dataset =
      Dataset::FromNpy(Path("x.npy"),
                       {.access = NpyAccess::kStream, .read_ahead_bytes = 1, .block_bytes = 100})
          .Shuffle(9)
          .Batch(4);
  for (int64_t count = 0; count < 26; ++count) EXPECT_TRUE(ReadSome(dataset, count).ok());
}

}  // namespace from_npy_test
}  // namespace penstock::data
