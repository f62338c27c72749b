// Trains a classifier on the arrays that dump_flowers wrote, on eight replicas, without any cloud
// storage: the program that owns the accelerator reads a local file.
//
//   train_flowers flowers.npz --device tpu
//   train_flowers flowers.npz --access stream       # larger than memory
#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"

#include "penstock/base/available_memory.h"
#include "penstock/data/dataset.h"
#include "penstock/formats/npy.h"
#include "penstock/keras/keras.h"

using namespace penstock;

struct Options {
  std::string file, device, access = "auto";
  int replicas = 8, epochs = 5;
  int64_t batch_size = 1024;
};

// Where the arrays are while training. This is the one option to change when they do not fit:
// `auto` maps the file into memory, so that only what is used is read; `stream` reads it block by
// block in each epoch, which a file of any size survives.
absl::StatusOr<data::NpyAccess> AccessOf(const std::string& name) {
  if (name == "auto") return data::NpyAccess::kAuto;
  if (name == "load") return data::NpyAccess::kLoad;
  if (name == "stream") return data::NpyAccess::kStream;
  return absl::InvalidArgumentError("--access must be auto, load or stream, got '" + name + "'");
}

struct Flowers {
  int64_t count = 0, height = 0, width = 0, classes = 0;
};

absl::Status CheckColumns(const std::string& file, const data::ElementSpec& spec) {
  const int image = spec.Find("image"), label = spec.Find("class");
  if (image >= 0 && spec[image].dtype == base::DType::kU8 && spec[image].shape.rank() == 3 &&
      spec[image].shape.dim(2) == 3 && label >= 0 && spec[label].dtype == base::DType::kI64 &&
      spec[label].shape.rank() == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      file +
      " must have the arrays image, uint8 [count,height,width,3], and "
      "class, int64 [count]; its rows are " +
      spec.ToString());
}

// Reads the classes only; the shape of the images is known without them.
absl::StatusOr<Flowers> Describe(const std::string& file) {
  const data::Dataset rows = data::Dataset::FromNpy(file);
  PENSTOCK_RETURN_IF_ERROR(rows.status());
  PENSTOCK_RETURN_IF_ERROR(CheckColumns(file, rows.spec()));
  const base::Shape& image = rows.spec()[rows.spec().Find("image")].shape;
  Flowers flowers{.height = image.dim(0), .width = image.dim(1)};
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto iterator,
      data::Dataset::FromNpy(file, {.select = {"class"}}).Batch(1024).MakeIterator());
  for (base::NamedArrays batch;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
    if (!more) break;
    flowers.count += batch.Find("class")->dim(0);
    for (const int64_t label : batch.Find("class")->values<int64_t>()) {
      flowers.classes = std::max(flowers.classes, label + 1);
    }
  }
  if (flowers.count == 0) return absl::InvalidArgumentError(file + " has no images");
  return flowers;
}

keras::Model Network(const Flowers& flowers) {
  using namespace keras;
  return Sequential(
      {Input({.shape = {flowers.height, flowers.width, 3}, .dtype = base::DType::kU8}),
       Rescaling({.scale = 1 / 255.0}),
       Conv2D({.filters = 16, .kernel_size = 3, .activation = "relu"}),
       MaxPooling2D({.pool_size = 2}),
       Conv2D({.filters = 32, .kernel_size = 3, .activation = "relu"}), GlobalAveragePooling2D(),
       Dense({.units = flowers.classes})});
}

absl::Status Run(const Options& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const data::NpyAccess access, AccessOf(options.access));
  PENSTOCK_ASSIGN_OR_RETURN(const Flowers flowers, Describe(options.file));
  const int64_t bytes = flowers.count * flowers.height * flowers.width * 3;
  const base::MemoryHeadroom room = base::AvailableMemory();
  std::printf("%lld images of %lldx%lld, %s; %s has %s free\n",
              static_cast<long long>(flowers.count), static_cast<long long>(flowers.height),
              static_cast<long long>(flowers.width), base::PrintBytes(bytes).c_str(),
              room.limited_by.c_str(), base::PrintBytes(room.bytes).c_str());
  if (bytes > room.bytes && access == data::NpyAccess::kLoad) {
    return absl::ResourceExhaustedError("the arrays do not fit; use --access stream");
  }

  // tf.data: from_tensor_slices((images, classes)).repeat().shuffle(2048).batch(1024, True)
  const data::Dataset train = data::Dataset::FromNpy(options.file, {.access = access})
                                  .Repeat()
                                  .Shuffle(2048)
                                  .Batch(options.batch_size, {.drop_remainder = true})
                                  .Prefetch();
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto client,
      runtime::OpenClient({.device = options.device, .cpu_devices = options.replicas}));
  const int64_t each = (options.batch_size + options.replicas - 1) / options.replicas;
  std::printf("%d replicas on %s, %lld images each\n", options.replicas, client->platform().c_str(),
              static_cast<long long>(each));
  keras::Model model = Network(flowers);
  PENSTOCK_RETURN_IF_ERROR(
      model.Compile({.optimizer = keras::Adam({.learning_rate = 0.01}),
                     .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                     .metrics = {"accuracy"},
                     .columns = {.inputs = {"image"}, .labels = {"class"}},
                     .client = client,
                     .replicas = options.replicas}));
  PENSTOCK_ASSIGN_OR_RETURN(const keras::History history,
                            model.Fit(train, {.epochs = options.epochs,
                                              .steps_per_epoch = std::max<int64_t>(
                                                  1, flowers.count / options.batch_size)}));
  std::printf("accuracy: %.3f\n", history["accuracy"].back());
  return absl::OkStatus();
}

int Usage() {
  std::fprintf(
      stderr,
      "usage: train_flowers FLOWERS.npz [--device cpu|gpu|tpu] [--access auto|load|stream] "
      "[--replicas N] [--batch-size N] [--epochs N]\n");
  return 2;
}

int main(int argc, char** argv) {
  Options options;
  if (argc < 2 || argc % 2 != 0) return Usage();
  options.file = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    bool known = true;
    if (name == "--device") {
      options.device = value;
    } else if (name == "--access") {
      options.access = value;
    } else if (name == "--replicas") {
      known = absl::SimpleAtoi(value, &options.replicas) && options.replicas > 0;
    } else if (name == "--batch-size") {
      known = absl::SimpleAtoi(value, &options.batch_size) && options.batch_size > 0;
    } else if (name == "--epochs") {
      known = absl::SimpleAtoi(value, &options.epochs) && options.epochs > 0;
    } else {
      known = false;
    }
    if (!known) return Usage();
  }
  const absl::Status status = Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
