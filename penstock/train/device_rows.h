// DeviceRows: the rows of a data set in the memory of devices (Cache("device"), data/cache/device_cache.h).
//
//   PENSTOCK_ASSIGN_OR_RETURN(const RowColumns columns, ReadRows(dataset, options, fits));  // on the host, once
//   PENSTOCK_ASSIGN_OR_RETURN(const auto rows, PutRows(columns, client, devices));
//   ... DeviceFeed gathers batches of them (device_feed.h)
//
// Every replica's device has all rows, because a shuffled batch takes any of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/ir/graph.h"
#include "penstock/runtime/client.h"

namespace penstock::train {

struct DeviceRows {
  std::vector<std::string> names = {};          // of the columns
  std::vector<ir::TensorType> types = {};       // of a column's rows: [rows, ...]
  std::vector<runtime::Buffers> replicas = {};  // [replica][column]

  int64_t rows() const { return types.empty() ? 0 : types[0].shape.dim(0); }
};

// A data set on the host, as one array a column.
struct RowColumns {
  std::vector<std::string> names = {};
  std::vector<base::Array> arrays = {};
  int64_t rows() const { return arrays.empty() ? 0 : arrays[0].dim(0); }
};

// Memory of the devices for rows.
struct RowsRoom {
  runtime::FreeMemoryInfo free = {};
  int devices = 1;
  // Number of copies of the rows that take memory of free.bytes.
  int copies = 1;
};
RowsRoom RoomForRows(runtime::Client& client, absl::Span<const runtime::Device> devices);
// RESOURCE_EXHAUSTED if `rows` rows of `bytes` in all do not fit; says how much they take, what fits, and what to do.
absl::Status CheckRowsFit(const RowsRoom& room, int64_t rows, int64_t bytes);
// "cache: 50,000 rows, 586 MiB of 14.9 GiB free on the device (this machine)".
std::string DescribeRows(const RowsRoom& room, int64_t rows, int64_t bytes);

// Reads all elements of `iterator`, over SourceOfRows(part). `expected`: their number; negative: unknown. `fits` is
// called with rows and bytes: before anything is allocated if the size is known, and as it grows otherwise.
using RowsFit = std::function<absl::Status(int64_t rows, int64_t bytes)>;
absl::StatusOr<RowColumns> ReadRows(data::Iterator& iterator, int64_t expected,
                                    const RowsFit& fits);

// What ReadRows reads: the part in large batches. FAILED_PRECONDITION if a column cannot be on a device.
struct RowsSource {
  data::Dataset batches;
  int64_t expected = -1;
};
absl::StatusOr<RowsSource> SourceOfRows(const data::Dataset& part,
                                        const data::IteratorOptions& options);
// The options of a pass that fills a cache: the elements of the first epoch.
data::IteratorOptions OptionsOfFirstEpoch(data::IteratorOptions options);
// Bytes of `rows` elements; -1: not known from the description.
int64_t BytesOfRows(const data::ElementSpec& spec, int64_t rows);

// The programs that gather batches, compiled once. Thread-safe.
class GatherPrograms {
 public:
  // Parameters: the columns, then row numbers, int32 [rows] or [depth, rows] if depth is above 1. Results: the rows of
  // each column.
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Get(
      runtime::Client& client, absl::Span<const runtime::Device> devices,
      absl::Span<const ir::TensorType> columns, int64_t rows, int64_t depth);

 private:
  static constexpr size_t kMaxPrograms = 64;
  struct Entry {
    std::string key;
    std::shared_ptr<runtime::Executable> executable;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;  // the last ones used last
};

}  // namespace penstock::train
