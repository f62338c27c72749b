#include "penstock/pack/image_record.h"

#include "penstock/base/status.h"
#include "penstock/record/example.h"

namespace penstock::pack {

std::string ImageRecord(const RecompressedImage& image, int64_t class_index,
                        const std::vector<std::string>& classes) {
  PENSTOCK_CHECK(class_index >= 0 && class_index < static_cast<int64_t>(classes.size()));
  std::vector<float> one_hot(classes.size());
  one_hot[static_cast<size_t>(class_index)] = 1;
  record::ExampleBuilder example;
  example.SetBytes("image", image.bytes);
  example.SetInt64("class", class_index);
  example.SetBytes("label", classes[static_cast<size_t>(class_index)]);
  example.SetFloatList("one_hot_class", one_hot);
  example.SetInt64List("size", {image.size.height, image.size.width});
  return example.Serialize();
}

}  // namespace penstock::pack
