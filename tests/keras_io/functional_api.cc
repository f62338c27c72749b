#include "penstock/base/random.h"

#include "programs.h"

namespace penstock::keras_io {

// Ranks issue tickets by priority and routes them to a department.
absl::StatusOr<double> FunctionalApi() {
  constexpr int64_t kTags = 6, kWords = 100, kDepartments = 4, kRows = 96;
  const keras::Symbol title = keras::Input({.shape = {10}, .dtype = DType::kI64, .name = "title"});
  const keras::Symbol body = keras::Input({.shape = {20}, .dtype = DType::kI64, .name = "body"});
  const keras::Symbol tags = keras::Input({.shape = {kTags}, .name = "tags"});

  keras::Symbol title_features =
      keras::Embedding({.input_dim = kWords, .output_dim = 16, .mask_zero = true})(title);
  keras::Symbol body_features =
      keras::Embedding({.input_dim = kWords, .output_dim = 16, .mask_zero = true})(body);
  title_features = keras::LSTM({.units = 16})(title_features);
  body_features = keras::LSTM({.units = 8})(body_features);
  const keras::Symbol x = keras::Concatenate()({title_features, body_features, tags});
  const keras::Symbol priority = keras::Dense({.units = 1, .name = "priority"})(x);
  const keras::Symbol department = keras::Dense({.units = kDepartments, .name = "department"})(x);
  keras::Model model({title, body, tags}, {priority, department});

  PENSTOCK_RETURN_IF_ERROR(
      model.Compile({.optimizer = keras::RMSprop({.learning_rate = 5e-3}),
                     .loss =
                         keras::LossesArg::ByName{
                             {"priority", keras::BinaryCrossentropy({.from_logits = true})},
                             {"department", keras::CategoricalCrossentropy({.from_logits = true})}},
                     .loss_weights = {{"priority", 1.0}, {"department", 0.2}}}));

  base::Random random(1);
  Array title_data = Array::Zeros(DType::kI64, {kRows, 10});
  Array body_data = Array::Zeros(DType::kI64, {kRows, 20});
  Array tags_data = Array::Zeros(DType::kF32, {kRows, kTags});
  Array priority_data = Array::Zeros(DType::kF32, {kRows, 1});
  Array departments = Array::Zeros(DType::kI64, {kRows});
  for (Array* words : {&title_data, &body_data}) {
    for (int64_t i = 0; i < words->num_elements(); ++i) {
      words->mutable_data<int64_t>()[i] = static_cast<int64_t>(random.Below(kWords));
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    const auto tag = static_cast<int64_t>(random.Below(kTags));
    tags_data.mutable_data<float>()[i * kTags + tag] = 1;
    priority_data.mutable_data<float>()[i] = tag < 3 ? 0.0f : 1.0f;
    departments.mutable_data<int64_t>()[i] = tag % kDepartments;
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Array department_data,
                            keras::ToCategorical(departments, kDepartments));
  PENSTOCK_ASSIGN_OR_RETURN(
      const keras::History history,
      model.Fit(NamedArrays{{"title", title_data}, {"body", body_data}, {"tags", tags_data}},
                NamedArrays{{"priority", priority_data}, {"department", department_data}},
                {.epochs = 20, .verbose = 0}));
  return history["loss"].back() / history["loss"].front();
}

}  // namespace penstock::keras_io
