#include "penstock/lazy/grad_mode.h"

#include "penstock/lazy/trace.h"

namespace penstock::lazy {

bool is_grad_enabled() { return Recorder::OfThread().grad_enabled; }

set_grad_enabled::set_grad_enabled(bool mode) : outer_(is_grad_enabled()) {
  Recorder::OfThread().grad_enabled = mode;
}
set_grad_enabled::~set_grad_enabled() { Recorder::OfThread().grad_enabled = outer_; }

}  // namespace penstock::lazy
