#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "penstock/base/status.h"
#include "penstock/cli/training/detached.h"
#include "penstock/data/travel/allowed_paths.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/remote/training/training_record.h"

namespace penstock::cli {
namespace {

const std::vector<std::string>& Readable() {
  static const auto& prefixes = *new std::vector<std::string>{"gs://in/", "/data/in/"};
  return prefixes;
}
const std::vector<std::string>& Writable() {
  static const auto& prefixes = *new std::vector<std::string>{"gs://out/"};
  return prefixes;
}

// What a worker accepts names no other files, is accepted again, and comes back from the record that its next run reads.
void CheckArguments(const std::vector<std::string>& arguments) {
  const auto checked = CheckDetachedArguments(arguments, Readable(), Writable());
  if (!checked.ok()) return;
  const auto again = CheckDetachedArguments(checked->first, Readable(), Writable());
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK(*again == *checked);
  const data::AllowedPaths allowed(Readable(), Writable());
  std::string option;
  for (const std::string& word : checked->first) {
    if (!DetachedRole(word).empty()) {
      option = word;
      continue;
    }
    const std::string role = DetachedRole(option);
    if (role == "reads" || role == "writes") {
      PENSTOCK_CHECK_OK(allowed.Check(word, role == "writes"));
    }
  }
  remote::TrainingRecord record{.id = std::string(16, 'a'), .arguments = checked->first};
  const auto read = remote::TrainingRecordFromJson(remote::TrainingRecordToJson(record));
  PENSTOCK_CHECK_OK(read);
  PENSTOCK_CHECK(read->arguments == record.arguments);
  PENSTOCK_CHECK(remote::TrainingCommandLine(record.arguments).size() <= 500);
}

}  // namespace
}  // namespace penstock::cli

// A TrainingRequest of a client (any bytes), as a worker reads it; or, after a 0, the arguments of its StartTraining, one
// a line, which is easier to mutate. Also the record of a training, which is a file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.empty() && bytes[0] == '\0') {
    cli::CheckArguments(absl::StrSplit(bytes.substr(1), '\n'));
    return 0;
  }
  remote::TrainingRequest request;
  if (request.ParseFromArray(data, static_cast<int>(size))) {
    const auto& arguments = request.start().arguments();
    cli::CheckArguments({arguments.begin(), arguments.end()});
  }
  if (const auto record = remote::TrainingRecordFromJson(bytes); record.ok()) {
    PENSTOCK_CHECK_OK(remote::TrainingRecordFromJson(remote::TrainingRecordToJson(*record)));
    remote::TrainingCommandLine(record->arguments);
  }
  return 0;
}
