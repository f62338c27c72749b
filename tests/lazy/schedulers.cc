#include <cmath>
#include <limits>

#include "gtest/gtest.h"

#include "tests/lazy/rows.h"

namespace penstock::tests::lazy_rows {
namespace {

namespace lr = optim::lr_scheduler;
using optim::Optimizer;

// A scheduler that makes a step an epoch.
template <typename Make>
MakeStep EachEpoch(Make make) {
  return [make](Optimizer& o) { return [scheduler = make(o)](int) { scheduler->step(); }; };
}

MakeStep Plateau(lr::PlateauOptions options) {
  return [options](Optimizer& o) {
    return [scheduler = std::make_shared<lr::ReduceLROnPlateau>(o, options)](int epoch) {
      scheduler->step(std::sin(epoch) + (epoch < 8 ? 1 : 0));
    };
  };
}

MakeStep OneCycle(lr::OneCycleOptions options) {
  return EachEpoch(
      [options](Optimizer& o) { return std::make_shared<lr::OneCycleLR>(o, 0.8, options); });
}

std::shared_ptr<lr::LRScheduler> Sequential(Optimizer& o) {
  return std::make_shared<lr::SequentialLR>(
      o,
      std::vector<std::shared_ptr<lr::LRScheduler>>{
          std::make_shared<lr::LinearLR>(o, 0.1, 1, 5),
          std::make_shared<lr::CosineAnnealingLR>(o, 20, 0.01)},
      std::vector<int64_t>{5});
}

std::shared_ptr<lr::LRScheduler> SequentialOfMultiplicative(Optimizer& o) {
  return std::make_shared<lr::SequentialLR>(
      o,
      std::vector<std::shared_ptr<lr::LRScheduler>>{
          std::make_shared<lr::ConstantLR>(o, 0.1, 100),
          std::make_shared<lr::MultiplicativeLR>(o, [](int64_t) { return 0.9; })},
      std::vector<int64_t>{3});
}

std::shared_ptr<lr::LRScheduler> SequentialOfThree(Optimizer& o) {
  return std::make_shared<lr::SequentialLR>(
      o,
      std::vector<std::shared_ptr<lr::LRScheduler>>{std::make_shared<lr::ConstantLR>(o, 0.5, 3),
                                                    std::make_shared<lr::ExponentialLR>(o, 0.8),
                                                    std::make_shared<lr::StepLR>(o, 4, 0.5)},
      std::vector<int64_t>{4, 12});
}

// A scheduler that another one replaces after 11 steps, with its state and other initial rates.
template <typename Make, typename Step>
MakeStep Resumed(Make make, Step step) {
  return [make, step](Optimizer& o) {
    auto scheduler = make(o);
    return [&o, make, step, scheduler](int epoch) mutable {
      if (epoch == 11) {
        const base::NamedArrays state = scheduler->state_dict();
        std::vector<std::pair<double, double>> rates;
        for (Optimizer::Group& group : o.param_groups()) {
          rates.emplace_back(group.options["lr"], group.options["momentum"]);
          group.options["lr"] = 0.3;
          group.options.erase("initial_lr");
        }
        scheduler = make(o);
        EXPECT_TRUE(scheduler->load_state_dict(state).ok());
        for (size_t i = 0; i < rates.size(); ++i) {
          auto& options = o.param_groups()[i].options;
          options["lr"] = rates[i].first;
          options["momentum"] = rates[i].second;
        }
      }
      step(*scheduler, epoch);
    };
  };
}

template <typename S, typename... Args>
MakeStep ResumedOf(Args... args) {
  return Resumed([args...](Optimizer& o) { return std::make_shared<S>(o, args...); },
                 [](lr::LRScheduler& scheduler, int) { scheduler.step(); });
}

std::function<void(int)> Two(Optimizer& o) {
  const auto a = std::make_shared<lr::StepLR>(o, 5, 0.5);
  const auto b = std::make_shared<lr::ExponentialLR>(o, 0.97);
  return [a, b](int) {
    a->step();
    b->step();
  };
}

template <typename S, typename... Args>
MakeStep Plain(Args... args) {
  return EachEpoch([args...](Optimizer& o) { return std::make_shared<S>(o, args...); });
}

}  // namespace

std::vector<std::pair<std::string, MakeStep>> SchedulerRows() {
  return {
      {"StepLR", Plain<lr::StepLR>(7)},
      {"StepLR gamma", Plain<lr::StepLR>(3, 0.5)},
      {"MultiStepLR", Plain<lr::MultiStepLR>(std::vector<int64_t>{4, 9, 9, 20}, 0.3)},
      {"ExponentialLR", Plain<lr::ExponentialLR>(0.9)},
      {"ConstantLR", Plain<lr::ConstantLR>()},
      {"LinearLR", Plain<lr::LinearLR>()},
      {"LinearLR options", Plain<lr::LinearLR>(0.1, 0.7, 12)},
      {"PolynomialLR", Plain<lr::PolynomialLR>(10, 2.0)},
      {"LambdaLR", Plain<lr::LambdaLR>([](int64_t epoch) {
         return std::pow(0.95, epoch) / (1 + static_cast<double>(epoch));
       })},
      {"CosineAnnealingLR", Plain<lr::CosineAnnealingLR>(30)},
      {"CosineAnnealingLR repeated", Plain<lr::CosineAnnealingLR>(7, 0.005)},
      {"CosineAnnealingWarmRestarts", Plain<lr::CosineAnnealingWarmRestarts>(5)},
      {"CosineAnnealingWarmRestarts longer", Plain<lr::CosineAnnealingWarmRestarts>(4, 2, 0.001)},
      {"OneCycleLR", OneCycle({.total_steps = 31})},
      {"OneCycleLR to its last step", OneCycle({.total_steps = 30})},
      {"OneCycleLR linear", OneCycle({.epochs = 8,
                                      .steps_per_epoch = 4,
                                      .pct_start = 0.4,
                                      .anneal_strategy = "linear",
                                      .div_factor = 10,
                                      .final_div_factor = 100})},
      {"OneCycleLR of three phases", OneCycle({.total_steps = 40, .three_phase = true})},
      {"OneCycleLR without momentum", OneCycle({.total_steps = 35, .cycle_momentum = false})},
      {"ReduceLROnPlateau", Plateau({.patience = 2})},
      {"ReduceLROnPlateau max",
       Plateau({.mode = "max", .factor = 0.5, .patience = 1, .cooldown = 3, .min_lr = 0.01})},
      {"ReduceLROnPlateau abs",
       Plateau({.factor = 0.7, .patience = 0, .threshold = 0.2, .threshold_mode = "abs"})},
      {"SequentialLR", EachEpoch(Sequential)},
      {"SequentialLR of MultiplicativeLR", EachEpoch(SequentialOfMultiplicative)},
      {"SequentialLR of three", EachEpoch(SequentialOfThree)},
      {"StepLR and ExponentialLR", Two},
      {"StepLR resumed", ResumedOf<lr::StepLR>(7)},
      {"LambdaLR resumed",
       ResumedOf<lr::LambdaLR>([](int64_t epoch) { return 1 / (1 + static_cast<double>(epoch)); })},
      {"CosineAnnealingLR resumed", ResumedOf<lr::CosineAnnealingLR>(7, 0.005)},
      {"CosineAnnealingWarmRestarts resumed",
       ResumedOf<lr::CosineAnnealingWarmRestarts>(4, 2, 0.001)},
      {"OneCycleLR resumed",
       ResumedOf<lr::OneCycleLR>(0.8, lr::OneCycleOptions{.total_steps = 31})},
      {"ReduceLROnPlateau resumed", Resumed(
                                        [](Optimizer& o) {
                                          return std::make_shared<lr::ReduceLROnPlateau>(
                                              o, lr::PlateauOptions{.patience = 2, .cooldown = 1});
                                        },
                                        [](lr::ReduceLROnPlateau& scheduler, int epoch) {
                                          scheduler.step(std::sin(epoch) + (epoch < 8 ? 1 : 0));
                                        })},
      {"SequentialLR resumed",
       Resumed(SequentialOfThree, [](lr::LRScheduler& scheduler, int) { scheduler.step(); })},
      {"MultiStepLR unsorted", Plain<lr::MultiStepLR>(std::vector<int64_t>{9, 4, 0, 100}, 0.3)},
      {"ConstantLR of no steps", Plain<lr::ConstantLR>(0.5, 0)},
      {"CosineAnnealingWarmRestarts of one step", Plain<lr::CosineAnnealingWarmRestarts>(1)},
      {"OneCycleLR that only warms up", OneCycle({.total_steps = 31, .pct_start = 1})},
      {"OneCycleLR without warmup", OneCycle({.total_steps = 31, .pct_start = 0})},
      {"ReduceLROnPlateau of NaN",
       [](Optimizer& o) {
         return [scheduler =
                     std::make_shared<lr::ReduceLROnPlateau>(o, lr::PlateauOptions{.patience = 3})](
                    int) { scheduler->step(std::numeric_limits<double>::quiet_NaN()); };
       }},
      {"MultiplicativeLR",
       Plain<lr::MultiplicativeLR>([](int64_t epoch) { return epoch % 2 == 0 ? 0.9 : 0.95; })},
      {"CyclicLR", Plain<lr::CyclicLR>(0.01, 0.1, lr::CyclicOptions{.step_size_up = 4})},
      {"CyclicLR triangular2",
       Plain<lr::CyclicLR>(
           0.01, 0.1,
           lr::CyclicOptions{.step_size_up = 3, .step_size_down = 5, .mode = "triangular2"})},
      {"CyclicLR exp_range",
       Plain<lr::CyclicLR>(
           0.01, 0.1,
           lr::CyclicOptions{
               .step_size_up = 4, .mode = "exp_range", .gamma = 0.95, .cycle_momentum = false})},
      {"ChainedScheduler",
       [](Optimizer& o) {
         return [scheduler = std::make_shared<lr::ChainedScheduler>(
                     std::vector<std::shared_ptr<lr::LRScheduler>>{
                         std::make_shared<lr::ConstantLR>(o, 0.1, 4),
                         std::make_shared<lr::ExponentialLR>(o, 0.9)})](int) { scheduler->step(); };
       }},
  };
}

}  // namespace penstock::tests::lazy_rows
