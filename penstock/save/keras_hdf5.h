// Weights in Keras's files: HDF5 as Keras 1 and 2 write it (.h5: weights, or a whole model), Keras
// 3's .weights.h5, and the archive .keras with one inside. Read and written.
//
//   PENSTOCK_ASSIGN_OR_RETURN(Weights net, ReadWeights(fs, "gs://bucket/resnet50_tf_kernels.h5"));
//   PENSTOCK_RETURN_IF_ERROR(WriteWeights(fs, "resnet50_copy.h5", net));
//
// Which of the two layouts an HDF5 file has is detected by its attribute `layer_names`, which only
// legacy files have; the extension decides for writing (.weights.h5, or .h5 and .hdf5).
//
// Legacy files. Arrays come in the order of `layer_names` and, in a layer, of `weight_names`. A
// name is LAYER/WEIGHT, without the names of models around the layer and without TensorFlow's ":0":
// "conv1/kernel" for weight "net/conv1/kernel:0" of layer "conv1", and "inner/conv1/kernel" if a
// model "inner" is the layer. After them "top_level_model_weights/..." and, in the order of
// Optimizer.variables, "optimizer_weights/adam/iteration". Keras loads by order: layers that have
// weights, then the weights of each. Metadata:
//   model_config, training_config  JSON of a whole model
//   keras_version, backend         strings
//   layer_names                    JSON list of the names of all layers in order, also of those
//                                  without weights
// A writer requires none of them. With model_config the layers are in the group model_weights, as
// Keras saves a whole model; without it they are in the root, as it saves weights. `layer_names`
// tells which arrays belong to which layer (the longest name that the array's name begins with);
// layers that it does not list, or all, come in the order of their first array, and are named by
// what precedes the first "/".
//
// Keras 3. A name is the path of the dataset: "layers/conv2d/vars/0", "layers/functional/layers/
// conv2d_1/vars/0", "optimizer/vars/3", in natural order of the paths (conv2d_2 before conv2d_10).
// Weights::variables has the name that Keras gives the object (attribute `name` of the group
// `vars`) with the last part of the path: "block1_conv1/0", "adam/3". A writer stores it as that
// attribute; objects without one are written without it, which Keras accepts. Metadata of an
// archive, each the text of a member; a writer requires both, since Keras cannot open an archive
// without them:
//   config.json, metadata.json
// A .weights.h5 file has no metadata.
//
// Both layouts. bfloat16 is h5py's two opaque bytes with the attribute `dtype`, by which Keras 3
// marks it. Datasets of strings are left out and listed in Weights::skipped. Assets of an archive
// (vocabularies of preprocessing layers) are listed there too.
#pragma once

#include "penstock/save/format.h"

namespace penstock::save {

Format KerasWeightsFormat();  // .weights.h5
Format KerasLegacyFormat();   // .h5, .hdf5
Format KerasArchiveFormat();  // .keras

}  // namespace penstock::save
