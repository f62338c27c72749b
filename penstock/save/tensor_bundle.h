// TensorFlow's checkpoints (TensorBundle): PREFIX.index, a table of names, types and places, and
// PREFIX.data-00000-of-00001, ... with the elements. tf.train.Checkpoint, tf.train.Saver and Keras's
// Model.save_weights("net.ckpt") write them; a SavedModel has one in variables/variables.
//
//   PENSTOCK_ASSIGN_OR_RETURN(Weights net, ReadWeights(fs, "gs://bucket/run/model.ckpt-1000"));
//   PENSTOCK_RETURN_IF_ERROR(WriteWeights(fs, "gs://bucket/copy.ckpt", {.arrays = net.arrays}));
//
// A URI names the prefix, the index or one of the data files.
//
// Names. In an object-based checkpoint, as TensorFlow 2 writes it, the name of an array is the place
// of its variable in the graph of objects, which is its key without the end
// "/.ATTRIBUTES/VARIABLE_VALUE" and with the escapes of "." and "/" undone:
// "layer_with_weights-0/kernel", "optimizer/_variables/1". Weights::variables has the name that the
// variable has in its program: "block1_conv1/kernel". Names of TF1's Saver stay as they are.
// "V/.OPTIMIZER_SLOT/OPT/m" is slot variable m of optimizer OPT for variable V.
//
// The slices of a partitioned variable become one array. Tensors of strings, and objects such as
// iterators, are left out and listed in Weights::skipped.
//
// WriteWeights makes an object-based checkpoint: tf.train.Checkpoint(dense=layer).restore finds
// "dense/kernel" in layer.kernel, and tf.train.load_checkpoint under
// "dense/kernel/.ATTRIBUTES/VARIABLE_VALUE". The data files are published first and have names that
// are not in use (another number of shards), then the index, which replaces the old one; then the
// data files of the replaced checkpoint are removed. A writer that is killed leaves the old
// checkpoint, and data files that no index names.
#pragma once

#include "penstock/save/format.h"

namespace penstock::save {

// Whether `uri`.index is a file, so that `uri` may be the prefix of a checkpoint.
absl::StatusOr<bool> IsTensorBundlePrefix(io::FileSystem& fs, absl::string_view uri);

Format TensorBundleFormat();

}  // namespace penstock::save
