#include "penstock/monitor/metric_names.h"

namespace penstock::monitor {
namespace {

constexpr MetricKind kC = MetricKind::kCounter, kG = MetricKind::kGauge;

constexpr MetricRow kMetrics[] = {
    // ---- Work ----
    {"penstock_steps_total", kC, nullptr, false, "Completed training steps of this run"},
    {"penstock_examples_total", kC, nullptr, false, "Examples of these steps, without padding"},
    {"penstock_executions_total", kC, nullptr, false,
     "Executions of the step program; each runs one step or several"},
    {"penstock_training_seconds_total", kC, nullptr, false,
     "Time of the training without validation"},
    {"penstock_idle_seconds_total", kC, "cause", false,
     "Time in which the devices were idle, by what the host was doing"},
    {"penstock_infeed_seconds_total", kC, nullptr, false,
     "Time that the training loop spent taking batches and starting their transfers"},
    {"penstock_compilations_total", kC, nullptr, false, "Compiled programs, cached ones included"},
    {"penstock_compile_seconds_total", kC, nullptr, false, "Time of these compilations"},
    {"penstock_events_total", kC, "kind", false, "Events by kind"},
    {"penstock_step_duration_seconds", MetricKind::kHistogram, nullptr, false,
     "Time from the end of one step to the end of the next"},
    // ---- The last ten seconds ----
    {"penstock_idle_ratio", kG, nullptr, true, "Share of the time in which the devices were idle"},
    {"penstock_idle_cause_ratio", kG, "cause", true, "The same by what the host was doing"},
    {"penstock_mxu_ratio", kG, nullptr, true,
     "Floating-point operations per second over the peak of the devices"},
    {"penstock_flops_per_second", kG, nullptr, true, "Floating-point operations per second"},
    {"penstock_infeed_ratio", kG, nullptr, true,
     "Share of the time that the training loop spent taking batches"},
    {"penstock_examples_per_second", kG, nullptr, true, "Examples per second"},
    {"penstock_step_p50_seconds", kG, nullptr, true, "Median time of a step"},
    {"penstock_step_p99_seconds", kG, nullptr, true, "99th percentile of the time of a step"},
    // ---- State ----
    {"penstock_epoch", kG, nullptr, false, "Current epoch, from 1"},
    {"penstock_epochs", kG, nullptr, false, "Number of epochs of the training"},
    {"penstock_epoch_step", kG, nullptr, false, "Completed steps of the current epoch"},
    {"penstock_steps_per_epoch", kG, nullptr, false,
     "Steps of an epoch; absent in the first one, if it is unknown"},
    {"penstock_learning_rate", kG, nullptr, true, "Learning rate of the next step"},
    {"penstock_log", kG, "name", true, "Loss and metrics by name, running means of the epoch"},
    {"penstock_seconds_since_step", kG, nullptr, false, "Time since the end of the last step"},
    // ---- Devices ----
    {"penstock_devices", kG, nullptr, false, "Devices that the training uses"},
    {"penstock_flops_per_step", kG, nullptr, false,
     "Floating-point operations of a step on all devices, by the compiler's cost analysis and the "
     "formulas of kernels"},
    {"penstock_peak_flops", kG, nullptr, false,
     "Peak floating-point operations per second of all devices that the training uses"},
    {"penstock_device_memory_free_bytes", kG, "device", true, "Free memory of a device"},
    {"penstock_device_memory_total_bytes", kG, "device", false, "Memory of a device"},
    // ---- Input pipeline ----
    {"penstock_pipeline_stage_busy_seconds", kG, "stage", false,
     "Time of work of a stage in the current pass, summed over threads"},
    {"penstock_pipeline_stage_elements", kG, "stage", false,
     "Elements that left a stage in the current pass"},
    {"penstock_pipeline_stage_utilization_ratio", kG, "stage", true,
     "Utilization of a stage; about 1: it limits the pipeline"},
    {"penstock_pipeline_skipped", kG, "stage", false,
     "Elements that a stage skipped because of errors in the current pass"},
    {"penstock_pipeline_memory_bytes", kG, nullptr, true, "Memory that the pipeline's stages hold"},
    // ---- A worker ----
    {"penstock_worker_sessions", kG, nullptr, true, "Sessions of the worker"},
    {"penstock_worker_uptime_seconds", kG, nullptr, false, "Time since the worker was started"},
    {"penstock_worker_idle_ratio", kG, nullptr, true,
     "Share of the time in which the worker's devices executed nothing, over all devices"},
    {"penstock_session_executions_total", kC, "session", false, "Executions of a session"},
    {"penstock_session_bytes_received_total", kC, "session", false, "Bytes from a client"},
    {"penstock_session_bytes_sent_total", kC, "session", false, "Bytes to a client"},
    {"penstock_session_executions_per_second", kG, "session", true, "Executions per second"},
    {"penstock_session_bytes_per_second", kG, "session", true,
     "Bytes from and to a client per second"},
    {"penstock_session_busy_ratio", kG, "session", true,
     "Share of the time in which the devices executed programs of a session"},
    {"penstock_session_idle_seconds", kG, "session", false, "Time since a client's last request"},
    {"penstock_session_seconds", kG, "session", false, "Time since a session was opened"},
    {"penstock_session_connected", kG, "session", false,
     "1 if the client is connected, 0 while its lease runs"},
    {"penstock_session_devices", kG, "session", false, "Devices of a session"},
    {"penstock_session_memory_bytes", kG, "session", true, "Memory of a session's tensors"},
    // ---- libtpu ----
    {"penstock_tpu_duty_cycle_ratio", kG, "device", true,
     "Share of the time in which a TensorCore was busy, by libtpu"},
    {"penstock_tpu_memory_used_bytes", kG, "device", true, "Used memory of a TPU, by libtpu"},
    {"penstock_tpu_memory_total_bytes", kG, "device", false, "Memory of a TPU, by libtpu"},
};

}  // namespace

absl::string_view NameOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
  }
  return "";
}

absl::Span<const MetricRow> AllMetrics() { return kMetrics; }

const MetricRow* FindMetric(absl::string_view name) {
  for (const MetricRow& row : kMetrics) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace penstock::monitor
