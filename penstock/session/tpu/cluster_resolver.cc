#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"
#include "penstock/session/tpu.h"

namespace penstock::session::tpu {
namespace {

constexpr absl::string_view kGrpc = "grpc://";

// Session's target for a TPU's name.
std::string TargetOf(absl::string_view tpu) {
  if (tpu.empty() || tpu == "local") return "";
  const bool device = tpu == "tpu" || tpu == "gpu" || tpu == "cpu";
  if (device || absl::StrContains(tpu, "://")) return std::string(tpu);
  return absl::StrCat(kGrpc, tpu);
}

}  // namespace

TPUClusterResolver::TPUClusterResolver(absl::string_view tpu, absl::string_view /*zone*/,
                                       absl::string_view /*project*/, absl::string_view job_name)
    : master_(TargetOf(tpu)), job_name_(job_name) {}

std::map<std::string, std::vector<std::string>> TPUClusterResolver::ClusterSpec() const {
  if (!absl::StartsWith(master_, kGrpc)) return {};
  return {{job_name_, {master_.substr(kGrpc.size())}}};
}

absl::StatusOr<std::map<std::string, int>> TPUClusterResolver::NumAccelerators(
    const ConfigProto& config) const {
  Graph graph;
  const Session session(master_, config, &graph);
  PENSTOCK_RETURN_IF_ERROR(session.status());
  std::map<std::string, int> counts;
  for (const runtime::Device& device : session.ListDevices()) {
    const std::vector<std::string> words = absl::StrSplit(device.kind, ' ');
    // The kind of a GPU begins with its maker.
    const std::string type = absl::AsciiStrToUpper(words[0]);
    ++counts[type == "CPU" || type == "TPU" ? type : "GPU"];
  }
  return counts;
}

}  // namespace penstock::session::tpu
