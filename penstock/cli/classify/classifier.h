// Classifier: class probabilities from one or several trained models, for `evaluate` and `predict`.
//
//   ClassifierFlags flags;   // --model, --tta
//   PENSTOCK_ASSIGN_OR_RETURN(Classifier classifier, flags.Load(device));
//   PENSTOCK_ASSIGN_OR_RETURN(const base::Array probabilities, classifier.Probabilities(batch));
//
// The loss that a model was saved with determines how its output becomes probabilities:
//
//   loss                                  output                       probabilities
//   crossentropy from logits              logits                       softmax
//   crossentropy without from_logits      probabilities                the output
//   binary crossentropy from logits       logits                       sigmoid of each
//   another loss                          decided by the last layer: softmax or sigmoid; otherwise
//                                         the output is not a probability: an error of Load
//
// A binary model with one output unit has two classes, of probabilities 1 - p and p.
//
// Test-time augmentation: the model is applied to several views of each image, in one call on the
// device, and the probabilities are averaged. View "flip" is the image mirrored left to right,
// "shift" the image shifted by a sixteenth of its size to each of the four sides, with the edge
// pixels repeated; with both, ten views as in Krizhevsky et al., ImageNet classification with deep
// convolutional neural networks, 2012. Probabilities of several models are averaged likewise
// (arithmetic mean, equal weights).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/base/thread_pool.h"
#include "penstock/cli/options.h"
#include "penstock/cli/shared_options.h"
#include "penstock/keras/keras.h"

namespace penstock::cli {

// How scores become probabilities.
enum class ScoreKind { kProbabilities, kLogits, kBinaryProbabilities, kBinaryLogits };

// Views of test-time augmentation besides the image itself.
struct TestTimeViews {
  bool flip = false;
  bool shift = false;
  int count() const { return (flip ? 2 : 1) * (shift ? 5 : 1); }
};

class Classifier {
 public:
  // Loads the models. It is an error if their classes differ, or if their outputs are not scores
  // of classes.
  static absl::StatusOr<Classifier> Load(const std::vector<std::string>& models,
                                         const TestTimeViews& views, const DeviceOptions& device);

  // Number of classes, and their names; without names, the vector is empty.
  int64_t classes() const { return classes_; }
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Name of a class, or its number if the models have no class names.
  std::string NameOf(int64_t class_number) const;

  // Distinct shapes of the images that the models take. The images of shape i are in the column
  // ImageColumn(i) of a batch, uint8 [rows, height, width, channels].
  const std::vector<ImageShape>& shapes() const { return shapes_; }

  // Averaged probabilities, float64 [rows, classes]. The first call determines the maximum number
  // of rows; calls with fewer rows use the same compiled programs.
  absl::StatusOr<base::Array> Probabilities(const base::NamedArrays& batch);

 private:
  struct Member {
    std::string uri;
    std::unique_ptr<keras::Model> model;  // its output is [rows, views, scores] with several views
    ScoreKind kind = ScoreKind::kLogits;
    size_t shape = 0;  // index in shapes()
    std::vector<std::string> class_names = {};
    int64_t classes = 0;
  };
  static absl::StatusOr<Member> LoadMember(const std::string& uri, const TestTimeViews& views,
                                           const std::shared_ptr<runtime::Client>& client,
                                           int replicas, std::vector<ImageShape>& shapes);
  absl::Status AddMember(Member member);
  // Adds a member's probabilities to `sum`.
  absl::Status AddProbabilities(const Member& member, const base::Array& images, double* sum);

  std::vector<Member> members_;
  std::vector<ImageShape> shapes_;
  std::vector<std::string> class_names_;
  int64_t classes_ = 0;
  int64_t batch_rows_ = 0;  // rows of the compiled programs; 0 before the first call
  std::unique_ptr<base::ThreadPool> pool_;
};

// Name of the column with the images of Classifier::shapes()[i]: "image", "image_1", ...
std::string ImageColumn(size_t i);

// --model, --tta.
struct ClassifierFlags {
  std::vector<std::string> models, tta;

  void Describe(Options& options);
  absl::StatusOr<TestTimeViews> Views() const;
  absl::StatusOr<Classifier> Load(const DeviceOptions& device) const;
};

// Probabilities of one row of scores; `probabilities` has one element per class. NaN scores give
// NaN probabilities.
void ToProbabilities(ScoreKind kind, absl::Span<const float> scores,
                     absl::Span<double> probabilities);

// Index of the maximum; the first of several. -1 if a number is NaN.
int64_t MostProbableClass(absl::Span<const double> probabilities);

// Error about an image whose probabilities are not finite.
absl::Status NotFiniteError(const std::string& image);

}  // namespace penstock::cli
