// Compares transfer learning with Keras: the head is trained on a frozen base, then everything,
// then a part of the base. Weights, moving averages, losses, summaries and numbers of slots are
// equal.
#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/save/save.h"

#include "tests/python.h"

namespace penstock::tests::freezing_test {
namespace {

using base::Array;
using base::NamedArrays;
using Json = nlohmann::ordered_json;

// make_model of keras_freezing.py.
keras::Model MakeModel() {
  const keras::Symbol pixels = keras::Input({.shape = {8, 8, 2}, .name = "pixels"});
  keras::Symbol y = keras::Conv2D({.filters = 4,
                                   .kernel_size = 3,
                                   .padding = "same",
                                   .use_bias = false,
                                   .kernel_regularizer = "l2(0.01)",
                                   .name = "conv1"})(pixels);
  y = keras::BatchNormalization({.momentum = 0.8, .name = "norm1"})(y);
  y = keras::ReLU({.name = "relu1"})(y);
  y = keras::Conv2D(
      {.filters = 6, .kernel_size = 3, .strides = 2, .use_bias = false, .name = "conv2"})(y);
  y = keras::BatchNormalization({.momentum = 0.8, .name = "norm2"})(y);
  y = keras::ReLU({.name = "relu2"})(y);
  y = keras::GlobalAveragePooling2D({.name = "pool"})(y);
  const keras::Layer base = nn::Nested(nn::Network({pixels}, {y}, "base"));
  const keras::Symbol image = keras::Input({.shape = {8, 8, 2}, .name = "image"});
  y = keras::BatchNormalization({.momentum = 0.8, .name = "norm"})(base(image));
  return keras::Model(image, keras::Dense({.units = 3, .name = "head"})(y), "transfer");
}

absl::Status Freeze(const keras::Model& model, absl::string_view stage) {
  if (stage == "all") return model.SetTrainable(true, {"base"});
  PENSTOCK_RETURN_IF_ERROR(model.SetTrainable(false, {"base"}));
  if (stage == "head") return absl::OkStatus();
  return model.SetTrainable(true, {"base/*2"});
}

keras::Optimizer OptimizerOf(absl::string_view name) {
  if (name == "sgd") return keras::SGD({.learning_rate = 0.05, .momentum = 0.9});
  return keras::Adam({.learning_rate = 0.005, .epsilon = 1e-3});
}

// The arrays whose names begin with `prefix`, without it.
NamedArrays Under(const NamedArrays& arrays, const std::string& prefix) {
  NamedArrays under;
  for (const auto& [name, array] : arrays) {
    if (name.rfind(prefix, 0) == 0) under.Set(name.substr(prefix.size()), array);
  }
  return under;
}

void ExpectEqualWeights(const NamedArrays& got, const NamedArrays& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, array] : want) {
    const Array* mine = got.Find(name);
    ASSERT_NE(mine, nullptr) << name;
    ASSERT_EQ(mine->TypeString(), array.TypeString()) << name;
    for (int64_t i = 0; i < array.num_elements(); ++i) {
      const double expected = array.data<float>()[i];
      ASSERT_NEAR(mine->data<float>()[i], expected, 1e-5 * (1 + std::abs(expected)))
          << name << ", element " << i;
    }
  }
}

int64_t CountSlots(const keras::Model& model, const keras::Optimizer& optimizer) {
  int64_t count = 0;
  for (const nn::VariableSpec& variable : model.network().variables()) {
    if (!variable.trainable) continue;
    for (const nn::SlotSpec& slot : optimizer.Slots(variable.name, variable.type)) {
      count += slot.type.shape.num_elements();
    }
  }
  return count;
}

TEST(Freezing, TrainsHeadThenAllThenPartAsKeras) {
  const TemporaryFolder folder;
  const auto fs = io::FileSystem::Default();
  const absl::Status ran = RunPython("interop/keras_freezing.py", {folder.path().string()});
  ASSERT_TRUE(ran.ok()) << ran;
  const auto text = io::ReadFile(*fs, folder / "freezing.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const auto file = save::ReadWeights(*fs, folder / "freezing.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const NamedArrays& tensors = file->arrays;

  keras::Model model = MakeModel();
  std::string last;
  NamedArrays before;
  for (const Json& stage : Json::parse(*text)) {
    const std::string name = stage["optimizer"], what = stage["stage"];
    SCOPED_TRACE(absl::StrCat(name, ", ", what));
    const keras::Optimizer optimizer = OptimizerOf(name);
    ASSERT_TRUE(Freeze(model, what).ok()) << Freeze(model, what);
    const absl::Status compiled =
        model.Compile({.optimizer = optimizer,
                       .loss = keras::SparseCategoricalCrossentropy({.from_logits = true})});
    ASSERT_TRUE(compiled.ok()) << compiled;
    if (name != last) {
      before = Under(tensors, "start/");
      const absl::Status set = model.SetWeights(before);
      ASSERT_TRUE(set.ok()) << set;
    }
    last = name;
    std::string summary = model.Summary({.expand_nested = true, .show_trainable = true});
    std::string expected = stage["summary"];
    absl::StripTrailingAsciiWhitespace(&summary);
    absl::StripTrailingAsciiWhitespace(&expected);
    EXPECT_EQ(summary, expected);
    const int64_t trainable = model.network().CountParameters(/*trainable_only=*/true);
    EXPECT_EQ(trainable, stage["trainable"]);
    EXPECT_EQ(model.network().CountParameters() - trainable, stage["non_trainable"]);
    EXPECT_EQ(CountSlots(model, optimizer), stage["slots"]);

    const auto history = model.Fit(*tensors.Find("x"), *tensors.Find("y"),
                                   {.batch_size = 8, .verbose = 0, .shuffle = false});
    ASSERT_TRUE(history.ok()) << history.status();
    const double loss = stage["loss"];
    EXPECT_NEAR(*history->epochs[0].Find("loss"), loss, 1e-5 * loss);
    const auto after = model.GetWeights();
    ASSERT_TRUE(after.ok()) << after.status();
    ExpectEqualWeights(*after, Under(tensors, absl::StrCat(name, "/", what, "/")));
    // What is frozen has not changed at all, its moving averages included.
    for (const auto& [variable, array] : before) {
      const bool frozen =
          variable.rfind("base/", 0) == 0 &&
          (what == "head" || (what == "end" && variable.rfind("base/conv2", 0) != 0 &&
                              variable.rfind("base/norm2", 0) != 0));
      const auto values = array.values<float>(), now = after->Find(variable)->values<float>();
      EXPECT_EQ(std::equal(values.begin(), values.end(), now.begin()), frozen) << variable;
    }
    before = *after;
  }
}

}  // namespace
}  // namespace penstock::tests::freezing_test
