// Everything of room session, as `import tensorflow as tf` of TensorFlow 1:
//
//   #include "penstock/session/tensorflow.h"
//
//   namespace tf = penstock::session;
//
// docs/coming-from.md has a table of TensorFlow's names and those here.
#pragma once

#include "penstock/session/control_flow.h"
#include "penstock/session/data.h"
#include "penstock/session/gradients.h"
#include "penstock/session/graph.h"
#include "penstock/session/layers.h"
#include "penstock/session/losses.h"
#include "penstock/session/metrics.h"
#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/ops/functional_ops.h"
#include "penstock/session/ops/image_ops.h"
#include "penstock/session/ops/linalg_ops.h"
#include "penstock/session/ops/math_ops.h"
#include "penstock/session/ops/nn_ops.h"
#include "penstock/session/ops/random_ops.h"
#include "penstock/session/ops/signal_ops.h"
#include "penstock/session/rnn/rnn.h"
#include "penstock/session/rnn/rnn_cell.h"
#include "penstock/session/session.h"
#include "penstock/session/summary.h"
#include "penstock/session/tpu.h"
#include "penstock/session/train/learning_rate.h"
#include "penstock/session/train/moving_average.h"
#include "penstock/session/train/optimizer.h"
#include "penstock/session/train/saver.h"
#include "penstock/session/variable.h"
