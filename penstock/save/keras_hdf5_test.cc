#include "penstock/save/keras_hdf5.h"

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/hdf5/hdf5_superblock.h"
#include "penstock/save/save.h"
#include "penstock/save/testing/faulty_file_system.h"
#include "penstock/save/testing/read_bytes.h"

namespace penstock::save {
namespace keras_hdf5_test {

using base::Array;
using base::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kUri[] = "memory://bucket/net.h5";

// Files of testdata/make_keras_hdf5.py.
std::string File(absl::string_view name) {
  return absl::StrCat(PENSTOCK_SOURCE_DIR, "/penstock/save/testdata/keras_hdf5/", name);
}
std::string Bytes(absl::string_view name) {
  return *io::ReadFile(*io::FileSystem::Default(), File(name));
}

// Array k of a file has the values 100 k, 100 k + 1, ...
Array Values(DType dtype, const base::Shape& shape, int k) {
  Array array = Array::Uninitialized(DType::kF64, shape);
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    array.mutable_data<double>()[i] = static_cast<double>(100 * k + i);
  }
  return *array.Cast(dtype);
}

Weights Read(absl::string_view name) {
  const absl::StatusOr<Weights> weights = ReadWeights(*io::FileSystem::Default(), File(name));
  EXPECT_TRUE(weights.ok()) << weights.status();
  return weights.value_or(Weights());
}

std::vector<std::string> NamesOf(const Weights& weights) {
  std::vector<std::string> names;
  for (const auto& [name, array] : weights.arrays) names.push_back(name);
  return names;
}

void ExpectArray(const Weights& weights, absl::string_view name, const Array& want) {
  const Array* found = weights.arrays.Find(name);
  ASSERT_NE(found, nullptr) << name;
  EXPECT_TRUE(BitwiseEqual(*found, want)) << name << ": " << found->ToString();
}

TEST(KerasHdf5, ReadsFileOfKeras1) {
  const Weights weights = Read("keras1.h5");
  EXPECT_THAT(NamesOf(weights), ElementsAre("convolution2d_1/convolution2d_1_W",
                                            "convolution2d_1/convolution2d_1_b"));
  ExpectArray(weights, "convolution2d_1/convolution2d_1_W", Values(DType::kF32, {3, 3, 1, 2}, 0));
  ExpectArray(weights, "convolution2d_1/convolution2d_1_b", Values(DType::kF32, {2}, 1));
}

TEST(KerasHdf5, ReadsModelOfKeras2InTheOrderOfItsLayers) {
  const Weights weights = Read("keras2.h5");
  EXPECT_THAT(NamesOf(weights),
              ElementsAre("inner/conv/kernel", "inner/conv/bias", "norm/gamma", "norm/count",
                          "dense/kernel", "optimizer_weights/Adam/iter",
                          "optimizer_weights/Adam/dense/kernel/m"));
  ExpectArray(weights, "inner/conv/kernel", Values(DType::kF32, {1, 1, 2, 2}, 0));  // big-endian
  ExpectArray(weights, "inner/conv/bias", Values(DType::kF16, {2}, 1));
  ExpectArray(weights, "norm/gamma", Values(DType::kF64, {3}, 2));
  ExpectArray(weights, "norm/count", Values(DType::kI64, {}, 3));
  ExpectArray(weights, "dense/kernel", Values(DType::kF32, {40, 50}, 4));  // compressed
  EXPECT_EQ(weights.metadata.at("keras_version"), "2.15.0");
  EXPECT_EQ(weights.metadata.at("backend"), "tensorflow");
  EXPECT_THAT(weights.metadata.at("model_config"), HasSubstr("Sequential"));
}

TEST(KerasHdf5, ReadsKeras3ByPathAlsoInAnArchive) {
  for (const char* name : {"keras3.weights.h5", "keras3.keras"}) {
    const Weights weights = Read(name);
    ExpectArray(weights, "layers/conv2d/vars/0", Values(DType::kF32, {1, 1, 1, 2}, 0));
    ExpectArray(weights, "layers/conv2d/vars/1", Values(DType::kF32, {2}, 1));
    const Array* half = weights.arrays.Find("layers/dense/vars/0");
    ASSERT_NE(half, nullptr);
    EXPECT_EQ(half->TypeString(), "bfloat16[3]");
    const uint16_t bits[] = {200, 201, 202};
    EXPECT_EQ(std::memcmp(half->raw(), bits, sizeof(bits)), 0);
    ExpectArray(weights, "layers/dense/vars/1", Array::Of<bool>({2}, {true, false}));
    ExpectArray(weights, "optimizer/vars/0", Values(DType::kI64, {}, 3));
    EXPECT_THAT(weights.skipped, ElementsAre("tensor 'layers/dense/vars/2': strings"));
    EXPECT_EQ(weights.variables.at("layers/conv2d/vars/1"), "block1_conv1/1");
  }
  EXPECT_THAT(Read("keras3.keras").metadata.at("config.json"), HasSubstr("Functional"));
}

TEST(KerasHdf5, InspectGivesPlacesOfPlainArrays) {
  for (const char* name : {"keras1.h5", "keras3.keras"}) {
    const std::string bytes = Bytes(name);
    const Contents contents = *Inspect(*io::FileSystem::Default(), File(name));
    const Weights weights = Read(name);
    EXPECT_EQ(contents.tensors.size(), weights.arrays.size());
    for (const TensorInfo& tensor : contents.tensors) {
      const Array& array = *weights.arrays.Find(tensor.name);
      if (tensor.offset == 0) continue;
      EXPECT_EQ(
          bytes.substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.num_bytes)),
          absl::string_view(static_cast<const char*>(array.raw()),
                            static_cast<size_t>(array.num_bytes())))
          << tensor.name;
    }
  }
}

TEST(KerasHdf5, EveryFailedReadIsReported) {
  for (const char* name : {"keras2.h5", "keras3.keras"}) {
    const auto inner = io::MakeMemoryFileSystem();
    ASSERT_TRUE(io::WriteFile(*inner, kUri, Bytes(name)).ok());
    bool failed = true;
    for (int64_t at = 0; failed; ++at) {
      failed = false;
      FaultyFileSystem fs(
          inner,
          [&](int64_t call) {
            if (call != at) return absl::OkStatus();
            failed = true;
            return absl::UnavailableError("the store is unavailable");
          },
          FaultyFileSystem::Counts::kEveryCall);
      const absl::StatusOr<Weights> got = ReadWeights(fs, kUri);
      EXPECT_EQ(got.ok(), !failed) << got.status();
      if (failed) {
        EXPECT_TRUE(absl::IsUnavailable(got.status())) << got.status();
      }
    }
  }
}

TEST(KerasHdf5, RejectsHostileSuperblocks) {
  const std::string good = Bytes("keras1.h5");
  const struct {
    const char* what;
    size_t offset;
    std::string bytes;
    const char* message;
  } kCases[] = {
      {"version", 8, "\4", "version 4"},
      {"addresses", 13, "\4", "addresses of 4"},
      {"group nodes", 16, std::string("\0\0", 2), "without entries"},
      {"user block", 24, "\1", "user block"},
      {"end", 40, "\xff\xff\xff", "is truncated"},
      {"small end", 40, std::string("\1\0\0", 3), "root group"},
      {"several files", 48, std::string("\0", 1), "several files"},
      {"root", 64, "\xff\xff\xff\xff", "root group"},
  };
  for (const auto& c : kCases) {
    std::string bytes = good;
    bytes.replace(c.offset, c.bytes.size(), c.bytes);
    const absl::Status status = ReadBytes(kUri, bytes).status();
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsUnimplemented(status)) << c.what << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kUri)) << c.what;
  }
  for (size_t size = 8; size < good.size(); size += 97) {
    EXPECT_TRUE(absl::IsDataLoss(ReadBytes(kUri, good.substr(0, size)).status())) << size;
  }
}

// Files that neither Keras nor Penstock writes: links, elements elsewhere, cycles, sizes.
TEST(KerasHdf5, RejectsHostileFiles) {
  const std::string folder =
      absl::StrCat(PENSTOCK_SOURCE_DIR, "/penstock/save/testdata/keras_hdf5_hostile/");
  const struct {
    const char *name, *message;
  } kCases[] = {
      {"cycle", "is in two groups"},
      {"named_type", "named type"},
      {"shape_bomb", "were never written"},
      {"soft_legacy", "soft or external link"},
      {"shared_elements", "share their bytes"},
      {"external_elements", "elements in another file"},
      {"lzf", "HDF5's filter 32000"},
      {"rank", "rank 9"},
      {"compound", "type class 6"},
      {"unwritten", "never written"},
      {"user_block", "is not a weights file"},
      {"latest", "libver='latest'"},
  };
  for (const auto& c : kCases) {
    const std::string uri = absl::StrCat(folder, c.name, ".h5");
    for (const absl::Status& status : {ReadWeights(*io::FileSystem::Default(), uri).status(),
                                       Inspect(*io::FileSystem::Default(), uri).status()}) {
      EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsUnimplemented(status)) << c.name << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.name;
      EXPECT_THAT(std::string(status.message()), HasSubstr(uri));
    }
  }
  for (const char* name : {"soft_link", "external_link"}) {
    const Weights weights =
        *ReadWeights(*io::FileSystem::Default(), absl::StrCat(folder, name, ".h5"));
    EXPECT_TRUE(weights.arrays.empty());
    EXPECT_THAT(weights.skipped, ElementsAre(HasSubstr("'/layers/dense/vars/0': a link")));
  }
}

// One damaged byte, at each place: an error, or weights; never a crash, or memory beyond the
// limits.
TEST(KerasHdf5, SurvivesDamagedBytes) {
  for (const char* name : {"keras1.h5", "keras3.weights.h5"}) {
    const std::string good = Bytes(name);
    for (size_t at = 0; at < good.size(); at += 3) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] == '\xff' ? 0 : 0xff);
      const absl::Status status = ReadBytes(kUri, bytes).status();
      EXPECT_TRUE(status.ok() || absl::IsDataLoss(status) || absl::IsUnimplemented(status))
          << at << " " << status;
    }
  }
}

TEST(KerasHdf5, ReadsTheLayersOfALegacyFile) {
  EXPECT_EQ(Read("keras1.h5").metadata.at("layer_names"), R"(["input_1","convolution2d_1"])");
  EXPECT_EQ(Read("keras2.h5").metadata.at("layer_names"), R"(["inner","norm","dense"])");
}

constexpr char kNewWeights[] = "memory://bucket/new.weights.h5";
constexpr char kArchive[] = "memory://bucket/new.keras";

// Each type that h5py has, in four shapes. `separator` makes names of the format.
Weights EveryType(absl::string_view before, absl::string_view after) {
  Weights weights;
  for (const DType dtype :
       {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
        DType::kU32, DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    int number = 0;
    for (const base::Shape& shape :
         {base::Shape{2, 3}, base::Shape{}, base::Shape{0, 4}, base::Shape{40, 1, 5, 1}}) {
      Array array = Array::Uninitialized(dtype, shape);
      auto* bytes = static_cast<uint8_t*>(array.mutable_raw());
      for (int64_t i = 0; i < array.num_bytes(); ++i) {
        bytes[i] = static_cast<uint8_t>(dtype == DType::kBool ? i % 2 : 37 * i + 11 * number);
      }
      weights.arrays.Append(absl::StrCat(before, base::DTypeName(dtype), after, number++), array);
    }
  }
  return weights;
}

void ExpectEqualArrays(const Weights& got, const Weights& want) {
  EXPECT_EQ(got.arrays.size(), want.arrays.size());
  for (const auto& [name, array] : want.arrays) ExpectArray(got, name, array);
}

TEST(KerasHdf5, RoundTripOfEveryTypeInEachFormat) {
  const auto fs = io::MakeMemoryFileSystem();
  const Weights legacy = EveryType("", "/w");
  ASSERT_EQ(WriteWeights(*fs, kUri, legacy), absl::OkStatus());
  const Weights again = *ReadWeights(*fs, kUri);
  ExpectEqualArrays(again, legacy);
  EXPECT_EQ(NamesOf(again), NamesOf(legacy));  // in this order

  Weights keras3 = EveryType("layers/", "/vars/");
  keras3.variables["layers/float32/vars/0"] = "conv/0";
  ASSERT_EQ(WriteWeights(*fs, kNewWeights, keras3), absl::OkStatus());
  ExpectEqualArrays(*ReadWeights(*fs, kNewWeights), keras3);
  // The name is that of the group, so the other arrays of the group have it, too.
  EXPECT_EQ(ReadWeights(*fs, kNewWeights)->variables.at("layers/float32/vars/3"), "conv/3");
  EXPECT_EQ(ReadWeights(*fs, kNewWeights)->variables.size(), 4u);

  keras3.metadata = {{"config.json", "{\"a\": 1}"}, {"metadata.json", "{}"}};
  ASSERT_EQ(WriteWeights(*fs, kArchive, keras3), absl::OkStatus());
  const Weights model = *ReadWeights(*fs, kArchive);
  ExpectEqualArrays(model, keras3);
  EXPECT_EQ(model.metadata, keras3.metadata);
  EXPECT_EQ(Inspect(*fs, kArchive)->format, "Keras archive");
}

TEST(KerasHdf5, RoundTripOfKerasFiles) {
  const auto fs = io::MakeMemoryFileSystem();
  for (const char* name : {"keras1.h5", "keras2.h5", "keras3.weights.h5", "keras3.keras"}) {
    const Weights weights = Read(name);
    const std::string uri = absl::StrCat("memory://bucket/", name);
    ASSERT_EQ(WriteWeights(*fs, uri, weights), absl::OkStatus()) << name;
    const Weights again = *ReadWeights(*fs, uri);
    ExpectEqualArrays(again, weights);
    EXPECT_EQ(NamesOf(again), NamesOf(weights)) << name;
    EXPECT_EQ(again.variables, weights.variables) << name;
    for (const auto& [key, value] : weights.metadata) EXPECT_EQ(again.metadata.at(key), value);
    // The bytes depend on the weights alone.
    const std::string bytes = *io::ReadFile(*fs, uri);
    ASSERT_EQ(WriteWeights(*fs, uri, again), absl::OkStatus()) << name;
    EXPECT_TRUE(*io::ReadFile(*fs, uri) == bytes) << name;
  }
}

// Layers whose names contain "/", those without weights, and names that end like TensorFlow's.
TEST(KerasHdf5, LegacyLayersKeepTheirOrderAndWeights) {
  const auto fs = io::MakeMemoryFileSystem();
  const Array one = Values(DType::kF32, {1}, 1);
  const Weights weights = {.arrays = {{"z/conv/kernel", one},
                                      {"z/conv/kernel:0", one},
                                      {"z/bias", one},
                                      {"a/b", one},
                                      {"top_level_model_weights/scale", one},
                                      {"optimizer_weights/adam/iteration", one}},
                           .metadata = {{"layer_names", R"(["input","z","z/conv"])"}}};
  ASSERT_EQ(WriteWeights(*fs, kUri, weights), absl::OkStatus());
  const Weights again = *ReadWeights(*fs, kUri);
  EXPECT_THAT(NamesOf(again),
              ElementsAre("z/bias", "z/conv/kernel", "z/conv/kernel:0", "a/b",
                          "top_level_model_weights/scale", "optimizer_weights/adam/iteration"));
  EXPECT_EQ(again.metadata.at("layer_names"), R"(["input","z","z/conv","a"])");
  EXPECT_NE(again.metadata.at("keras_version"), "1");  // whose kernels Keras would transpose
}

// More than 64512 bytes of names: Keras divides the attribute.
TEST(KerasHdf5, ManyLayers) {
  const auto fs = io::MakeMemoryFileSystem();
  Weights weights;
  for (int i = 0; i < 3000; ++i) {
    weights.arrays.Append(absl::StrCat("a_layer_with_a_long_name_", i, "/kernel"),
                          Values(DType::kF32, {1}, i));
  }
  ASSERT_EQ(WriteWeights(*fs, kUri, weights), absl::OkStatus());
  const Weights again = *ReadWeights(*fs, kUri);
  EXPECT_EQ(NamesOf(again), NamesOf(weights));
  ExpectEqualArrays(again, weights);
}

TEST(KerasHdf5, RejectsWhatTheFilesCannotHold) {
  const auto fs = io::MakeMemoryFileSystem();
  const Array one = Values(DType::kF32, {1}, 1);
  const std::string v = "layers/dense/vars/0";
  const struct {
    const char* uri;
    Weights weights;
    const char* message;
  } kCases[] = {
      {kUri, {.arrays = {{"kernel", one}}}, "LAYER/WEIGHT"},
      {kUri, {.arrays = {{"dense/", one}}}, "LAYER/WEIGHT"},
      {kUri, {.arrays = {{v, one}}}, "path of Keras 3"},
      {kUri, {.arrays = {{"a/b", one}, {"a/b", one}}}, "twice"},
      {kUri, {.arrays = {{"a/b", one}, {"a/b/c", one}}}, "inside '/a/a/b', which is an array"},
      {kUri, {.arrays = {{"a/b/c", one}, {"a/b", one}}}, "used twice"},
      {kUri, {.arrays = {{"a//c", one}}}, "cannot store"},
      {kUri, {.arrays = {{"a/./c", one}}}, "cannot store"},
      {kUri, {.arrays = {{std::string("a/\0c", 4), one}}}, "cannot store"},
      {kUri, {.arrays = {{"a/\xff", one}}}, "not UTF-8"},
      {kUri, {.arrays = {{"a/b", Array::Zeros(DType::kC64, {1})}}}, "no type complex64"},
      {kUri, {.arrays = {{"a/b", Array::Strings({1}, {"x"})}}}, "no type string"},
      {kUri, {.arrays = {}, .metadata = {{"layer_names", "[1]"}}}, "JSON list"},
      {kUri, {.arrays = {}, .metadata = {{"layer_names", "[\"a\",\"a\"]"}}}, "JSON list"},
      {kUri, {.arrays = {}, .metadata = {{"epoch", "3"}}}, "'epoch'"},
      {kUri, {.arrays = {}, .metadata = {{"", "3"}}}, "metadata ''"},
      {kUri,
       {.arrays = {}, .metadata = {{"model_config", std::string("a\0b", 3)}}},
       "contains a NUL byte"},
      {kUri,
       {.arrays = {{absl::StrCat("a/", std::string(70000, 'b')), one}}},
       "the maximum is 64512"},
      {kNewWeights, {.arrays = {{"conv/kernel", one}}}, "layers/dense/vars/0"},
      {kNewWeights, {.arrays = {{v, one}}, .metadata = {{"config.json", "{}"}}}, "'config.json'"},
      {kArchive, {.arrays = {{v, one}}}, "description"},
      {kArchive, {.arrays = {{v, one}}, .metadata = {{"config.json", "{}"}}}, "description"},
  };
  for (const auto& c : kCases) {
    const absl::Status status = WriteWeights(*fs, c.uri, c.weights);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.message << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.uri));
    EXPECT_FALSE(*fs->Exists(c.uri)) << c.message;
  }
}

TEST(KerasHdf5, TheLongestExtensionSelectsTheFormat) {
  EXPECT_TRUE(*HoldsMetadata("a.h5", "model_config"));
  EXPECT_FALSE(*HoldsMetadata("a.weights.h5", "model_config"));
  EXPECT_TRUE(*HoldsMetadata("a.keras", "config.json"));
  EXPECT_FALSE(*HoldsMetadata("a.keras", "penstock_model"));
  EXPECT_TRUE(*HoldsMetadata("a.keras"));
  EXPECT_TRUE(*HoldsMetadata("a.safetensors", "penstock_model"));
  const auto fs = io::MakeMemoryFileSystem();
  EXPECT_FALSE(CheckWeightsDestination(*fs, kNewWeights, /*with_metadata=*/true).ok());
  EXPECT_EQ(CheckWeightsDestination(*fs, kArchive, /*with_metadata=*/true), absl::OkStatus());
  EXPECT_EQ(CheckWeightsDestination(*fs, kArchive), absl::OkStatus());
}

// The HDF5 library has one state for the process.
TEST(KerasHdf5, ThreadsWriteAtOnce) {
  const Weights weights = EveryType("", "/w");
  std::vector<std::thread> threads;
  std::vector<absl::Status> results(4);
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto fs = io::MakeMemoryFileSystem();
      for (int i = 0; i < 5 && results[t].ok(); ++i) {
        results[t] = WriteWeights(*fs, kUri, weights);
        if (results[t].ok()) results[t] = ReadWeights(*fs, kUri).status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : results) EXPECT_EQ(status, absl::OkStatus());
}

// A file that cannot be written leaves the one of that name as it is.
TEST(KerasHdf5, IsPublishedWholeOrNotAtAll) {
  for (const char* name : {"keras2.h5", "keras3.weights.h5", "keras3.keras"}) {
    const std::string uri = absl::StrCat("memory://bucket/", name);
    const auto inner = io::MakeMemoryFileSystem();
    const Weights weights = Read(name);
    ASSERT_TRUE(io::WriteFile(*inner, uri, "old").ok());
    bool failed = true;
    for (int64_t at = 0; failed; ++at) {
      failed = false;
      FaultyFileSystem fs(inner, [&](int64_t call) {
        if (call != at) return absl::OkStatus();
        failed = true;
        return absl::UnavailableError("the store is unavailable");
      });
      const bool ok = WriteWeights(fs, uri, weights).ok();
      EXPECT_EQ(ok, !failed);
      if (*io::ReadFile(*inner, uri) == "old") continue;
      ExpectEqualArrays(*ReadWeights(*inner, uri), weights);  // failed after it was published
    }
    ExpectEqualArrays(*ReadWeights(*inner, uri), weights);
  }
}

}  // namespace keras_hdf5_test
}  // namespace penstock::save
