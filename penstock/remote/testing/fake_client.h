// FakeClient: a runtime::Client of two devices without a compiler. Every program returns zeros; transfers
// are complete at once. For tests and fuzz targets of what stands above a client.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/runtime/client.h"
#include "penstock/runtime/program_check.h"

namespace penstock::remote {

class FakeEvent : public runtime::Event {
 public:
  absl::Status Await() override { return absl::OkStatus(); }
  bool IsReady() override { return true; }
  void OnReady(std::function<void(absl::Status)> callback) override { callback(absl::OkStatus()); }
};

class FakeBuffer : public runtime::BufferImpl {
 public:
  FakeBuffer(base::Array array, const runtime::Device* device)
      : array_(std::move(array)), type_{array_.dtype(), array_.shape()}, device_(device) {}

  const ir::TensorType& type() const override { return type_; }
  const runtime::Device& device() const override { return *device_; }
  bool donated() const override { return false; }
  absl::Status Await() override { return absl::OkStatus(); }
  absl::StatusOr<base::Array> Get() override { return array_.Clone(); }
  absl::StatusOr<std::shared_ptr<runtime::Event>> GetAsync(base::Array out) override {
    const auto* from = static_cast<const char*>(array_.raw());
    std::copy(from, from + array_.num_bytes(), static_cast<char*>(out.mutable_raw()));
    return std::make_shared<FakeEvent>();
  }

 private:
  const base::Array array_;
  const ir::TensorType type_;
  const runtime::Device* const device_;
};

class FakeExecutable : public runtime::Executable {
 public:
  FakeExecutable(ir::Program program, std::vector<const runtime::Device*> devices)
      : program_(std::move(program)), devices_(std::move(devices)) {}

  const ir::Program& program() const override { return program_; }
  absl::StatusOr<std::vector<runtime::Buffers>> Execute(
      absl::Span<const runtime::Buffers> arguments) override {
    PENSTOCK_RETURN_IF_ERROR(runtime::CheckArguments(program_, devices_, arguments));
    std::vector<runtime::Buffers> out(devices_.size());
    for (size_t i = 0; i < devices_.size(); ++i) {
      for (const ir::TensorType& type : program_.results) {
        out[i].emplace_back(
            std::make_shared<FakeBuffer>(base::Array::Zeros(type.dtype, type.shape), devices_[i]));
      }
    }
    return out;
  }
  absl::StatusOr<runtime::MemoryStats> Memory() const override { return runtime::MemoryStats(); }
  absl::StatusOr<runtime::CostEstimate> Cost() const override { return runtime::CostEstimate(); }

 private:
  const ir::Program program_;
  const std::vector<const runtime::Device*> devices_;
};

class FakeClient : public runtime::Client {
 public:
  const std::string& platform() const override { return platform_; }
  const std::string& version() const override { return platform_; }
  absl::Span<const runtime::Device> devices() const override { return devices_; }
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      const ir::Program& program, const runtime::CompileOptions& options) override {
    PENSTOCK_RETURN_IF_ERROR(runtime::CheckProgram(program));
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<int> chosen,
                              runtime::ChooseDevices(program, options, devices_));
    std::vector<const runtime::Device*> devices;
    for (const int index : chosen) devices.push_back(&devices_[static_cast<size_t>(index)]);
    return std::make_shared<FakeExecutable>(program, std::move(devices));
  }
  absl::StatusOr<runtime::Buffer> Put(const base::Array& array,
                                      const runtime::Device& device) override {
    return runtime::Buffer(std::make_shared<FakeBuffer>(array, &device));
  }

 private:
  const std::string platform_ = "fake";
  const std::vector<runtime::Device> devices_ = {
      {.id = 0, .index = 0, .kind = "fake", .description = "FakeDevice(0)"},
      {.id = 1, .index = 1, .kind = "fake", .description = "FakeDevice(1)"}};
};

}  // namespace penstock::remote
