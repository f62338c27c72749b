#include <cstdio>

#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/cli/bench_flags.h"
#include "penstock/cli/command.h"
#include "penstock/cli/print_json.h"
#include "penstock/diagnose/data_bench.h"

namespace penstock::cli {
namespace {

class Bench : public Command {
 public:
  void Describe(Options& options) override {
    Options data = options.Subcommand(
        "data",
        "Measure the throughput of an input pipeline and of each of its steps, and the gain from "
        "packing");
    data.Add("URI", pipeline_.options.data,
             "Shards, images, arrays (.npz, .npy), CSV or text: files, patterns (quote the "
             "*) or a folder, local, gs:// or s3://")
        .Required();
    pipeline_.Describe(data);
    bench_.Describe(data);
    data.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    PENSTOCK_ASSIGN_OR_RETURN(
        const diagnose::DataBench bench,
        diagnose::BenchData(io::FileSystem::Default(), pipeline_.Value(), bench_.options));
    if (json_) {
      PrintJson(diagnose::DataBenchJson(bench));
    } else {
      std::printf("%s", diagnose::PrintDataBench(bench).c_str());
    }
    return absl::OkStatus();
  }

 private:
  PipelineFlags pipeline_;
  BenchFlags bench_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> BenchCommand() { return std::make_unique<Bench>(); }

}  // namespace penstock::cli
