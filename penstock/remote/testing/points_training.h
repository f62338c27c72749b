// A small training over shards of points, for tests of pipelines that run on the worker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/remote/client/device_client.h"
#include "penstock/runtime/client.h"
#include "penstock/train/callback.h"
#include "penstock/train/trainer.h"

namespace penstock::remote {

// Writes train::testing::Points(rows) as a TFRecord file of Examples. `corrupt`: record 5 is no Example.
void WritePoints(const std::string& uri, int64_t rows, bool corrupt = false);
// The points of the file: columns x (float32 [4]) and y (int64).
data::Dataset ParsedPoints(const std::string& uri);
// ParsedPoints, shuffled, in batches of 8.
data::Dataset PointsBatches(const std::string& uri);

struct PointsTrainerOptions {
  int64_t steps_per_execution = 1;
  int replicas = 1;
};
std::unique_ptr<train::Trainer> MakePointsTrainer(std::shared_ptr<runtime::Client> client,
                                                  const PointsTrainerOptions& options = {});

// Collects the notes of a training.
class Notes : public train::Callback {
 public:
  void Note(absl::string_view text) override { notes.emplace_back(text); }
  std::vector<std::string> notes;
};

// A worker in this process whose session is lost once, as if the worker had been killed.
class SessionLoss {
 public:
  absl::StatusOr<std::shared_ptr<runtime::Client>> Open();
  // Loses the session after the execution that ends at this step, or after a later one. Both refer to this object.
  std::shared_ptr<train::Callback> AfterStep(int64_t step);
  bool happened() const { return happened_; }

 private:
  SessionLinks* links_ = nullptr;  // of the session opened last
  bool happened_ = false;
};

// The weights of two trainers are equal, bit for bit.
void ExpectSameWeights(train::Trainer& a, train::Trainer& b);

}  // namespace penstock::remote
