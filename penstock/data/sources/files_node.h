// Runs FromFiles, for sources that make their own list of files (FromImageFolder).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/data/dataset.h"
#include "penstock/data/sources/small_files.h"
#include "penstock/data/stage.h"

namespace penstock::data {

// Reads `files`, columns `path` and `bytes`, in this order or, with options.shuffle_files, in
// another one in each epoch. `small_files` may be null.
std::unique_ptr<Node> MakeFilesNode(const NodeContext& context, std::vector<std::string> files,
                                    const FileOptions& options,
                                    std::shared_ptr<SmallFilesHint> small_files);
// Stage::io_threads for it.
int FilesIoThreads(const FileOptions& options);

}  // namespace penstock::data
