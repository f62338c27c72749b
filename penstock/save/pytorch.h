// Weights of PyTorch: files of torch.save (.pt, .pth, .bin), in the zip format of PyTorch 1.6 and
// later and in the stream format before it, and folders of torch_xla's xser (NAME and
// NAME.tensors/tensor_0.pt, ...; written as NAME.xser).
//
//   PENSTOCK_ASSIGN_OR_RETURN(Weights resnet, ReadWeights(fs, "gs://bucket/resnet50.pth"));
//   PENSTOCK_ASSIGN_OR_RETURN(Array kernel, resnet.arrays.Get("conv1.weight"));
//   PENSTOCK_RETURN_IF_ERROR(WriteWeights(fs, "gs://bucket/copy.pt", {.arrays = resnet.arrays}));
//
// Such a file is a pickle, which torch.load executes. Here nothing is executed: the reader knows the
// names of PyTorchNames() and rejects every other (pickle.h).
//
// Names. A state_dict's names stay as they are: "layer1.0.conv1.weight". Keys of nested dicts and
// places in lists are joined by "/": "optimizer/state/0/exp_avg" in {"optimizer": {"state": {0:
// ...}}}. A file that holds one tensor has the array "tensor". Numbers, texts and truth values
// become metadata under the same names; None, and the _metadata of a state_dict, are skipped.
//
// Every layout that PyTorch saves is read: strided, overlapping and shared storages. Tensors that
// are views of the same elements share memory. Unsupported (UNIMPLEMENTED, naming the tensor):
// sparse and quantized tensors, complex128, big-endian files, TorchScript archives.
//
// WriteWeights makes a state_dict (an OrderedDict) of the arrays, which torch.load opens also with
// weights_only=True; arrays that share memory share a storage. Types of 6 and 4 bits and strings
// are INVALID_ARGUMENT.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/save/format.h"

namespace penstock::save {

// Names that a pickle may use.
absl::Span<const absl::string_view> PyTorchNames();

Format PyTorchZipFormat();
Format PyTorchStreamFormat();
Format XserFormat();
}  // namespace penstock::save
