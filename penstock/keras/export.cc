#include "penstock/keras/export.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/keras/keras.h"

namespace penstock::keras {
namespace {

const std::vector<ExportFormat>& ExportFormats() {
  static const auto* const table = new std::vector<ExportFormat>{
      // A row for each format.
      SavedModelExport(),
  };
  return *table;
}

// The name of the file or folder; a '/' at the end of the URI is not part of it.
bool IsWithoutExtension(absl::string_view uri) {
  return absl::EndsWith(uri, "/") || !absl::StrContains(io::Basename(uri), ".");
}

absl::StatusOr<const ExportFormat*> ExportFormatOf(absl::string_view uri) {
  std::string known;
  for (const ExportFormat& format : ExportFormats()) {
    if (absl::EndsWithIgnoreCase(io::Basename(uri), format.extension)) return &format;
    absl::StrAppend(&known, known.empty() ? "" : ", ", format.extension);
  }
  if (IsWithoutExtension(uri)) return &ExportFormats()[0];
  return absl::InvalidArgumentError(
      absl::StrCat(io::DisplayName(uri), ": the extension selects the format to export; there are ",
                   known, ", and a name without an extension is a SavedModel's folder"));
}

}  // namespace

bool IsExport(absl::string_view uri) { return ExportFormatOf(uri).ok(); }

absl::StatusOr<bool> ExportExists(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const ExportFormat* format, ExportFormatOf(uri));
  return format->exists(*io::FileSystem::Default(), uri);
}

absl::Status CheckExportDestination(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const ExportFormat* format, ExportFormatOf(uri));
  return format->check_destination(*io::FileSystem::Default(), uri);
}

absl::Status ExportNetwork(const nn::Network& network, const base::NamedArrays& weights,
                           absl::string_view uri, const ExportOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const ExportFormat* format, ExportFormatOf(uri));
  io::FileSystem& fs = *io::FileSystem::Default();
  PENSTOCK_RETURN_IF_ERROR(format->check_destination(fs, uri));
  // User-defined layers may throw.
  const absl::Status status = base::CatchExceptions(
      [&]() -> absl::Status { return format->write(fs, uri, network, weights, options); });
  if (status.ok() || absl::StrContains(status.message(), io::DisplayName(uri))) return status;
  return base::WithContext(status, io::DisplayName(uri));
}

absl::Status Model::Export(absl::string_view uri, const ExportOptions& options) const {
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, this->trainer());
  // The trainer copies the weights off the device, which takes a while.
  PENSTOCK_RETURN_IF_ERROR(CheckExportDestination(uri));
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays weights, trainer->Weights());
  return ExportNetwork(trainer->objective().network, weights, uri, options);
}

}  // namespace penstock::keras
