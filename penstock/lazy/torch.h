// Everything of room lazy, as `import torch` and torch_xla's modules:
//
//   #include "penstock/lazy/torch.h"
//
//   namespace torch = penstock::lazy;
//   namespace xm = penstock::lazy::xm;
//
// docs/coming-from.md has a table of PyTorch's and torch_xla's names and those here.
#pragma once

#include "penstock/lazy/amp.h"
#include "penstock/lazy/autograd.h"
#include "penstock/lazy/checkpoint.h"
#include "penstock/lazy/data/data_loader.h"
#include "penstock/lazy/data/dataset.h"
#include "penstock/lazy/data/parallel_loader.h"
#include "penstock/lazy/data/sampler.h"
#include "penstock/lazy/functional.h"
#include "penstock/lazy/grad_mode.h"
#include "penstock/lazy/metrics.h"
#include "penstock/lazy/nn/containers.h"
#include "penstock/lazy/nn/init.h"
#include "penstock/lazy/nn/module.h"
#include "penstock/lazy/nn/modules.h"
#include "penstock/lazy/nn/parameter_vector.h"
#include "penstock/lazy/nn/recurrent.h"
#include "penstock/lazy/nn/transformer.h"
#include "penstock/lazy/ops.h"
#include "penstock/lazy/optim/clip.h"
#include "penstock/lazy/optim/grad_scaler.h"
#include "penstock/lazy/optim/lr_scheduler.h"
#include "penstock/lazy/optim/optimizers.h"
#include "penstock/lazy/serialization.h"
#include "penstock/lazy/tensor.h"
#include "penstock/lazy/xm.h"
#include "penstock/lazy/xmp.h"
