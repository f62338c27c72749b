// TensorFlow 1: a graph, and a session that runs it.
#include "penstock/session/session.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/session/layers.h"
#include "penstock/session/losses.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/train/optimizer.h"

#include "bench/idioms/idioms.h"
#include "bench/idioms/tf1_resnet.h"

namespace penstock::idioms {
namespace {

namespace tf = penstock::session;
using base::DType;

// A graph with two inputs, of which a step trains on one batch.
struct Program {
  tf::Graph graph;
  tf::Graph::DefaultScope scope = graph.AsDefault();
  tf::Tensor x, y, loss;
  tf::Operation step;
  tf::Session session;

  absl::Status Initialize() { return session.Run(tf::GlobalVariablesInitializer()); }
};

// A prepared call for each step, which returns when it is done.
class CallableTraining : public Training {
 public:
  CallableTraining(std::unique_ptr<Program> program, tf::Callable step, base::Array x,
                   base::Array y)
      : program_(std::move(program)), step_(std::move(step)), x_(std::move(x)), y_(std::move(y)) {}

  absl::StatusOr<double> Run(int64_t steps) override {
    const double began = SecondsSince(0);
    for (int64_t i = 0; i < steps; ++i) PENSTOCK_RETURN_IF_ERROR(step_({x_, y_}).status());
    return SecondsSince(began);
  }

 private:
  std::unique_ptr<Program> program_;
  tf::Callable step_;
  const base::Array x_, y_;
};

// session.Run with a row of the data for each step, as the iris program does it.
class RunPerRow : public Training {
 public:
  explicit RunPerRow(std::unique_ptr<Program> program) : program_(std::move(program)) {}

  absl::StatusOr<double> Run(int64_t steps) override {
    const double began = SecondsSince(0);
    Program& p = *program_;
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t row = i % x_.dim(0);
      PENSTOCK_RETURN_IF_ERROR(
          p.session.Run(p.step, {{p.x, x_.Slice(row, row + 1)}, {p.y, y_.Slice(row, row + 1)}}));
    }
    PENSTOCK_RETURN_IF_ERROR(p.session.Run(p.loss, {{p.x, x_}, {p.y, y_}}).status());
    return SecondsSince(began);
  }

 private:
  std::unique_ptr<Program> program_;
  const base::Array x_ = Flowers(), y_ = FlowerClasses();
};

std::unique_ptr<Program> IrisProgram() {
  auto program = std::make_unique<Program>();
  program->x = tf::Placeholder(DType::kF32, {-1, 4}, "x");
  program->y = tf::Placeholder(DType::kI64, {-1}, "y");
  const tf::Tensor hidden = tf::layers::Dense(program->x, 10, {.activation = tf::nn::Sigmoid});
  program->loss = tf::losses::SparseSoftmaxCrossEntropy(program->y, tf::layers::Dense(hidden, 3));
  program->step = tf::train::GradientDescentOptimizer(kIrisLearningRate).Minimize(program->loss);
  return program;
}

absl::StatusOr<std::unique_ptr<Training>> MakeCallableTraining(std::unique_ptr<Program> program,
                                                               base::Array x, base::Array y) {
  PENSTOCK_RETURN_IF_ERROR(program->Initialize());
  PENSTOCK_ASSIGN_OR_RETURN(
      tf::Callable step, program->session.MakeCallable({program->step}, {program->x, program->y}));
  return std::make_unique<CallableTraining>(std::move(program), std::move(step), std::move(x),
                                            std::move(y));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Training>> SessionResNet20() {
  auto program = std::make_unique<Program>();
  program->x = tf::Placeholder(DType::kU8, {kImages, kSide, kSide, 3}, "x");
  program->y = tf::Placeholder(DType::kI64, {kImages}, "y");
  program->loss = tf::losses::SparseSoftmaxCrossEntropy(program->y, Tf1ResNet20(program->x));
  program->step = Tf1TrainOp(program->loss, {});
  return MakeCallableTraining(std::move(program), Images(), Labels());
}

absl::StatusOr<std::unique_ptr<Training>> SessionIris() {
  return MakeCallableTraining(IrisProgram(), Flowers(), FlowerClasses());
}

absl::StatusOr<std::unique_ptr<Training>> SessionIrisRows() {
  auto program = IrisProgram();
  PENSTOCK_RETURN_IF_ERROR(program->Initialize());
  return std::make_unique<RunPerRow>(std::move(program));
}

}  // namespace penstock::idioms
