#include "absl/strings/str_cat.h"

#include "penstock/session/lowering.h"
#include "penstock/session/run/host_input.h"
#include "penstock/session/tpu.h"

namespace penstock::session::tpu {
namespace {

// The names of the session's devices.
class DeviceNames : public HostInput {
 public:
  explicit DeviceNames(absl::Span<const runtime::Device> devices) {
    for (const runtime::Device& device : devices) {
      names_.push_back(absl::StrCat("/device:", device.kind, ":", device.index));
    }
  }
  absl::StatusOr<std::vector<Array>> Next() override {
    return std::vector<Array>{Array::Strings({static_cast<int64_t>(names_.size())}, names_)};
  }

 private:
  std::vector<std::string> names_;
};

struct DeviceNamesSource : HostInputSource {
  absl::StatusOr<std::unique_ptr<HostInput>> Open(uint64_t) override {
    return absl::InternalError("the devices are unknown (a bug)");
  }
  absl::StatusOr<std::unique_ptr<HostInput>> OpenFor(absl::Span<const runtime::Device> devices,
                                                     uint64_t) override {
    return std::make_unique<DeviceNames>(devices);
  }
};

}  // namespace

Tensor InitializeSystem(SourceLocation where) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return Tensor();
  Node* const node =
      graph->AddNode({.type = "ConfigureDistributedTPU",
                      .outputs = std::vector<Node::Output>{{base::DType::kString, Shape{-1}}},
                      .stateful = true,
                      .extra = std::make_shared<DeviceNamesSource>()},
                     {}, nullptr, where);
  return node == nullptr ? Tensor() : Tensor(node, 0);
}

Operation ShutdownSystem(SourceLocation where) {
  Graph* const graph = Graph::Default();
  if (graph == nullptr) return Operation();
  return Operation(graph->AddNode(
      {.type = "ShutdownDistributedTPU", .outputs = std::vector<Node::Output>(), .stateful = true},
      {}, [](Lowering&, const ir::Values&) { return ir::Values(); }, where));
}

}  // namespace penstock::session::tpu
