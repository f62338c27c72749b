// FileHost: the files of the machine that has the devices, for front ends that keep more than checkpoints there: an
// estimator's model_dir. Internal to the rooms from train on.
//
//   auto* const host = dynamic_cast<FileHost*>(client.get());   // null: the devices are of this machine
//   const std::shared_ptr<io::FileSystem> fs = host->Files();
//   PENSTOCK_RETURN_IF_ERROR(io::WriteFile(*fs, "/runs/a/note.txt", "written there"));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/runtime/client.h"

namespace penstock::train {

// Capability of a runtime::Client.
class FileHost {
 public:
  virtual ~FileHost() = default;
  // The file system of the machine, with its credentials: an io::FilesElsewhere, and a BufferFiles. Anything beyond what
  // the machine allows (a worker's --read and --write) is PERMISSION_DENIED. It is of the client's current session,
  // which it keeps open.
  virtual std::shared_ptr<io::FileSystem> Files() = 0;
};

// What such a file system implements as well: buffers become files without coming here.
class BufferFiles {
 public:
  virtual ~BufferFiles() = default;
  // Whether the buffer is of that machine.
  virtual bool Has(const runtime::Buffer& buffer) const = 0;
  // Writes buffers as one of TensorFlow's checkpoints (save::tensor_bundle::WriteBundle, name_based), with their values
  // at the time of the call.
  virtual absl::Status WriteBundle(absl::string_view prefix, const std::vector<std::string>& names,
                                   const runtime::Buffers& buffers) = 0;
};

}  // namespace penstock::train
