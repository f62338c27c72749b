// The formats of Model::Export. Internal to room keras: export.h chooses one by the name.
//
// To add a format, write a file export_x.cc with a function that returns it, and add the function
// to the table at the end.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/io/file_system.h"
#include "penstock/keras/export.h"

namespace penstock::keras {

struct ExportFormat {
  absl::string_view name;
  absl::string_view extension;  // with the dot
  bool is_folder = false;       // also the format of names without an extension

  // As ExportNetwork, ExportExists and CheckExportDestination.
  absl::Status (*write)(io::FileSystem& fs, absl::string_view uri, const nn::Network& network,
                        const base::NamedArrays& weights, const ExportOptions& options);
  absl::StatusOr<bool> (*exists)(io::FileSystem& fs, absl::string_view uri);
  absl::Status (*check_destination)(io::FileSystem& fs, absl::string_view uri);
};

// The table of formats.
ExportFormat SavedModelExport();  // export_saved_model.cc
ExportFormat OnnxExport();        // export_onnx.cc
inline constexpr ExportFormat (*kExportFormats[])() = {SavedModelExport, OnnxExport};

}  // namespace penstock::keras
