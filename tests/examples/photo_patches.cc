#include "tests/examples/photo_patches.h"

#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/base/array.h"
#include "penstock/base/status.h"
#include "penstock/image/encode.h"
#include "penstock/image/image.h"
#include "penstock/io/file_system.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::tests {
namespace {

constexpr int64_t kSide = 32;

absl::StatusOr<std::vector<base::Array>> Photographs() {
  std::vector<base::Array> photographs;
  for (const char* name : {"china", "flower"}) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const std::string bytes,
        io::ReadFile(
            *io::FileSystem::Default(),
            absl::StrCat(PENSTOCK_SOURCE_DIR, "/third_party/unpacked/photos/", name, ".jpg")));
    PENSTOCK_ASSIGN_OR_RETURN(photographs.emplace_back(), image::Decode(bytes));
  }
  return photographs;
}

// The patch number `index` of a photograph, as a JPEG. A multiplicative hash spreads them.
absl::StatusOr<std::string> Patch(const base::Array& photograph, int index) {
  const int64_t columns = photograph.dim(1) / kSide, rows = photograph.dim(0) / kSide;
  const int64_t place = int64_t{7919} * index % (columns * rows);
  const int64_t y = place / columns * kSide, x = place % columns * kSide;
  const base::Array patch = photograph.Slice({{y, y + kSide}, {x, x + kSide}});
  PENSTOCK_ASSIGN_OR_RETURN(const image::ImageView view, image::ViewOf(patch));
  return image::EncodeJpeg(view);
}

}  // namespace

absl::Status WritePatchFiles(const std::string& folder, int count) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<base::Array> photographs, Photographs());
  for (size_t label = 0; label < photographs.size(); ++label) {
    for (int i = 0; i < count; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string jpeg, Patch(photographs[label], i));
      PENSTOCK_RETURN_IF_ERROR(io::WriteFile(
          *io::FileSystem::Default(), absl::StrCat(folder, "/class", label, "/", i, ".jpg"), jpeg));
    }
  }
  return absl::OkStatus();
}

absl::Status WritePatchShard(const std::string& uri, int begin, int count, bool ids) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<base::Array> photographs, Photographs());
  PENSTOCK_ASSIGN_OR_RETURN(const auto writer,
                            record::TfRecordWriter::Create(*io::FileSystem::Default(), uri));
  for (int i = begin; i < begin + count; ++i) {
    for (size_t label = 0; label < photographs.size(); ++label) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string jpeg, Patch(photographs[label], i));
      record::ExampleBuilder example;
      example.SetBytes("image", jpeg);
      if (ids) {
        example.SetBytes("id", absl::StrCat("id", i, "_", label));
      } else {
        example.SetInt64("class", static_cast<int64_t>(label));
      }
      PENSTOCK_RETURN_IF_ERROR(writer->Append(example.Serialize()));
    }
  }
  return writer->Close();
}

}  // namespace penstock::tests
