#include <cstdio>

#include "nlohmann/json.hpp"

#include "penstock/cli/command.h"
#include "penstock/cli/data_bench.h"

namespace penstock::cli {
namespace {

class Bench : public Command {
 public:
  void Describe(Options& options) override {
    Options data = options.Subcommand(
        "data",
        "How fast an input pipeline is, what each step of it costs, and what packing gains");
    data.Add("URI", pipeline_.data,
             "Shards, images, arrays (.npz, .npy), CSV or text: files, patterns (quote the "
             "*) or a folder, local, gs:// or s3://")
        .Required();
    pipeline_.Describe(data);
    options_.Describe(data);
    data.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    PENSTOCK_ASSIGN_OR_RETURN(const DataBench bench,
                              BenchData(io::FileSystem::Default(), pipeline_, options_, stderr));
    if (json_) {
      std::printf("%s\n", DataBenchJson(bench)
                              .dump(2, ' ', false, nlohmann::detail::error_handler_t::replace)
                              .c_str());
    } else {
      std::printf("%s", PrintDataBench(bench).c_str());
    }
    return absl::OkStatus();
  }

 private:
  PipelineOptions pipeline_;
  DataBenchOptions options_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> BenchCommand() { return std::make_unique<Bench>(); }

}  // namespace penstock::cli
