#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/base/thread_pool.h"
#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/sources/files.h"
#include "penstock/data/sources/files_node.h"
#include "penstock/data/sources/source_files.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/io/file_system.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"

namespace penstock::data {
namespace {

// What a folder holds, as it was when the dataset was described.
struct ImageFolder {
  std::vector<std::string> class_names;
  std::vector<std::string> files;                           // sorted by class, then by path
  absl::flat_hash_map<absl::string_view, int64_t> classes;  // of each of `files`
};

bool HasExtension(absl::string_view name, const std::vector<std::string>& extensions) {
  return std::any_of(extensions.begin(), extensions.end(), [&](const std::string& extension) {
    return absl::EndsWithIgnoreCase(name, extension);
  });
}

// These would be the folder itself, or its parent.
absl::Status CheckClassNames(const std::vector<std::string>& names) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("class_names has '", name, "' twice"));
    }
    if (!name.empty() && name != "." && name != "..") continue;
    return absl::InvalidArgumentError(
        absl::StrCat("class_names has '", name, "', which is not the name of a subfolder"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ClassFolders(io::FileSystem& file_system,
                                                      const std::string& folder,
                                                      const ImageFolderOptions& options) {
  std::vector<std::string> folders;
  if (!options.class_names.empty()) {
    for (const std::string& name : options.class_names) {
      folders.push_back(io::JoinPath(folder, name));
    }
    return folders;
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries, file_system.List(folder));
  for (const io::FileInfo& entry : entries) {
    if (entry.is_directory && !io::IsHiddenBelow(folder, entry.uri)) folders.push_back(entry.uri);
  }
  std::sort(folders.begin(), folders.end(), [](const std::string& a, const std::string& b) {
    return io::Basename(a) < io::Basename(b);
  });
  if (!folders.empty()) return folders;
  return absl::FailedPreconditionError(absl::StrCat(
      io::DisplayName(folder), " has no subfolders; images are in a subfolder for each class: ",
      io::DisplayName(folder), "/CLASS/NAME", options.extensions[0]));
}

// Indices, ascending, of the files that belong to options.subset.
std::vector<size_t> IndicesOfSubset(const ImageFolderOptions& options, size_t num_files) {
  std::vector<size_t> order(num_files);
  std::iota(order.begin(), order.end(), size_t{0});
  if (options.subset == ImageSubset::kAll) return order;
  base::Random random(options.split_seed);
  base::Shuffle(random, order);
  // As Keras rounds: the validation part is floor(files * validation_split).
  const auto validation =
      static_cast<size_t>(std::floor(static_cast<double>(num_files) * options.validation_split));
  const bool training = options.subset == ImageSubset::kTraining;
  const auto cut = order.end() - static_cast<int64_t>(validation);
  order =
      training ? std::vector<size_t>(order.begin(), cut) : std::vector<size_t>(cut, order.end());
  std::sort(order.begin(), order.end());
  return order;
}

absl::Status CheckOptions(const ImageFolderOptions& options) {
  if (options.extensions.empty()) {
    return absl::InvalidArgumentError("extensions is empty; no file is an image then");
  }
  if (options.parallel_files < 0 || options.read_ahead_bytes < 0) {
    return absl::InvalidArgumentError("parallel_files and read_ahead_bytes are at least 0");
  }
  const bool splits = options.validation_split > 0 && options.validation_split < 1;
  if (options.subset == ImageSubset::kAll ? options.validation_split == 0 : splits) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("validation_split is the share of the images that subset kValidation has, above "
                   "0 and below 1, and is given together with a subset; got ",
                   options.validation_split));
}

// The files below each folder. Several at once: in an object store each listing is a request or
// more.
absl::StatusOr<std::vector<std::vector<io::FileInfo>>> ListFolders(
    io::FileSystem& file_system, const std::vector<std::string>& folders) {
  std::vector<absl::StatusOr<std::vector<io::FileInfo>>> lists(folders.size(),
                                                               absl::UnknownError(""));
  constexpr size_t kAtOnce = 16;
  {
    PENSTOCK_ASSIGN_OR_RETURN(
        const auto pool,
        base::ThreadPool::Make(static_cast<int>(std::min(kAtOnce, folders.size())), "list"));
    base::ParallelFor(*pool, 0, static_cast<int64_t>(folders.size()), [&](int64_t i) {
      lists[static_cast<size_t>(i)] = file_system.ListRecursive(folders[static_cast<size_t>(i)]);
    });
  }
  std::vector<std::vector<io::FileInfo>> out;
  for (auto& list : lists) {
    PENSTOCK_RETURN_IF_ERROR(list.status());
    out.push_back(*std::move(list));
  }
  return out;
}

absl::StatusOr<std::shared_ptr<const ImageFolder>> FindImages(const std::string& folder,
                                                              const ImageFolderOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckOptions(options));
  PENSTOCK_RETURN_IF_ERROR(CheckClassNames(options.class_names));
  const auto file_system =
      options.file_system == nullptr ? io::FileSystem::Default() : options.file_system;
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                            ClassFolders(*file_system, folder, options));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::vector<io::FileInfo>> lists,
                            ListFolders(*file_system, folders));
  auto found = std::make_shared<ImageFolder>();
  std::vector<std::string> files;
  std::vector<int64_t> classes;  // of `files`; a subset may lack all files of a class
  for (size_t c = 0; c < folders.size(); ++c) {
    const std::string& class_folder = folders[c];
    found->class_names.push_back(io::Basename(class_folder));
    const size_t before = files.size();
    for (const io::FileInfo& file : lists[c]) {
      const std::string name = io::Basename(file.uri);
      if (!io::IsHiddenBelow(class_folder, file.uri) && HasExtension(name, options.extensions)) {
        files.push_back(file.uri);
        classes.push_back(static_cast<int64_t>(c));
      }
    }
    if (files.size() == before) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the folder of class '", found->class_names.back(), "', ", io::DisplayName(class_folder),
          ", has no files that end in ", absl::StrJoin(options.extensions, ", "),
          "; remove the folder, or name the classes in ImageFolderOptions.class_names"));
    }
  }
  const std::vector<size_t> kept = IndicesOfSubset(options, files.size());
  if (kept.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the validation subset of ", files.size(), " images in ", io::DisplayName(folder),
        " is empty with validation_split=", options.validation_split, "; give a larger share"));
  }
  for (const size_t i : kept) found->files.push_back(std::move(files[i]));
  // Views of the strings in their final place.
  for (size_t k = 0; k < kept.size(); ++k) found->classes[found->files[k]] = classes[kept[k]];
  return found;
}

struct FromImageFolderFields {
  std::string folder = {};
  ImageFolderOptions options = {};
};
void Fields(StageFields& f, FromImageFolderFields& p) {
  ImageFolderOptions& o = p.options;
  f.Reads(&p.folder);
  f.Value("class_names", &o.class_names);
  f.Value("extensions", &o.extensions);
  f.Value("validation_split", &o.validation_split);
  f.Choice("subset", &o.subset, {"all", "training", "validation"});
  f.Value("split_seed", &o.split_seed);
  f.Value("shuffle_files", &o.shuffle_files);
  f.Value("paths", &o.paths);
  f.Value("parallel_files", &o.parallel_files);
  f.CheckRange("parallel_files", o.parallel_files, 0, kMaxParallelFiles);
  f.Value("read_ahead_bytes", &o.read_ahead_bytes);
}

class FromImageFolderStage : public Stage {
 public:
  FromImageFolderStage(std::string folder, ImageFolderOptions options,
                       absl::StatusOr<std::shared_ptr<const ImageFolder>> found,
                       std::shared_ptr<SmallFilesHint> small_files = nullptr)
      : folder_(std::move(folder)),
        options_(std::move(options)),
        found_(std::move(found)),
        small_files_(std::move(small_files)) {}

  absl::string_view name() const override { return "FromImageFolder"; }
  absl::Status WriteFields(StageFields& out) const override {
    FromImageFolderFields fields{folder_, options_};
    // The numbers of the classes stay the same if folders are added meanwhile.
    if (found_.ok()) fields.options.class_names = (*found_)->class_names;
    return Write(out, std::move(fields));
  }
  absl::string_view adds_stage() const override { return found_.ok() ? "ClassOfFolder" : ""; }
  Varies varies() const override {
    return options_.shuffle_files ? Varies::kOrder : Varies::kNothing;
  }
  std::string Parameters() const override {
    std::string text = io::DisplayName(folder_);
    if (found_.ok()) {
      absl::StrAppend(&text, ", ", (*found_)->class_names.size(), " classes, ",
                      (*found_)->files.size(), " images");
    }
    if (options_.subset != ImageSubset::kAll) {
      absl::StrAppend(&text,
                      options_.subset == ImageSubset::kTraining ? ", training" : ", validation",
                      " subset, validation_split=", options_.validation_split,
                      ", split_seed=", options_.split_seed);
    }
    return absl::StrCat(text, options_.shuffle_files ? ", shuffle files" : "");
  }
  int io_threads() const override { return FilesIoThreads(Files()); }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    PENSTOCK_RETURN_IF_ERROR(found_.status());
    return ElementSpec{{"path", base::DType::kString, {}}, {"bytes", base::DType::kString, {}}};
  }
  absl::StatusOr<std::shared_ptr<const Stage>> Resolve(const ResolveContext&) const override {
    const std::string images = io::JoinPath(folder_, "**");
    const bool remote = AnyInObjectStore({folder_});
    return std::make_shared<FromImageFolderStage>(
        folder_, options_, found_,
        remote ? std::make_shared<SmallFilesHint>(std::vector<std::string>{images}) : nullptr);
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext&) const override {
    PENSTOCK_RETURN_IF_ERROR(found_.status());
    return static_cast<int64_t>((*found_)->files.size());
  }
  std::string ResolvedSources() const override {
    return found_.ok() ? absl::StrJoin((*found_)->files, "\n") : "";
  }
  absl::StatusOr<std::string> SourceFingerprint(const ResolveContext& context) const override {
    PENSTOCK_RETURN_IF_ERROR(found_.status());
    return FilesFingerprint(context, (*found_)->files);
  }
  const std::vector<std::string>* class_names() const override {
    return found_.ok() ? &(*found_)->class_names : nullptr;
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_RETURN_IF_ERROR(found_.status());
    return MakeFilesNode(context, FilesOfPass(context, (*found_)->files, options_.shuffle_files),
                         Files(), small_files_);
  }

 private:
  FileOptions Files() const {
    return {.parallel_files = options_.parallel_files,
            .read_ahead_bytes = options_.read_ahead_bytes};
  }

  const std::string folder_;
  const ImageFolderOptions options_;
  const absl::StatusOr<std::shared_ptr<const ImageFolder>> found_;
  const std::shared_ptr<SmallFilesHint> small_files_;
};

class ClassOfFolderKernel : public RowKernel {
 public:
  explicit ClassOfFolderKernel(std::shared_ptr<const ImageFolder> folder)
      : folder_(std::move(folder)) {}
  void Run(const RowsIn& in, RowsOut& out) const override {
    auto column = out.Dense(0);
    if (!column.ok()) return out.FailAndStop(0, column.status());
    int64_t* classes = column->mutable_data<int64_t>();
    const auto paths = in.columns[0]->values().values<absl::string_view>();
    for (int64_t row = 0; row < in.rows; ++row) {
      const auto found = folder_->classes.find(paths[static_cast<size_t>(row)]);
      if (found == folder_->classes.end()) {
        return out.FailAndStop(row, absl::InternalError("the file is not of the folder's list"));
      }
      classes[row] = found->second;
    }
  }

 private:
  const std::shared_ptr<const ImageFolder> folder_;
};

// `path` and `bytes` to `image`, `class` and, if wanted, `path`.
class ClassOfFolderStage : public RowStage {
 public:
  ClassOfFolderStage(std::shared_ptr<const ImageFolder> folder, bool paths)
      : folder_(std::move(folder)), paths_(paths) {}

  absl::string_view name() const override { return "ClassOfFolder"; }
  bool is_added() const override { return true; }
  std::string Parameters() const override { return paths_ ? "with paths" : ""; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    ElementSpec spec{{"image", base::DType::kString, {}}, {"class", base::DType::kI64, {}}};
    if (paths_) spec.Set({"path", base::DType::kString, {}});
    return spec;
  }
  absl::StatusOr<RowKernelBinding> Bind(const ElementSpec& input,
                                        const ElementSpec& output) const override {
    RowKernelBinding binding{.kernel = std::make_shared<ClassOfFolderKernel>(folder_),
                             .reads = {input.Find("path")},
                             .passes = {}};
    for (const ColumnSpec& column : output.columns()) {
      binding.passes.push_back(column.name == "class"   ? -1
                               : column.name == "image" ? input.Find("bytes")
                                                        : input.Find(column.name));
    }
    return binding;
  }

 private:
  const std::shared_ptr<const ImageFolder> folder_;
  const bool paths_;
};

}  // namespace

Dataset Dataset::FromImageFolder(std::string folder, ImageFolderOptions options) {
  auto found = FindImages(folder, options);
  const bool paths = options.paths;
  const Dataset files =
      From(std::make_shared<FromImageFolderStage>(std::move(folder), std::move(options), found));
  if (!found.ok()) return files;
  return files.Then(std::make_shared<ClassOfFolderStage>(*std::move(found), paths));
}

const std::vector<std::string>& Dataset::class_names() const {
  static const auto* const kNone = new std::vector<std::string>();
  for (const Description* at = description_.get(); at != nullptr;
       at = at->inputs.empty() ? nullptr : at->inputs[0].get()) {
    if (const auto* names = at->stage->class_names(); names != nullptr) return *names;
  }
  return *kNone;
}

absl::StatusOr<Dataset> ReadFromImageFolder(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<FromImageFolderFields>(in));
  p.options.file_system = in.file_system();
  return Dataset::FromImageFolder(std::move(p.folder), std::move(p.options));
}

}  // namespace penstock::data
