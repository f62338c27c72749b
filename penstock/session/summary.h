// Summaries for TensorBoard: tf.summary.
//
//   tf::summary::Scalar("loss", loss);
//   tf::summary::Histogram("weights", w);
//   const tf::Tensor merged = tf::summary::MergeAll();
//   tf::summary::FileWriter writer("logs/train");
//   for (int64_t i = 0; i < steps; ++i) {
//     PENSTOCK_ASSIGN_OR_RETURN(auto results, session.Run({merged, train}, feeds));
//     PENSTOCK_RETURN_IF_ERROR(writer.AddSummary(results[0], i));
//   }
//
// The value of a summary is the serialized tensorflow.Summary, as in TensorFlow; a ui8 vector here,
// made by the program on the device, so that a Run has nothing to encode. Merging concatenates.
//
// Differences from TensorFlow 1.15: a histogram has 30 buckets of equal width between its minimum
// and maximum; images have no alpha channel and are encoded as PNG by the FileWriter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/base/clock.h"
#include "penstock/io/file_system.h"
#include "penstock/session/graph.h"

namespace penstock::session::summary {

// Collections to which a summary is added. Empty: SUMMARIES.
using Collections = std::vector<std::string>;

// A number. The tag is the operation's name: `name` in the current name scope, made unique. With
// `family`, "<family>/<name scope>/<family>/<name>", as in TensorFlow. Characters that names do not
// have become '_': "w:0", a variable's name, "w_0".
Tensor Scalar(absl::string_view name, const Tensor& tensor, const Collections& collections = {},
              absl::string_view family = "", SourceLocation where = SourceLocation::Current());
// The distribution of the elements of a tensor.
Tensor Histogram(absl::string_view name, const Tensor& values, const Collections& collections = {},
                 absl::string_view family = "", SourceLocation where = SourceLocation::Current());
// Images [batch, height, width, channels] with 1 or 3 channels: ui8, or floats, which are scaled
// as TensorFlow does (each image: without negative values its maximum becomes 255; otherwise 0
// becomes 127). The first max_outputs have the tags "<name>/image/0", ..., or "<name>/image".
Tensor Image(absl::string_view name, const Tensor& tensor, int64_t max_outputs = 3,
             const Collections& collections = {}, absl::string_view family = "",
             SourceLocation where = SourceLocation::Current());

// All of these summaries in one.
Tensor Merge(const Tensors& inputs, const Collections& collections = {},
             absl::string_view name = "", SourceLocation where = SourceLocation::Current());
// All summaries of a collection of the default graph, whose names begin with `scope`; invalid
// (TensorFlow's None) if there are none.
Tensor MergeAll(absl::string_view key = graph_keys::kSummaries, absl::string_view scope = "",
                SourceLocation where = SourceLocation::Current());

struct FileWriterOptions {
  const Graph* graph = nullptr;  // AddGraph
  double flush_secs = 120;       // on object stores; local files are flushed with each event
  std::string filename_suffix = "";
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  base::Clock* clock = base::Clock::Real();
};

// An event file in `logdir` (any file system). One thread at a time.
class FileWriter {
 public:
  // Creates the file; an error is returned by status() and by every other function.
  explicit FileWriter(absl::string_view logdir, const FileWriterOptions& options = {});
  ~FileWriter();
  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) noexcept;

  const absl::Status& status() const;
  // The value of a summary.
  absl::Status AddSummary(const Array& summary, int64_t global_step = 0);
  // A number that the program has: tf.Summary(value=[tf.Summary.Value(tag, simple_value)]).
  absl::Status AddScalar(absl::string_view tag, double value, int64_t global_step = 0);
  // The operations of a graph, for TensorBoard's page of graphs.
  absl::Status AddGraph(const Graph& graph, int64_t global_step = 0);
  absl::Status Flush();
  // Flushes; nothing can be added afterwards.
  absl::Status Close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::session::summary
