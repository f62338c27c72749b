// TakeOvers: for how long trainings that their owner takes over may go on. What a training has saved is never lost; what
// it has trained since is saved first, if that can be.
//
//   TakeOvers take_overs;
//   if (take_overs.Begin(id, "ada at laptop")) AskToSaveAndEnd(id);   // SIGTERM
//   const TakeOvers::Verdict verdict = take_overs.Look(id, {.compiling = "eval_step", .step = 1240});
//   if (verdict.kill) Kill(id);   // verdict.words say how it ended and what was lost; else for what is waited, until when
//   take_overs.Forget(id);        // it has ended
//
// A training looks at SIGTERM between two steps. While it compiles, which may take many minutes, it cannot. So one that
// compiles and has trained no step, is killed at once: it has nothing to save. One with steps is waited for.
//
// It decides and remembers, without processes. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "penstock/base/clock.h"

namespace penstock::remote {

struct TakeOverLimits {
  double nothing_seconds = 8;  // to end, for a training without a step
  double save_seconds =
      120;  // to finish its step, save and end; begins again with the end of a compile
  double compile_seconds = 900;  // for the compile, and all others that follow
};

class TakeOvers {
 public:
  explicit TakeOvers(const TakeOverLimits& limits = {}, base::Clock* clock = base::Clock::Real())
      : limits_(limits), clock_(clock) {}

  // `by`: who takes over. False if that has begun before.
  bool Begin(const std::string& id, const std::string& by);
  // What a training does now.
  struct Activity {
    std::string compiling = {};  // name of the program; empty: none
    int64_t step = 0;            // the last one that it has begun; 0: none
  };
  struct Verdict {
    bool kill = false;
    std::string words;
  };
  // After Begin.
  Verdict Look(const std::string& id, const Activity& activity);
  void Forget(const std::string& id);

 private:
  struct TakeOver {
    std::string by;
    double since = 0;
    double save_since = 0;  // since it is not compiling
    bool has_compiled = false;
  };
  std::string GivesUpIn(double seconds) const;

  const TakeOverLimits limits_;
  base::Clock* const clock_;
  std::mutex mutex_;
  std::map<std::string, TakeOver> take_overs_;
};

}  // namespace penstock::remote
