// A text classifier in PyTorch/XLA's idiom: one process per core (here a thread), samplers,
// batches transferred ahead, gradients averaged over the cores, accuracy reduced over them, and the
// weights saved for PyTorch.
//
//   text_classifier reviews.csv --nprocs 8 --epochs 5 --save reviews.pt
//
// reviews.csv has the columns `text` and `label` (a number from 0). Every tenth row is held out.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/io/file_system.h"
#include "penstock/io/write_check.h"
#include "penstock/lazy/torch.h"

namespace torch = penstock::lazy;
namespace data = torch::utils::data;
namespace xm = torch::xm;
namespace pl = torch::pl;
using penstock::base::Array;
using penstock::base::DType;

constexpr int64_t kLength = 32;  // tokens of a text
constexpr int64_t kMaxClasses = 10000;
constexpr int64_t kPadding = 0, kUnknown = 1;

struct Options {
  std::string file, device, save;
  int nprocs = 8, epochs = 5;
  int64_t batch_size = 16;
  double learning_rate = 0.01;
};

// ---- Texts as input ids and attention masks ----

struct Texts {
  std::vector<std::vector<std::string>> words;
  std::vector<int64_t> labels;
  std::map<std::string, int64_t> vocabulary;
  int64_t classes = 0;
};

absl::StatusOr<Texts> ReadTexts(const std::string& file) {
  using penstock::data::Dataset;
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto iterator,
      Dataset::FromCsv({file}, {.columns = {{"text", DType::kString}, {"label", DType::kI64}}})
          .MakeIterator());
  Texts texts;
  for (penstock::base::NamedArrays row;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&row));
    if (!more) break;
    const absl::string_view text = row.Find("text")->data<absl::string_view>()[0];
    texts.words.push_back(absl::StrSplit(absl::AsciiStrToLower(text), ' ', absl::SkipEmpty()));
    texts.labels.push_back(row.Find("label")->item<int64_t>());
    if (texts.labels.back() < 0 || texts.labels.back() >= kMaxClasses) {
      return absl::InvalidArgumentError(
          file + ": a label is " + std::to_string(texts.labels.back()) +
          "; labels are numbers from 0 to " + std::to_string(kMaxClasses - 1));
    }
    texts.classes = std::max(texts.classes, texts.labels.back() + 1);
    for (const std::string& word : texts.words.back()) {
      texts.vocabulary.emplace(word, 2 + static_cast<int64_t>(texts.vocabulary.size()));
    }
  }
  if (texts.labels.empty()) return absl::InvalidArgumentError(file + " has no texts");
  return texts;
}

// A Dataset as people write it: __len__ and __getitem__.
class TextDataset : public data::Dataset {
 public:
  TextDataset(const Texts& texts, bool held_out) : texts_(texts) {
    for (size_t i = 0; i < texts.labels.size(); ++i) {
      if ((i % 10 == 9) == held_out) rows_.push_back(i);
    }
  }
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  absl::StatusOr<data::Sample> get(int64_t index) const override {
    const size_t row = rows_[static_cast<size_t>(index)];
    Array ids = Array::Zeros(DType::kI32, {kLength}), mask = Array::Zeros(DType::kF32, {kLength});
    for (size_t i = 0; i < std::min<size_t>(kLength, texts_.words[row].size()); ++i) {
      const auto word = texts_.vocabulary.find(texts_.words[row][i]);
      ids.mutable_data<int32_t>()[i] =
          static_cast<int32_t>(word == texts_.vocabulary.end() ? kUnknown : word->second);
      mask.mutable_data<float>()[i] = 1;
    }
    if (texts_.words[row].empty()) {  // one unknown token: the mean over no tokens is NaN
      ids.mutable_data<int32_t>()[0] = static_cast<int32_t>(kUnknown);
      mask.mutable_data<float>()[0] = 1;
    }
    return data::Sample{{"input_ids", ids},
                        {"attention_mask", mask},
                        {"label", Array::Scalar<int64_t>(texts_.labels[row])}};
  }

 private:
  const Texts& texts_;
  std::vector<size_t> rows_;
};

// ---- The model ----

struct Classifier : torch::nn::Module {
  torch::nn::Embedding tokens, positions;
  torch::nn::TransformerEncoderLayer encoder;
  torch::nn::Linear head;

  Classifier(int64_t vocabulary, int64_t classes)
      : tokens(register_module("tokens", torch::nn::Embedding(vocabulary, kDim))),
        positions(register_module("positions", torch::nn::Embedding(kLength, kDim))),
        encoder(register_module("encoder",
                                torch::nn::TransformerEncoderLayer(
                                    kDim, 4, {.dim_feedforward = 2 * kDim, .batch_first = true}))),
        head(register_module("head", torch::nn::Linear(kDim, classes))) {}

  // Logits of the mean over the real tokens.
  torch::Tensor forward(const torch::Tensor& ids, const torch::Tensor& mask) {
    const torch::Tensor place = torch::arange(kLength, {.device = ids.device()});
    torch::Tensor x = tokens(ids) + positions(place);
    x = encoder->forward(x, {}, torch::eq(mask, 0.0));
    const torch::Tensor weight = torch::unsqueeze(mask, -1);
    return head(torch::sum(x * weight, 1) / torch::sum(weight, 1));
  }

  static constexpr int64_t kDim = 32;
};

// ---- One core's part ----

absl::StatusOr<double> Accuracy(Classifier& model, data::DataLoader& loader,
                                const torch::Device& device) {
  const torch::no_grad no_grad;
  model.eval();
  double right = 0, all = 0;
  pl::MpDeviceLoader batches(loader, device);
  for (const pl::TensorBatch& batch : batches) {
    const torch::Tensor logits = model.forward(batch["input_ids"], batch["attention_mask"]);
    const torch::Tensor hits = torch::eq(torch::argmax(logits, -1), batch["label"]);
    PENSTOCK_ASSIGN_OR_RETURN(const Array count, torch::sum(hits).cpu());
    right += count.item<double>();
    all += static_cast<double>(batch["label"].numel());
  }
  PENSTOCK_RETURN_IF_ERROR(batches.status());
  model.train();
  return xm::mesh_reduce("accuracy", right / all, xm::mean);
}

absl::Status TrainReplica(const Options& options, const Texts& texts) {
  PENSTOCK_ASSIGN_OR_RETURN(const torch::Device device, xm::xla_device());
  torch::manual_seed(1);  // the same weights on every core
  Classifier model(2 + static_cast<int64_t>(texts.vocabulary.size()), texts.classes);
  model.to(device);

  const auto train = std::make_shared<TextDataset>(texts, false);
  const auto test = std::make_shared<TextDataset>(texts, true);
  const auto sampler = std::make_shared<data::DistributedSampler>(train->size());
  data::DataLoader loader(
      train,
      {.batch_size = options.batch_size, .sampler = sampler, .num_workers = 1, .drop_last = true});
  data::DataLoader test_loader(
      test, {.batch_size = options.batch_size,
             .sampler = std::make_shared<data::DistributedSampler>(
                 test->size(), data::DistributedSamplerOptions{.shuffle = false})});

  torch::optim::AdamW optimizer(model.parameters(), {.lr = options.learning_rate});
  torch::optim::lr_scheduler::LinearLR scheduler(optimizer, 1.0 / 3, 1, 10);
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    sampler->set_epoch(epoch);
    pl::ParallelLoader parallel(loader, {device});
    auto batches = parallel.per_device_loader(device);
    torch::Tensor loss;
    for (const pl::TensorBatch& batch : batches) {
      optimizer.zero_grad();
      const torch::Tensor logits = model.forward(batch["input_ids"], batch["attention_mask"]);
      loss = torch::nn::functional::cross_entropy(logits, batch["label"]);
      loss.backward();
      PENSTOCK_RETURN_IF_ERROR(xm::optimizer_step(optimizer));
      scheduler.step();
    }
    PENSTOCK_RETURN_IF_ERROR(batches.status());
    if (!loss.defined()) {
      return absl::InvalidArgumentError(
          "there are fewer texts than --nprocs times --batch-size; reduce one of them");
    }
    PENSTOCK_ASSIGN_OR_RETURN(const double last, loss.item<double>());
    PENSTOCK_ASSIGN_OR_RETURN(const double accuracy, Accuracy(model, test_loader, device));
    xm::master_print("epoch", epoch + 1, "loss", last, "held-out accuracy", accuracy);
  }
  if (options.save.empty()) return absl::OkStatus();
  return torch::xser::save(model.state_dict(), options.save);
}

absl::Status Run(const Options& options) {
  using penstock::io::FileSystem;
  if (!options.save.empty()) {  // before the training whose weights it will hold
    PENSTOCK_RETURN_IF_ERROR(penstock::io::CheckWritableFile(*FileSystem::Default(), options.save));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Texts texts, ReadTexts(options.file));
  return torch::xmp::spawn([&](int) { return TrainReplica(options, texts); },
                           {.nprocs = options.nprocs, .device = options.device});
}

int Usage() {
  std::fprintf(stderr,
               "usage: text_classifier TEXTS.csv [--nprocs N] [--epochs N] [--batch-size N] "
               "[--lr RATE] [--device cpu|gpu|tpu] [--save FILE]\n");
  return 2;
}

bool Parse(int argc, char** argv, Options& options) {
  if (argc < 2 || argc % 2 != 0) return false;
  options.file = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--nprocs") {
      if (!absl::SimpleAtoi(value, &options.nprocs) || options.nprocs < 1) return false;
    } else if (name == "--epochs") {
      if (!absl::SimpleAtoi(value, &options.epochs) || options.epochs < 1) return false;
    } else if (name == "--batch-size") {
      if (!absl::SimpleAtoi(value, &options.batch_size) || options.batch_size < 1) return false;
    } else if (name == "--lr") {
      if (!absl::SimpleAtod(value, &options.learning_rate)) return false;
    } else if (name == "--device") {
      options.device = value;
    } else if (name == "--save") {
      options.save = value;
    } else {
      return false;
    }
  }
  return true;
}

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) return Usage();
  const absl::Status status = Run(options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
