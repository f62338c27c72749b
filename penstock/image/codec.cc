#include "penstock/image/codec.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace penstock::image {

uint8_t* GrowingBuffer::Get(int64_t bytes) {
  if (bytes > capacity_) {
    data_.reset();
    data_.reset(new uint8_t[static_cast<size_t>(bytes)]);
    capacity_ = bytes;
  }
  return data_.get();
}

absl::Span<const Codec* const> Codecs() {
  static constexpr const Codec* kCodecs[] = {&kJpegCodec, &kPngCodec};
  return kCodecs;
}

absl::StatusOr<const Codec*> FindCodec(absl::string_view bytes) {
  for (const Codec* codec : Codecs()) {
    if (codec->matches(bytes)) return codec;
  }
  if (bytes.empty()) return absl::InvalidArgumentError("not an image: the file is empty");
  const std::string known = absl::StrJoin(
      Codecs(), ", ", [](std::string* out, const Codec* c) { absl::StrAppend(out, c->name); });
  return absl::InvalidArgumentError(absl::StrCat("unsupported image format (supported are ", known,
                                                 "): it begins with the bytes \"",
                                                 absl::CHexEscape(bytes.substr(0, 8)), "\""));
}

absl::string_view FormatName(Format format) {
  for (const Codec* codec : Codecs()) {
    if (codec->format == format) return codec->name;
  }
  return "unknown format";
}

}  // namespace penstock::image
