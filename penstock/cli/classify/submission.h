// Submission: the CSV file of `penstock predict --csv`, a row for each image, as Kaggle's
// competitions take it:
//
//   id,label                    id,cat,dog
//   0001,cat                    0001,0.9731,0.0269
//
// Fields are quoted by RFC 4180. The file is written in batches and published when it is complete.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"
#include "penstock/cli/classify/classifier.h"
#include "penstock/cli/classify/image_stream.h"
#include "penstock/cli/options.h"
#include "penstock/io/file_system.h"

namespace penstock::cli {

// --csv, --csv-values, --csv-id, --csv-header.
struct SubmissionFlags {
  std::string file;
  std::string values = "label";  // label, class, probabilities
  std::string id = "name";       // name, file, path
  std::vector<std::string> header = {"id", "label"};

  void Describe(Options& options);
  // Checks the options, and that the file can be written.
  absl::Status Check() const;
};

class Submission {
 public:
  // Begins the file with its header row. `classifier` must outlive the submission.
  static absl::StatusOr<std::unique_ptr<Submission>> Create(const SubmissionFlags& flags,
                                                            const Classifier& classifier);
  // Adds a row for each image. It is an error if two images have the same id, or if probabilities
  // are not finite.
  absl::Status Add(const ImageBatch& batch, const base::Array& probabilities);
  absl::Status Close() { return out_->Close(); }
  int64_t rows() const { return static_cast<int64_t>(ids_.size()); }

 private:
  Submission(const SubmissionFlags& flags, const Classifier& classifier)
      : flags_(flags), classifier_(classifier) {}
  std::string IdOf(const ImageBatch& batch, size_t i) const;

  const SubmissionFlags flags_;
  const Classifier& classifier_;
  std::unique_ptr<io::OutputStream> out_;
  absl::flat_hash_set<std::string> ids_;
};

}  // namespace penstock::cli
