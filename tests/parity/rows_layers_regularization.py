"""Layers that are random in training, where the values differ from Keras's (see penstock/nn/layers/layers_random_test.cc
for their statistics). These rows test their deterministic behavior."""

from layer_row import IMAGE, SEQUENCE, VOLUME, layer, mixed

ROWS = [
    layer("Dropout", {"rate": 0.4}, (3, 5), training=False),
    layer("Dropout", {"rate": 0.4, "noise_shape": [None, 1, 4]}, SEQUENCE, training=False),
    layer("Dropout", {"rate": 0.0}, (3, 5)),
    layer("SpatialDropout1D", {"rate": 0.4}, SEQUENCE, training=False),
    layer("SpatialDropout2D", {"rate": 0.4}, IMAGE, training=False),
    layer("SpatialDropout3D", {"rate": 0.4}, VOLUME, training=False),
    layer("SpatialDropout1D", {"rate": 0.0}, SEQUENCE),
    layer("GaussianDropout", {"rate": 0.4}, IMAGE, training=False),
    layer("GaussianDropout", {"rate": 0.0}, (3, 5)),
    layer("GaussianNoise", {"stddev": 0.4}, IMAGE, training=False),
    layer("GaussianNoise", {"stddev": 0.0}, (3, 5)),
    layer("AlphaDropout", {"rate": 0.4}, IMAGE, training=False),
    layer("AlphaDropout", {"rate": 0.4, "noise_shape": [None, 1, None, 4]}, IMAGE, training=False),
    layer("AlphaDropout", {"rate": 0.0}, (3, 5)),
    layer("StochasticDepth", {"drop_path_rate": 0.4}, IMAGE, training=False),
    layer("StochasticDepth", {"drop_path_rate": 0.0}, (3, 5), training=False),
    layer("ActivityRegularization", {}, (3, 5)),
    layer("ActivityRegularization", {"l1": 0.1}, (3, 5)),
    layer("ActivityRegularization", {"l1": 0.1, "l2": 0.3}, IMAGE),
    mixed("ActivityRegularization", {"l2": 0.3}, SEQUENCE),
]
