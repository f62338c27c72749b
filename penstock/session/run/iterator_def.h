// What a graph and its sessions know of an iterator (data.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "penstock/data/dataset.h"
#include "penstock/session/graph.h"
#include "penstock/session/run/host_input.h"

namespace penstock::session {

// A dataset and how to read it.
struct DatasetToRead {
  data::Dataset dataset;
  data::IteratorOptions options = {};
};

// The iterator in one session: elements of a dataset.
class DatasetInput : public HostInput {
 public:
  // `seed`: if the options have neither a seed nor a state.
  static absl::StatusOr<std::unique_ptr<HostInput>> Open(DatasetToRead from, uint64_t seed);

  absl::StatusOr<std::vector<Array>> Next() override;
  // Not from a generator, which may give an element only when a Run has returned.
  bool reads_ahead() const override { return reads_ahead_; }
  std::string Position() const override { return iterator_->State().ToString(); }
  int64_t epoch() const { return iterator_->State().epoch; }

 private:
  DatasetInput(std::unique_ptr<data::Iterator> iterator, bool reads_ahead)
      : iterator_(std::move(iterator)), reads_ahead_(reads_ahead) {}
  std::unique_ptr<data::Iterator> iterator_;
  const bool reads_ahead_;
};

struct IteratorDef : HostInputSource {
  absl::StatusOr<std::unique_ptr<HostInput>> Open(uint64_t seed) override;
  // Resumes at a position (HostInput::Position).
  absl::StatusOr<std::unique_ptr<HostInput>> OpenAt(absl::string_view position) const;

  Graph* graph = nullptr;
  std::string name;
  data::ElementSpec spec;
  SourceLocation where;
  // Of an iterator with one dataset; of a one-shot iterator the session opens it at first use.
  std::optional<DatasetToRead> from;
  bool one_shot = false;
  Operation initializer;
};

// NodeExtra of an iterator's initializers.
struct IteratorInitializer : HostEffect {
  absl::Status Run(SessionInputs& inputs, uint64_t seed) override;

  std::shared_ptr<IteratorDef> iterator;
  std::optional<DatasetToRead> from;
};

}  // namespace penstock::session
