#include "penstock/train/callbacks/terminate_on_nan.h"

namespace penstock::train {
namespace {

class TerminateOnNanCallback : public Callback {
 public:
  bool ObservesBatchBegin() const override { return false; }
  bool StopsOnNan() const override { return true; }
};

}  // namespace

std::shared_ptr<Callback> TerminateOnNan() { return std::make_shared<TerminateOnNanCallback>(); }

}  // namespace penstock::train
