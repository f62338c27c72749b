#include "penstock/pack/shard_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::pack {

ShardWriter::ShardWriter(io::FileSystem& fs, std::string folder, ShardWriterOptions options)
    : fs_(fs),
      folder_(std::move(folder)),
      options_(std::move(options)),
      index_(options_.first_index),
      scratch_({.memory_bytes = options_.memory_bytes, .folder = options_.scratch_folder}) {}

absl::StatusOr<std::optional<Shard>> ShardWriter::Append(absl::string_view record) {
  const int64_t bytes = static_cast<int64_t>(record.size()) + record::kTfRecordHeaderBytes +
                        record::kTfRecordFooterBytes;
  std::optional<Shard> full;
  if (options_.target_bytes > 0 && records_ != nullptr &&
      records_->offset() + bytes > options_.target_bytes) {
    PENSTOCK_ASSIGN_OR_RETURN(full, Publish());
  }
  if (records_ == nullptr) {
    PENSTOCK_ASSIGN_OR_RETURN(records_, record::TfRecordWriter::FromStream(WriteTo(scratch_)));
  }
  PENSTOCK_RETURN_IF_ERROR(records_->Append(record));
  lengths_.push_back(static_cast<int64_t>(record.size()));
  return full;
}

absl::StatusOr<std::optional<Shard>> ShardWriter::Publish() {
  if (records_ == nullptr) return std::nullopt;
  PENSTOCK_RETURN_IF_ERROR(records_->Close());
  const Shard shard{
      .file = absl::StrFormat("%02d-%d.tfrec", index_, records_->num_records()),
      .records = records_->num_records(),
      .bytes = scratch_.size(),
  };
  const std::string uri = io::JoinPath(folder_, shard.file);
  PENSTOCK_ASSIGN_OR_RETURN(auto out, fs_.Create(uri));
  PENSTOCK_RETURN_IF_ERROR(scratch_.CopyTo(*out));
  PENSTOCK_RETURN_IF_ERROR(out->Close());
  PENSTOCK_RETURN_IF_ERROR(record::TfRecordIndex(uri, lengths_).Save(fs_));
  records_.reset();
  scratch_.Clear();
  lengths_.clear();
  ++index_;
  return shard;
}

bool IsShardName(absl::string_view file) {
  if (!absl::ConsumeSuffix(&file, ".tfrec")) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(file, '-');
  return parts.size() == 2 && std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
           return !part.empty() && std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
         });
}

}  // namespace penstock::pack
