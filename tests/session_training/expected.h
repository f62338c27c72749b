// What TensorFlow 1's training API computes (expect.py), and comparisons with it.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

#include "penstock/base/array.h"
#include "penstock/session/session.h"

#include "tests/python.h"

namespace penstock::tests {

using base::Array;
using base::DType;
using nlohmann::json;
namespace tf = session;

// The results of one run of TensorFlow, for all tests of the program. Before it, a checkpoint and
// an event file are written, which TensorFlow reads.
class Expected {
 public:
  // The only one; the first call runs TensorFlow.
  static const Expected& Get();

  const absl::Status& status() const { return status_; }
  const json& rows() const { return rows_; }
  Array array(const std::string& key) const;
  bool Has(const std::string& key) const { return arrays_.Find(key) != nullptr; }
  std::string folder() const { return folder_.path().string(); }

 private:
  Expected();
  absl::Status Run();

  TemporaryFolder folder_;
  absl::Status status_;
  json rows_;
  base::NamedArrays arrays_;
};

// Writes FOLDER/ours/model.ckpt-7, FOLDER/ours.json and FOLDER/events for TensorFlow to read.
absl::Status WriteFilesForTensorFlow(const std::string& folder);
// The variables in the checkpoint, by name.
base::NamedArrays CheckpointValues();

// |got - want| <= tolerance * (1 + |want|), elementwise; shapes are equal.
void ExpectClose(const Array& got, const Array& want, double tolerance, const std::string& what);

// A session on one CPU device that the tests share.
tf::Session OpenSession();

// The argument `name` of a row, or the default.
template <typename T>
T Argument(const json& row, const char* name, T fallback) {
  return row["args"].contains(name) ? row["args"][name].get<T>() : fallback;
}

}  // namespace penstock::tests
