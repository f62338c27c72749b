// Room profile: what a run's time went into, for people: a trace as files that viewers open, and
// the cost of a program's operations. It may use base, io, record, ir and runtime.
//
//   base::Trace trace({.clock = clock});
//   ...                                                   // base/trace.h: who does what fills it
//   PENSTOCK_RETURN_IF_ERROR(profile::WriteTrace(trace.Take(), {.folder = "run1/profile"}));
//
//   PENSTOCK_ASSIGN_OR_RETURN(auto costs, profile::MeasureOperations(graph, *client));
//   std::cout << profile::OperationTable(costs);           // operation_costs.h
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"

#include "penstock/base/trace.h"
#include "penstock/io/file_system.h"

namespace penstock::profile {

// The Trace Event Format of Chrome's about:tracing, which ui.perfetto.dev opens as well: each group
// is a process, each track a thread. Microseconds since the trace was made. What was dropped stands
// in "otherData".
std::string ChromeTrace(const base::TraceRecording& recording);

// An XSpace protocol buffer (tsl/profiler/protobuf/xplane.proto), as TensorBoard's profiler reads
// it: the tracks of the group kDevices are planes of their own, the others are lines of /host:CPU.
std::string XSpace(const base::TraceRecording& recording, absl::string_view host);
inline constexpr char kDevices[] = "devices";

struct TraceFiles {
  std::string folder;                                     // any file system
  std::string host = {};                                  // empty: this machine's name
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // none: io::FileSystem::Default()
};
// Into `folder`: trace.json, and for TensorBoard plugins/profile/DATE/HOST.trace.json.gz and
// HOST.xplane.pb, with the date at which the trace was begun.
absl::Status WriteTrace(const base::TraceRecording& recording, const TraceFiles& files);

}  // namespace penstock::profile
