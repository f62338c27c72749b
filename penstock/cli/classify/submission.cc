#include "penstock/cli/classify/submission.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "penstock/base/status.h"
#include "penstock/formats/csv.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"

namespace penstock::cli {
namespace {

// The file's name without its extension: "cat.1" of "photos/cat.1.jpg".
std::string NameWithoutExtension(const std::string& path) {
  const std::string name = io::Basename(path);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

absl::Status CheckOneOf(const char* option, const std::string& value,
                        std::initializer_list<absl::string_view> known) {
  std::string names;
  for (const absl::string_view name : known) {
    if (name == value) return absl::OkStatus();
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(option, " '", value, "': the choices are ", names));
}

}  // namespace

void SubmissionFlags::Describe(Options& options) {
  options.Add("--csv", file,
              "CSV file to write, a row for each image, for a Kaggle submission; all images are "
              "predicted unless --count is given");
  options
      .Add("--csv-values", values,
           "Columns after the id: label (the class name), class (its number), probabilities (a "
           "column for each class)")
      .ShowDefault()
      .Needs("--csv");
  options
      .Add("--csv-id", id,
           "First column, for image files: name (the file's name without folder and extension), "
           "file (with extension), path. For shards it is the feature `id`, or else the record's "
           "number")
      .ShowDefault()
      .Needs("--csv");
  options
      .Add("--csv-header", header,
           "Names of the two columns; with probabilities, the first is that of the id")
      .Count(2)
      .ShowDefault("id label")
      .Needs("--csv");
}

absl::Status SubmissionFlags::Check() const {
  PENSTOCK_RETURN_IF_ERROR(CheckOneOf("--csv-values", values, {"label", "class", "probabilities"}));
  PENSTOCK_RETURN_IF_ERROR(CheckOneOf("--csv-id", id, {"name", "file", "path"}));
  return base::WithContext(io::CheckWritableText(*io::FileSystem::Default(), file), "--csv");
}

absl::StatusOr<std::unique_ptr<Submission>> Submission::Create(const SubmissionFlags& flags,
                                                               const Classifier& classifier) {
  auto submission = std::unique_ptr<Submission>(new Submission(flags, classifier));
  PENSTOCK_ASSIGN_OR_RETURN(submission->out_, io::FileSystem::Default()->Create(flags.file));
  std::vector<std::string> header = flags.header;
  if (flags.values == "probabilities") {
    header.resize(1);
    for (int64_t i = 0; i < classifier.classes(); ++i) header.push_back(classifier.NameOf(i));
  }
  PENSTOCK_RETURN_IF_ERROR(
      submission->out_->Append(absl::StrCat(formats::JoinCsvRow(header), "\n")));
  return submission;
}

std::string Submission::IdOf(const ImageBatch& batch, size_t i) const {
  if (!batch.record_ids.empty()) return batch.record_ids[i];
  if (flags_.id == "path") return batch.names[i];
  return flags_.id == "file" ? io::Basename(batch.names[i]) : NameWithoutExtension(batch.names[i]);
}

absl::Status Submission::Add(const ImageBatch& batch, const base::Array& probabilities) {
  std::string text;
  for (size_t i = 0; i < batch.names.size(); ++i) {
    const base::Array row = probabilities.Row(static_cast<int64_t>(i));
    const int64_t best = MostProbableClass(row.values<double>());
    if (best < 0) return NotFiniteError(batch.names[i]);
    std::vector<std::string> fields{IdOf(batch, i)};
    if (!ids_.insert(fields[0]).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two images have the id '", fields[0], "', the second is ", batch.names[i],
                       batch.record_ids.empty() ? "; make the ids differ with --csv-id path" : ""));
    }
    if (flags_.values == "label") {
      fields.push_back(classifier_.NameOf(best));
    } else if (flags_.values == "class") {
      fields.push_back(absl::StrCat(best));
    } else {
      for (const double p : row.values<double>()) fields.push_back(absl::StrFormat("%.8g", p));
    }
    absl::StrAppend(&text, formats::JoinCsvRow(fields), "\n");
  }
  return out_->Append(text);
}

}  // namespace penstock::cli
