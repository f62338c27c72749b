// Room profile: reports of where a run spends its time, for people: traces as files for trace
// viewers, and the cost of a program's operations. Depends on base, io, record, ir and runtime.
//
//   base::Trace trace({.clock = clock});
//   ...                                                   // spans are recorded: base/trace.h
//   PENSTOCK_RETURN_IF_ERROR(
//       profile::WriteTrace(trace.TakeRecording(), {.folder = "run1/profile"}));
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto costs, profile::MeasureOperations(graph, *client));
//   std::cout << profile::OperationTable({.rows = costs});  // operation_costs.h
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"

#include "penstock/base/trace.h"
#include "penstock/io/file_system.h"

namespace penstock::profile {

// A trace in the Trace Event Format of Chrome's about:tracing, which ui.perfetto.dev also opens:
// each group is a process, each track a thread. Times are microseconds since the start of the
// trace. The number of dropped spans is in "otherData".
std::string ChromeTrace(const base::TraceRecording& recording);

// A trace as an XSpace protocol buffer (tsl/profiler/protobuf/xplane.proto), which TensorBoard's
// profiler reads: each track of the group kDevices is a plane of its own, the others are lines of
// /host:CPU. Its line "step markers" is derived from the tracks of a training, named below: from it
// TensorBoard computes step times and the share of the input.
std::string XSpace(const base::TraceRecording& recording, absl::string_view host);
inline constexpr char kDevices[] = "devices";
// The track of the steps; its spans are named by their numbers, "17", or "33-64" for one execution.
inline constexpr char kTraining[] = "training", kSteps[] = "steps";
// Spans in which the host takes a batch from the pipeline, on any track.
inline constexpr char kTakeBatch[] = "take a batch";

struct TraceFiles {
  std::string folder;                                     // path on any file system
  std::string host = {};                                  // empty: this machine's host name
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // null: io::FileSystem::Default()
};
// Writes trace.json to `folder` and, for TensorBoard, plugins/profile/DATE/HOST.trace.json.gz and
// HOST.xplane.pb, where DATE is the start of the trace.
absl::Status WriteTrace(const base::TraceRecording& recording, const TraceFiles& files);

}  // namespace penstock::profile
