#include "penstock/runtime/program_check.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"

namespace penstock::runtime {
namespace {

std::string TypeName(const TensorType& type) {
  return absl::StrCat(base::DTypeName(type.dtype), type.shape.ToString());
}

std::string NameOf(absl::Span<const std::string> names, size_t i) {
  return i < names.size() && !names[i].empty() ? absl::StrCat(" ('", names[i], "')") : "";
}

absl::Status CheckArgument(const ir::Program& program, size_t replica, size_t parameter,
                           const Device& device, const Buffer& argument) {
  const auto error = [&](auto... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat(ParameterName(program, replica, parameter), ": ", parts...));
  };
  if (!argument.valid()) return error("the buffer is empty");
  const TensorType& expected = program.parameters[parameter];
  const TensorType& got = argument.type();
  if (!(got == expected)) return error("expected ", TypeName(expected), ", got ", TypeName(got));
  if (argument.device().index != device.index) {
    return error("expected a buffer on ", device.description, ", got one on ",
                 argument.device().description);
  }
  return absl::OkStatus();
}

std::string DescribeDevices(absl::Span<const Device> devices) {
  return absl::StrJoin(devices, ", ", [](std::string* out, const Device& device) {
    absl::StrAppend(out, device.index, ": ", device.description);
  });
}

}  // namespace

std::string ProgramName(const ir::Program& program) {
  return absl::StrCat("program '", program.name, "'");
}

std::string ParameterName(const ir::Program& program, size_t replica, size_t parameter) {
  return absl::StrCat("program '", program.name, "'",
                      program.num_replicas > 1 ? absl::StrCat(", replica ", replica) : "",
                      ", parameter ", parameter, NameOf(program.parameter_names, parameter));
}

absl::Status CheckProgram(const ir::Program& program) {
  const auto error = [&](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("program '", program.name, "': ", parts...));
  };
  if (program.num_replicas < 1) return error("it has ", program.num_replicas, " replicas");
  if (program.alias.size() > program.parameters.size()) {
    return error("it donates ", program.alias.size(), " parameters, but has ",
                 program.parameters.size());
  }
  std::vector<int> giver(program.results.size(), -1);
  for (size_t i = 0; i < program.alias.size(); ++i) {
    const int result = program.alias[i];
    if (result < 0) continue;
    if (result >= static_cast<int>(program.results.size())) {
      return error("parameter ", i, " is donated to result ", result, "; there are ",
                   program.results.size(), " results");
    }
    if (!(program.parameters[i] == program.results[result])) {
      return error("parameter ", i, NameOf(program.parameter_names, i), ", ",
                   TypeName(program.parameters[i]), ", is donated to result ", result,
                   NameOf(program.result_names, result), ", ", TypeName(program.results[result]),
                   "; a donated parameter and its result must have equal types");
    }
    if (giver[result] >= 0) {
      return error("parameters ", giver[result], " and ", i, " are both donated to result ",
                   result);
    }
    giver[result] = static_cast<int>(i);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> ChooseDevices(const ir::Program& program,
                                               const CompileOptions& options,
                                               absl::Span<const Device> devices) {
  std::vector<int> chosen = options.devices;
  const int available = static_cast<int>(devices.size());
  if (chosen.empty()) {
    if (program.num_replicas > available) {
      const bool on_cpu = !devices.empty() && devices[0].kind == "cpu";
      return absl::InvalidArgumentError(absl::StrCat(
          "program '", program.name, "' has ", program.num_replicas, " replicas, but there are ",
          available, " devices (", DescribeDevices(devices), ")",
          on_cpu ? "; ClientOptions::cpu_devices makes more" : ""));
    }
    for (int i = 0; i < program.num_replicas; ++i) chosen.push_back(i);
    return chosen;
  }
  if (static_cast<int>(chosen.size()) != program.num_replicas) {
    return absl::InvalidArgumentError(
        absl::StrCat("program '", program.name, "' has ", program.num_replicas,
                     " replicas, but CompileOptions::devices names ", chosen.size(), " devices"));
  }
  std::set<int> seen;
  for (int index : chosen) {
    if (index < 0 || index >= available) {
      return absl::InvalidArgumentError(absl::StrCat("CompileOptions::devices names device ", index,
                                                     "; there are ", available, " (",
                                                     DescribeDevices(devices), ")"));
    }
    if (!seen.insert(index).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("CompileOptions::devices names device ", index, " for two replicas"));
    }
  }
  return chosen;
}

absl::Status CheckDevice(const Device& device, absl::Span<const Device> devices) {
  if (device.index >= 0 && device.index < static_cast<int>(devices.size()) &&
      devices[static_cast<size_t>(device.index)].id == device.id) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("Put was given device '", device.description,
                                                 "', which does not belong to this client (",
                                                 DescribeDevices(devices), ")"));
}

absl::Status CheckArguments(const ir::Program& program, absl::Span<const Device* const> devices,
                            absl::Span<const Buffers> arguments) {
  if (arguments.size() != devices.size()) {
    return absl::InvalidArgumentError(absl::StrCat("program '", program.name,
                                                   "': expected arguments for ", devices.size(),
                                                   " replicas, got them for ", arguments.size()));
  }
  const size_t expected = program.parameters.size();
  for (size_t replica = 0; replica < arguments.size(); ++replica) {
    if (arguments[replica].size() != expected) {
      return absl::InvalidArgumentError(
          absl::StrCat("program '", program.name, "', replica ", replica, ": expected ", expected,
                       " arguments, got ", arguments[replica].size()));
    }
    for (size_t i = 0; i < expected; ++i) {
      PENSTOCK_RETURN_IF_ERROR(
          CheckArgument(program, replica, i, *devices[replica], arguments[replica][i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace penstock::runtime
