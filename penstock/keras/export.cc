#include "penstock/keras/export.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/keras/export_format.h"
#include "penstock/keras/keras.h"
#include "penstock/keras/keras_file.h"
#include "penstock/save/save.h"

namespace penstock::keras {
namespace {

bool HasExtension(absl::string_view uri) {
  return !absl::EndsWith(uri, "/") && absl::StrContains(io::Basename(uri), ".");
}

absl::StatusOr<ExportFormat> ExportFormatOf(absl::string_view uri) {
  for (const auto make : kExportFormats) {
    const ExportFormat format = make();
    if (absl::EndsWithIgnoreCase(io::Basename(uri), format.extension)) return format;
    if (format.is_folder && !HasExtension(uri)) return format;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      io::DisplayName(uri), ": the extension selects the format to export; the known formats are ",
      ExportFormatNames()));
}

}  // namespace

std::string ExportFormatNames() {
  std::string names;
  for (const auto make : kExportFormats) {
    const ExportFormat format = make();
    absl::StrAppend(&names, names.empty() ? "" : ", ", format.name, " (", format.extension,
                    format.is_folder ? ", or no extension)" : ")");
  }
  return names;
}

bool IsExport(absl::string_view uri) { return ExportFormatOf(uri).ok(); }

absl::StatusOr<bool> ExportExists(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const ExportFormat format, ExportFormatOf(uri));
  return format.exists(*io::FileSystem::Default(), uri);
}

absl::Status CheckExportDestination(absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const ExportFormat format, ExportFormatOf(uri));
  return format.check_destination(*io::FileSystem::Default(), uri);
}

absl::Status ExportNetwork(const nn::Network& network, const base::NamedArrays& weights,
                           absl::string_view uri, const ExportOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const ExportFormat format, ExportFormatOf(uri));
  io::FileSystem& fs = *io::FileSystem::Default();
  PENSTOCK_RETURN_IF_ERROR(format.check_destination(fs, uri));
  // User-defined layers may throw.
  const absl::Status status = base::CatchExceptions(
      [&]() -> absl::Status { return format.write(fs, uri, network, weights, options); });
  if (status.ok() || absl::StrContains(status.message(), io::DisplayName(uri))) return status;
  return base::WithContext(status, io::DisplayName(uri));
}

absl::Status ExportFile(absl::string_view file, absl::string_view uri,
                        const ExportOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckExportDestination(uri));  // before a large file is read
  PENSTOCK_ASSIGN_OR_RETURN(const save::Weights saved,
                            save::ReadWeights(*io::FileSystem::Default(), file));
  const absl::StatusOr<SavedNetwork> model = ReadNetwork(saved, {});
  if (!model.ok()) return base::WithContext(model.status(), io::DisplayName(file));
  ExportOptions named = options;
  if (named.class_names.empty()) named.class_names = model->class_names;
  return ExportNetwork(model->network, model->weights, uri, named);
}

absl::Status Model::Export(absl::string_view uri, const ExportOptions& options) const {
  PENSTOCK_ASSIGN_OR_RETURN(const train::Trainer* trainer, this->trainer());
  // The trainer copies the weights off the device, which takes a while.
  PENSTOCK_RETURN_IF_ERROR(CheckExportDestination(uri));
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays weights, trainer->Weights());
  ExportOptions named = options;
  if (named.class_names.empty()) named.class_names = class_names_;
  return ExportNetwork(trainer->objective().network, weights, uri, named);
}

}  // namespace penstock::keras
