#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"
#include "penstock/io/file_system.h"

#include "programs.h"

namespace penstock::keras_io {
namespace {

// Patients: age, cholesterol, type of thalassemia, and whether they are ill.
absl::Status WritePatients(const std::string& file) {
  const char* const kinds[] = {"normal", "fixed", "reversible"};
  base::Random random(1);
  std::string text = "age,chol,thal,target\n";
  for (int i = 0; i < 300; ++i) {
    const auto age = 30 + random.Below(45), chol = 150 + random.Below(150), kind = random.Below(3);
    const bool ill = age + (kind == 2 ? 30 : 0) + chol / 10 > 85;
    absl::StrAppend(&text, age, ",", chol, ",", kinds[kind], ",", ill ? 1 : 0, "\n");
  }
  return io::WriteFile(*io::FileSystem::Default(), file, text);
}

}  // namespace

absl::StatusOr<double> StructuredData(const std::string& file) {
  PENSTOCK_RETURN_IF_ERROR(WritePatients(file));
  const Dataset table =
      Dataset::FromCsv({file})
          .Map<int64_t>("age", [](int64_t age) { return static_cast<float>(age); })
          .Map<int64_t>("chol", [](int64_t chol) { return static_cast<float>(chol); });
  keras::StringLookup kinds({.num_oov_indices = 0});
  PENSTOCK_RETURN_IF_ERROR(kinds.Adapt(table, "thal"));
  PENSTOCK_ASSIGN_OR_RETURN(const Dataset rows, kinds.Map(table, "thal"));
  const Dataset train = rows.Take(240).Shuffle(240).Batch(32),
                validation = rows.Skip(240).Batch(32);

  // One number per row, [batch]; Keras expands it to [batch, 1] implicitly.
  const keras::Symbol age = keras::Input({.shape = {}, .name = "age"});
  const keras::Symbol chol = keras::Input({.shape = {}, .name = "chol"});
  const keras::Symbol thal = keras::Input({.shape = {}, .dtype = DType::kI64, .name = "thal"});
  const keras::Layer column = keras::Reshape({.target_shape = {1}});
  // Adapts to the statistics of the training rows.
  const keras::Layer normalize_age = keras::Normalization({.axis = {}});
  const keras::Layer normalize_chol = keras::Normalization({.axis = {}});
  PENSTOCK_RETURN_IF_ERROR(keras::Adapt(normalize_age, train, "age"));
  PENSTOCK_RETURN_IF_ERROR(keras::Adapt(normalize_chol, train, "chol"));
  keras::Symbol x =
      keras::Concatenate()({column(normalize_age(age)), column(normalize_chol(chol)),
                            keras::CategoryEncoding({.num_tokens = kinds.vocabulary_size(),
                                                     .output_mode = "one_hot"})(thal)});
  x = keras::Dense({.units = 16, .activation = "relu"})(x);
  x = keras::Dropout({.rate = 0.1})(x);
  keras::Model model({age, chol, thal}, keras::Dense({.units = 1, .activation = "sigmoid"})(x));
  PENSTOCK_RETURN_IF_ERROR(model.Compile({.optimizer = keras::Adam({.learning_rate = 0.02}),
                                          .loss = "binary_crossentropy",
                                          .metrics = {"accuracy"},
                                          .columns = {.labels = {"target"}}}));
  PENSTOCK_ASSIGN_OR_RETURN(
      const keras::History history,
      model.Fit(train, {.epochs = 20, .verbose = 0, .validation_data = validation}));
  return history["val_accuracy"].back();
}

}  // namespace penstock::keras_io
