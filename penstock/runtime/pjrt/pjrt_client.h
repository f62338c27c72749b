// PjrtClient: runtime::Client on a PJRT plugin in this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/runtime/cache/program_cache.h"
#include "penstock/runtime/client.h"
#include "penstock/runtime/program_dump.h"

struct PJRT_Api;
struct PJRT_Client;
struct PJRT_Device;

namespace penstock::runtime {

class PjrtExecutable;

class PjrtClient final : public Client, public std::enable_shared_from_this<PjrtClient> {
 public:
  static absl::StatusOr<std::shared_ptr<PjrtClient>> Create(const Plugin& plugin,
                                                            const ClientOptions& options);
  ~PjrtClient() override;

  const std::string& platform() const override { return platform_; }
  const std::string& version() const override { return version_; }
  absl::Span<const Device> devices() const override { return devices_; }
  absl::StatusOr<std::shared_ptr<Executable>> Compile(const ir::Program& program,
                                                      const CompileOptions& options) override;
  absl::StatusOr<Buffer> Put(const Array& array, const Device& device) override;
  FreeMemoryInfo FreeMemory(const Device& device) override;
  absl::Status AddKernels(absl::Span<const Kernel> kernels) override;
  void Log(absl::string_view line) override;

  const PJRT_Api* api() const { return api_; }
  // Whether devices use host memory.
  bool on_cpu() const { return on_cpu_; }

 private:
  PjrtClient(const PJRT_Api* api, PJRT_Client* client) : api_(api), client_(client) {}
  absl::Status ReadDevices();
  absl::StatusOr<Device> ReadDevice(PJRT_Device* handle) const;
  void OpenCache(const Plugin& plugin, const ClientOptions& options);
  absl::StatusOr<PJRT_LoadedExecutable*> CompileText(const ir::Program& program,
                                                     const std::string& encoded_options) const;

  const PJRT_Api* const api_;
  PJRT_Client* const client_;
  std::string platform_, version_, log_path_;
  bool kernels_ = true;
  bool on_cpu_ = false;
  std::vector<Device> devices_;  // addressable ones
  std::vector<PJRT_Device*> handles_;
  std::unique_ptr<ProgramCache> cache_;
  std::unique_ptr<ProgramDump> dump_;  // nullptr: not requested
};

}  // namespace penstock::runtime
