#include "penstock/cli/attach.h"

#include <cstdio>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/cli/command.h"
#include "penstock/cli/legible.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/training/follow_training.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/resolver.h"
#include "penstock/remote/worker/session_table.h"

namespace penstock::cli {
namespace {

using remote::LegibleSeconds;

constexpr int64_t kTailBytes = 4096;  // of what a training has printed before

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

std::string DeviceList(const remote::SessionInfo& session) {
  if (session.devices_size() == 0) return "no devices";
  const int first = session.devices(0), last = session.devices(session.devices_size() - 1);
  if (session.devices_size() == 1) return absl::StrCat("device ", first);
  if (last - first + 1 == session.devices_size()) return absl::StrCat("devices ", first, "-", last);
  return absl::StrCat("devices ", absl::StrJoin(session.devices(), ","));
}

nlohmann::ordered_json SessionJson(const remote::SessionInfo& session) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const int device : session.devices()) devices.push_back(device);
  return {{"session", session.session()},
          {"host", session.host()},
          {"user", session.user()},
          {"since_unix_seconds", session.since_unix_seconds()},
          {"idle_seconds", session.idle_seconds()},
          {"connected", session.connected()},
          {"lease_remaining_seconds", session.lease_remaining_seconds()},
          {"devices", devices},
          {"buffers", session.buffers()},
          {"buffer_bytes", session.buffer_bytes()},
          {"programs", session.programs()},
          {"executions", session.executions()},
          {"bytes_received", session.bytes_received()},
          {"bytes_sent", session.bytes_sent()},
          {"activity", session.activity()},
          {"last_error", session.last_error()},
          {"training", session.training()}};
}

nlohmann::ordered_json TrainingJson(const remote::TrainingInfo& training) {
  const char* state = "starting";
  if (training.state() == remote::TrainingInfo::RUNNING) state = "running";
  if (training.state() == remote::TrainingInfo::STOPPING) state = "stopping";
  if (training.state() == remote::TrainingInfo::ENDED) state = "ended";
  return {{"training", training.training()},
          {"host", training.host()},
          {"user", training.user()},
          {"since_unix_seconds", training.since_unix_seconds()},
          {"state", state},
          {"exit_code", training.exit_code()},
          {"end", training.end()},
          {"ended_unix_seconds", training.ended_unix_seconds()},
          {"command", training.command()},
          {"starts", training.starts()}};
}

class Attach : public Command {
 public:
  void Describe(Options& options) override {
    options.Add("address", address_, "Address of the worker: grpc://HOST:PORT or HOST:PORT")
        .Required();
    options.Add("training", training_,
                "Training to follow (`penstock train --detach`): prints what it prints; the exit "
                "code is the training's. Ctrl-C ends this command only");
    options.AddFlag(
        "--stop", stop_,
        "Ask the training to save a checkpoint and to end; a second time: to end at once");
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    PENSTOCK_ASSIGN_OR_RETURN(const std::string address, remote::ParseAddress(address_));
    if (stop_ && training_.empty()) {
      return absl::InvalidArgumentError(
          "--stop needs the training: penstock attach ADDRESS ID --stop");
    }
    if (!training_.empty()) return Follow(address);
    PENSTOCK_ASSIGN_OR_RETURN(const remote::DescribeReply reply,
                              remote::DescribeWorker({.address = address}));
    json_ ? PrintAsJson(address, reply) : Print(address, reply);
    return absl::OkStatus();
  }

  int failure_code() const override { return failure_code_; }

 private:
  absl::Status Follow(const std::string& address) {
    int64_t offset = -kTailBytes;
    if (stop_) {
      remote::TrainingRequest request;
      request.mutable_stop()->set_training(training_);
      PENSTOCK_ASSIGN_OR_RETURN(const remote::TrainingReply reply,
                                remote::CallTraining({.address = address}, std::move(request)));
      offset = reply.offset();
    }
    PENSTOCK_ASSIGN_OR_RETURN(const remote::TrainingInfo info,
                              FollowTraining(address, training_, offset, FollowUntil::kEnded));
    const std::string line = absl::StrCat("training ", training_, " ", LegibleLine(info.end()));
    // What was asked for is no failure.
    if (info.exit_code() == 0 || (stop_ && info.exit_code() == kInterrupted)) {
      std::fprintf(stderr, "%s\n", line.c_str());
      return absl::OkStatus();
    }
    failure_code_ = info.exit_code();
    return absl::AbortedError(line);
  }

  static void Print(const std::string& address, const remote::DescribeReply& reply) {
    const remote::WorkerInfo& worker = reply.worker();
    std::printf("%s on %s: %s, %d device%s, up %s%s\n", address.c_str(),
                LegibleLine(worker.host()).c_str(), LegibleLine(worker.platform()).c_str(),
                worker.devices_size(), worker.devices_size() == 1 ? "" : "s",
                LegibleSeconds(reply.uptime_seconds()).c_str(),
                reply.draining()
                    ? absl::StrCat(", draining (", LegibleLine(reply.drain_reason()), ")").c_str()
                    : "");
    if (!worker.previous_end().empty()) std::printf("%s\n", Legible(worker.previous_end()).c_str());
    if (reply.sessions_size() == 0) std::printf("no sessions\n");
    for (const remote::SessionInfo& session : reply.sessions()) {
      std::printf(
          "%s\n  %lld buffers of %s, %lld programs, %lld executions, received %s, sent %s\n",
          SessionLine(session).c_str(), static_cast<long long>(session.buffers()),
          Megabytes(session.buffer_bytes()).c_str(), static_cast<long long>(session.programs()),
          static_cast<long long>(session.executions()), Megabytes(session.bytes_received()).c_str(),
          Megabytes(session.bytes_sent()).c_str());
    }
    for (const remote::TrainingInfo& training : reply.trainings()) {
      std::printf("%s\n", TrainingLine(training).c_str());
    }
    if (reply.log_lines_size() > 0) std::printf("the end of its log:\n");
    for (const std::string& line : reply.log_lines()) {
      std::printf("  %s\n", LegibleLine(line).c_str());
    }
  }

  static void PrintAsJson(const std::string& address, const remote::DescribeReply& reply) {
    nlohmann::ordered_json json = {{"address", address},
                                   {"host", reply.worker().host()},
                                   {"platform", reply.worker().platform()},
                                   {"devices", reply.worker().devices_size()},
                                   {"uptime_seconds", reply.uptime_seconds()},
                                   {"draining", reply.draining()},
                                   {"drain_reason", reply.drain_reason()},
                                   {"previous_end", reply.worker().previous_end()}};
    json["sessions"] = nlohmann::ordered_json::array();
    for (const auto& session : reply.sessions()) json["sessions"].push_back(SessionJson(session));
    json["trainings"] = nlohmann::ordered_json::array();
    for (const auto& training : reply.trainings()) {
      json["trainings"].push_back(TrainingJson(training));
    }
    json["log"] = nlohmann::ordered_json::array();
    for (const std::string& line : reply.log_lines()) json["log"].push_back(line);
    PrintJson(json);
  }

  std::string address_, training_;
  bool json_ = false, stop_ = false;
  int failure_code_ = kFailed;
};

}  // namespace

std::string SessionLine(const remote::SessionInfo& session) {
  const auto since = static_cast<std::time_t>(session.since_unix_seconds());
  std::tm parts = {};
  localtime_r(&since, &parts);
  std::string line = absl::StrFormat("session %s of %s at %s since %02d:%02d, idle %s, %s",
                                     LegibleLine(session.session()), LegibleLine(session.user()),
                                     LegibleLine(session.host()), parts.tm_hour, parts.tm_min,
                                     LegibleSeconds(session.idle_seconds()), DeviceList(session));
  if (!session.connected()) {
    absl::StrAppend(&line, ", disconnected, ends in ",
                    LegibleSeconds(session.lease_remaining_seconds()));
  }
  if (!session.activity().empty()) absl::StrAppend(&line, ": ", LegibleLine(session.activity()));
  return line;
}

std::unique_ptr<Command> AttachCommand() { return std::make_unique<Attach>(); }

}  // namespace penstock::cli
