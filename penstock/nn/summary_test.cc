// Summaries equal Keras 3.15's character by character (model.summary() on a wide terminal).
#include "gtest/gtest.h"

#include "penstock/nn/layers.h"
#include "penstock/nn/network.h"

namespace penstock::nn {
namespace summary_test {

TEST(Summary, WrapsLongNamesOfASequentialModel) {
  const Symbol x = Input({.shape = {28, 28, 1}});
  Symbol y = Conv2D({.filters = 8,
                     .kernel_size = 3,
                     .name = "a_very_long_name_of_a_layer_that_will_not_fit_in"})(x);
  y = Dense({.units = 10})(Flatten()(y));
  EXPECT_EQ(Network({x}, {y}, "sequential").AsSequential().Summary(), R"(Model: "sequential"
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━┓
┃ Layer (type)                         ┃ Output Shape                ┃         Param # ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━┩
│ a_very_long_name_of_a_layer_that_wi… │ (None, 26, 26, 8)           │              80 │
│ (Conv2D)                             │                             │                 │
├──────────────────────────────────────┼─────────────────────────────┼─────────────────┤
│ flatten (Flatten)                    │ (None, 5408)                │               0 │
├──────────────────────────────────────┼─────────────────────────────┼─────────────────┤
│ dense (Dense)                        │ (None, 10)                  │          54,090 │
└──────────────────────────────────────┴─────────────────────────────┴─────────────────┘
 Total params: 54,170 (211.60 KB)
 Trainable params: 54,170 (211.60 KB)
 Non-trainable params: 0 (0.00 B)
)");
}

// A nested network with shared layers, used by three inputs of one layer.
Network WithANetworkInside() {
  const Symbol x = Input({.shape = {4}, .name = "input_layer_1"});
  const Layer dense = Dense({.units = 4, .name = "dense_1"});
  const Network inner({x}, {Add({.name = "add"})({dense(dense(x)), x})}, "functional_1");
  const Symbol q = Input({.shape = {4}, .name = "input_layer_2"});
  const Symbol o = Nested(inner)(q);
  return Network({q}, {Add({.name = "sum"})({o, q, o})}, "functional_2");
}

TEST(Summary, ShowsConnections) {
  EXPECT_EQ(WithANetworkInside().Summary(), R"(Model: "functional_2"
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━┓
┃ Layer (type)                  ┃ Output Shape              ┃         Param # ┃ Connected to               ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━┩
│ input_layer_2 (InputLayer)    │ (None, 4)                 │               0 │ -                          │
├───────────────────────────────┼───────────────────────────┼─────────────────┼────────────────────────────┤
│ functional_1 (Functional)     │ (None, 4)                 │              20 │ input_layer_2[0][0]        │
├───────────────────────────────┼───────────────────────────┼─────────────────┼────────────────────────────┤
│ sum (Add)                     │ (None, 4)                 │               0 │ functional_1[0][0],        │
│                               │                           │                 │ input_layer_2[0][0],       │
│                               │                           │                 │ functional_1[0][0]         │
└───────────────────────────────┴───────────────────────────┴─────────────────┴────────────────────────────┘
 Total params: 20 (80.00 B)
 Trainable params: 20 (80.00 B)
 Non-trainable params: 0 (0.00 B)
)");
}

TEST(Summary, ShowsNestedNetworksAndTrainability) {
  EXPECT_EQ(WithANetworkInside().Summary(
                {.line_length = 90, .expand_nested = true, .show_trainable = true}),
            R"(Model: "functional_2"
┏━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━┓
┃ Layer (type)          ┃ Output Shape       ┃     Param # ┃ Connected to       ┃ Train… ┃
┡━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━┩
│ input_layer_2         │ (None, 4)          │           0 │ -                  │   -    │
│ (InputLayer)          │                    │             │                    │        │
├───────────────────────┼────────────────────┼─────────────┼────────────────────┼────────┤
│ functional_1          │ (None, 4)          │          20 │ input_layer_2[0][… │   Y    │
│ (Functional)          │                    │             │                    │        │
├───────────────────────┼────────────────────┼─────────────┼────────────────────┼────────┤
│    └ input_layer_1    │ (None, 4)          │           0 │ -                  │   -    │
│ (InputLayer)          │                    │             │                    │        │
├───────────────────────┼────────────────────┼─────────────┼────────────────────┼────────┤
│    └ dense_1 (Dense)  │ (None, 4)          │          20 │ -                  │   Y    │
├───────────────────────┼────────────────────┼─────────────┼────────────────────┼────────┤
│    └ add (Add)        │ (None, 4)          │           0 │ -                  │   -    │
├───────────────────────┼────────────────────┼─────────────┼────────────────────┼────────┤
│ sum (Add)             │ (None, 4)          │           0 │ functional_1[0][0… │   -    │
│                       │                    │             │ input_layer_2[0][… │        │
│                       │                    │             │ functional_1[0][0] │        │
└───────────────────────┴────────────────────┴─────────────┴────────────────────┴────────┘
 Total params: 20 (80.00 B)
 Trainable params: 20 (80.00 B)
 Non-trainable params: 0 (0.00 B)
)");
}

TEST(Summary, CountsOptimizerSlots) {
  const std::string text =
      WithANetworkInside().Summary({.optimizer_parameters = 42, .optimizer_bytes = 168});
  EXPECT_NE(text.find(" Total params: 62 (248.00 B)\n"), std::string::npos);
  EXPECT_NE(text.find(" Optimizer params: 42 (168.00 B)\n"), std::string::npos);
}

TEST(Summary, FitsAnyLineLength) {
  for (int length = 1; length <= 60; ++length) {
    for (const bool trainable : {false, true}) {
      const std::string text =
          WithANetworkInside().Summary({.line_length = length, .show_trainable = trainable});
      EXPECT_NE(text.find(" Total params: "), std::string::npos) << length;
    }
  }
}

}  // namespace summary_test
}  // namespace penstock::nn
