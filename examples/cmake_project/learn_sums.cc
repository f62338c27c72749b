// Trains a network to add two numbers.
#include <cstdio>

#include "penstock/penstock.h"

using namespace penstock;

absl::Status Run() {
  std::vector<float> pairs, sums;
  for (int i = 0; i < 256; ++i) {
    const int row = i / 16, column = i % 16;
    const float a = static_cast<float>(column) / 16, b = static_cast<float>(row) / 16;
    pairs.insert(pairs.end(), {a, b});
    sums.push_back(a + b);
  }
  const Dataset dataset = Dataset::FromArrays({{"x", Array::Of<float>({256, 2}, pairs)},
                                               {"y", Array::Of<float>({256, 1}, sums)}})
                              .Shuffle(256)
                              .Batch(32);
  keras::Model model =
      keras::Sequential({keras::Input({.shape = {2}}), keras::Dense({.units = 1})});
  PENSTOCK_RETURN_IF_ERROR(model.Compile(
      {.optimizer = keras::Adam({.learning_rate = 0.1}), .loss = keras::MeanSquaredError()}));
  PENSTOCK_ASSIGN_OR_RETURN(const keras::History history, model.Fit(dataset, {.epochs = 20}));
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs logs, model.Evaluate(dataset));
  std::printf("mean squared error: %.6f\n", *logs.Find("loss"));
  return *logs.Find("loss") < 0.001 ? absl::OkStatus()
                                    : absl::InternalError("training did not converge");
}

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
