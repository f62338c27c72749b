"""Rows of layers for sequences: embedding, attention, recurrent layers and their wrappers."""

import layer_row

SEQUENCE = (3, 5, 4)  # batch, steps, features


# Without randomness, one value of `training` is enough.
def layer(class_name, options, *shapes, **more):
    return layer_row.layer(class_name, options, *shapes, **{"training": True, **more})


def mixed(class_name, options, *shapes, **more):
    return layer_row.mixed(class_name, options, *shapes, **{"training": True, **more})


def mixed_half(class_name, options, *shapes, **more):
    return layer_row.mixed_half(class_name, options, *shapes, **{"training": True, **more})


def embedding():
    ids = {"dtype": "int32", "high": 7}
    back = {"inferred": {"reverse": True}}
    return [
        layer("Embedding", {"input_dim": 7, "output_dim": 3}, (4, 5), **ids),
        layer("Embedding", {"input_dim": 7, "output_dim": 3}, (4, 5), **ids, training=False),
        layer("Embedding", {"input_dim": 7, "output_dim": 3, "mask_zero": True}, (4, 5), **ids),
        layer("Embedding", {"input_dim": 7, "output_dim": 3, "mask_zero": True}, (4, 5), dtype="uint8", high=3),
        layer("Embedding", {"input_dim": 300, "output_dim": 2}, (40, 5), dtype="int8", high=128,
              why="more rows than the integers can name"),
        layer("Embedding", {"input_dim": 7, "output_dim": 1}, (4,), **ids, why="one integer an example"),
        layer("Embedding", {"input_dim": 7, "output_dim": 3}, (2, 3, 2), **ids, why="three axes"),
        layer("Embedding", {"input_dim": 1, "output_dim": 3}, (1, 1), dtype="int32", high=1, why="one row"),
        layer("Embedding", {"input_dim": 2, "output_dim": 3}, (50, 4), dtype="int16", high=2,
              why="gradients that meet in a row"),
        layer("Embedding", {"input_dim": 4, "output_dim": 3}, (4, 5), dtype="int32", high=7, gradient=False,
              why="outside the table: NaN"),
        layer("Embedding", {"input_dim": 7, "output_dim": 3, "embeddings_regularizer": "l2",
                            "embeddings_constraint": "unit_norm"}, (4, 5), **ids),
        mixed("Embedding", {"input_dim": 7, "output_dim": 3, "mask_zero": True}, (4, 5), **ids),
        layer("ReversibleEmbedding", {"input_dim": 7, "output_dim": 3, "mask_zero": True}, (4, 5), **ids),
        layer("ReversibleEmbedding", {"input_dim": 7, "output_dim": 3}, (4, 5, 3), **back),
        layer("ReversibleEmbedding", {"input_dim": 7, "output_dim": 3, "logit_soft_cap": 0.1}, (4, 3), **back),
        layer("ReversibleEmbedding", {"input_dim": 7, "output_dim": 3, "tie_weights": False,
                                      "embeddings_regularizer": "l2"}, (4, 5, 3), **back),
        layer("ReversibleEmbedding", {"input_dim": 7, "output_dim": 3, "tie_weights": False,
                                      "activity_regularizer": "l2"}, (4, 5), **ids, gradient=False,
              why="not going back does not depend on the other table"),
        mixed("ReversibleEmbedding", {"input_dim": 7, "output_dim": 3}, (4, 5, 3), **back),
        mixed("ReversibleEmbedding", {"input_dim": 7, "output_dim": 3, "reverse_dtype": "float32"}, (4, 5, 3), **back),
        layer("PositionEmbedding", {"sequence_length": 6}, (3, 6, 4)),
        layer("PositionEmbedding", {"sequence_length": 9, "initializer": "uniform"}, (3, 6, 4), why="shorter"),
        layer("PositionEmbedding", {"sequence_length": 5}, (2, 3, 4, 2), why="more axes"),
        layer("PositionEmbedding", {"sequence_length": 6}, (3, 6, 4), masks=["right"]),
        mixed("PositionEmbedding", {"sequence_length": 6}, (3, 6, 4)),
        layer("Masking", {}, SEQUENCE),
        layer("Masking", {"mask_value": 1.0}, (4, 6, 1), dtype="int32", high=2, gradient=False),
        layer("Masking", {}, (4, 2, 3, 1), dtype="int32", high=2, gradient=False, why="four axes"),
        mixed("Masking", {}, SEQUENCE),
    ]


def attention():
    query, value, key = (3, 5, 4), (3, 6, 2), (3, 6, 4)
    return [
        *[layer(kind, options, query, value, key)
          for kind, options in (("Attention", {}), ("Attention", {"use_scale": True}),
                                ("Attention", {"score_mode": "concat"}),
                                ("AdditiveAttention", {}), ("AdditiveAttention", {"use_scale": False}))],
        # The gradient of the scale is a sum of terms of about this size, which cancel.
        layer("Attention", {"score_mode": "concat", "use_scale": True}, query, value, key, min_scale=0.1),
        *[row
          for kind in ("Attention", "AdditiveAttention")
          for row in (
              layer(kind, {}, query, key, why="the key is the value"),
              layer(kind, {}, query, value, key, masks=[None, "right", None]),
              layer(kind, {}, query, value, key, masks=["right", "holes", "left"],
                    why="of the key's mask nothing is seen"),
              layer(kind, {}, query, query, query, call={"use_causal_mask": True}),
              layer(kind, {}, query, key, call={"use_causal_mask": True}, masks=["left", "right"],
                    why="more steps than queries"),
              layer(kind, {}, query, value, key, call={"return_attention_scores": True}, masks=[None, "holes", None]),
              layer(kind, {"dropout": 0.3}, query, value, key, training=False),
              mixed(kind, {"use_scale": True}, query, value, key, masks=["right", "right", None], tolerance=1 / 32),
              mixed_half(kind, {"use_scale": True}, query, value, key, masks=["right", "right", None]))],
        layer("Attention", {}, (1, 1, 2), (1, 1, 2), why="one example, one step"),
    ]


def multi_head():
    query, value, key = (3, 5, 4), (3, 6, 2), (3, 6, 3)
    # The gradient of the key's bias is zero except for rounding of terms of this size.
    common = {"arguments": True, "min_scale": 1}
    mha = lambda options, *shapes, make=layer, **more: make(
        "MultiHeadAttention", {"num_heads": 2, "key_dim": 3, **options}, *shapes, **common, **more)
    gqa = lambda options, *shapes, make=layer, **more: make(
        "GroupQueryAttention", {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2, **options}, *shapes,
        **common, **more)
    attended = {"attention_mask": True, "high": 2}
    return [
        mha({}, query, query, why="self-attention"),
        mha({}, query, query, training=False),
        mha({}, query, value, key),
        # Keras 3.15 on JAX does not support value_dim otherwise.
        mha({"value_dim": 5, "use_bias": False}, query, value, call={"return_attention_scores": True}),
        mha({"value_dim": 2, "dropout": 0.5}, query, value, training=False),
        mha({"output_shape": [7]}, query, value),
        mha({"output_shape": [2, 3]}, query, value, why="two axes of features"),
        mha({"num_heads": 1, "key_dim": 1}, (1, 1, 2), (1, 1, 2), why="one of everything"),
        mha({}, query, query, call={"use_causal_mask": True}),
        mha({}, query, value, call={"use_causal_mask": True}, why="more steps than queries"),
        mha({}, query, query, masks=["right", "right"]),
        mha({}, query, value, key, masks=["holes", "left", "right"]),
        mha({}, query, query, masks=["right", "right"], call={"use_causal_mask": True}),
        mha({"dropout": 0.2}, query, query, masks=["right", "right"], training=False,
            why="queries that look nowhere get zeros"),
        mha({}, query, value, call={"return_attention_scores": True}),
        mha({}, query, query, masks=["right", "right"],
            call={"return_attention_scores": True, "use_causal_mask": True}),
        mha({}, query, value, (3, 5, 6), dtype=["float32", "float32", "int32"], **attended),
        mha({}, query, value, (3, 2, 5, 6), dtype=["float32", "float32", "int32"], **attended, why="of each head"),
        mha({}, query, value, key, (3, 5, 6), dtype=["float32"] * 3 + ["uint8"], **attended,
            masks=["right", None, None, None], call={"use_causal_mask": True}),
        mha({"sliding_window": 2}, query, query),
        mha({"sliding_window": 2}, query, query, call={"use_causal_mask": True}),
        mha({"use_gate": True}, query, value),
        mha({}, (2, 3, 2, 4), (2, 2, 3, 4), why="attention over two axes"),
        mha({"kernel_regularizer": "l2", "bias_regularizer": "l1", "activity_regularizer": "l2",
             "bias_initializer": "ones"}, query, value),
        mha({}, query, value, key, make=mixed, masks=[None, "right", None]),
        gqa({}, query, query),
        gqa({"num_key_value_heads": 1, "use_bias": False}, query, (3, 6, 4), key),
        gqa({"num_key_value_heads": 4}, query, query, masks=["right", "right"]),
        gqa({}, query, query, call={"use_causal_mask": True, "return_attention_scores": True}),
        gqa({"dropout": 0.2}, query, query, masks=["right", "right"], training=False),
        gqa({}, query, query, (3, 5, 5), dtype=["float32", "float32", "int32"], **attended),
        gqa({"use_gate": True, "sliding_window": 3}, query, query, make=mixed),
    ]


def recurrent():
    state = (3, 6)
    made = []
    for kind, states in (("SimpleRNN", 1), ("GRU", 1), ("LSTM", 2)):
        make = lambda options, *shapes, of=layer, kind=kind, **more: of(kind, {"units": 6, **options}, *shapes, **more)
        everything = {"return_sequences": True, "return_state": True}
        made += [
            make({}, SEQUENCE),
            make({}, SEQUENCE, training=False),
            make({"return_sequences": True}, SEQUENCE),
            make(everything, SEQUENCE),
            make({"go_backwards": True}, SEQUENCE),
            make({**everything, "go_backwards": True}, SEQUENCE),
            make({"use_bias": False, "activation": "relu"}, SEQUENCE),
            make({"return_state": True}, SEQUENCE, *[state] * states, states=True),
            make(everything, SEQUENCE, *[state] * states, states=True, masks=["holes"] + [None] * states),
            make({}, SEQUENCE, masks=["right"]),
            make(everything, SEQUENCE, masks=["left"]),
            make({**everything, "zero_output_for_mask": True}, SEQUENCE, masks=["holes"]),
            make({"zero_output_for_mask": True}, SEQUENCE, masks=["right"]),
            make({**everything, "go_backwards": True}, SEQUENCE, masks=["right"]),
            make(everything, SEQUENCE, masks=["none"], why="nothing but padding"),
            make(everything, (1, 1, 3), why="one example, one step"),
            make({"dropout": 0.2, "recurrent_dropout": 0.3}, SEQUENCE, training=False),
            # Keras 3.15 loses SimpleRNN's activity_regularizer.
            make({"kernel_regularizer": "l2", "recurrent_regularizer": "l1", "bias_regularizer": "l2",
                  **({} if kind == "SimpleRNN" else {"activity_regularizer": "l2"})}, SEQUENCE),
            # Rounding errors accumulate over steps.
            make({"return_sequences": True}, SEQUENCE, of=mixed, tolerance=1 / 32),
            make({}, SEQUENCE, of=mixed, masks=["right"], tolerance=1 / 32),
        ]
    for options in ({"reset_after": False}, {"reset_after": False, "use_bias": False},
                    {"recurrent_activation": "tanh", "activation": "sigmoid"}):
        made.append(layer("GRU", {"units": 6, "return_sequences": True, **options}, SEQUENCE))
    made += [
        layer("LSTM", {"units": 6, "recurrent_activation": "relu", "unit_forget_bias": False}, SEQUENCE),
        layer("LSTM", {"units": 20, "return_sequences": True}, (4, 40, 3), why="forty steps"),
    ]
    return made


def wrappers():
    inner = lambda class_name, **options: {"class_name": class_name,
                                           "config": {"name": class_name.lower(), "units": 3, **options}}
    bidirectional = lambda cell, *shapes, make=layer, more_options={}, **more: make(
        "Bidirectional", {"layer": cell, **more_options}, *shapes, **more)
    everything = {"return_sequences": True, "return_state": True}
    return [
        *[bidirectional(inner("LSTM", return_sequences=sequences), SEQUENCE, more_options={"merge_mode": mode})
          for mode in ("concat", "sum", "mul", "ave", None)
          for sequences in (False, True)],
        bidirectional(inner("GRU", **everything), SEQUENCE),
        bidirectional(inner("LSTM", **everything), SEQUENCE, more_options={"merge_mode": None}, masks=["right"]),
        bidirectional(inner("LSTM"), SEQUENCE, masks=["right"]),
        bidirectional(inner("GRU", return_sequences=True), SEQUENCE, masks=["holes"]),
        bidirectional(inner("SimpleRNN", return_state=True), SEQUENCE, (3, 3), (3, 3), states=True),
        bidirectional(inner("LSTM", return_sequences=True), SEQUENCE, more_options={
            "backward_layer": {"class_name": "LSTM", "config": {
                "name": "other", "units": 3, "activation": "relu", "return_sequences": True, "go_backwards": True}}}),
        bidirectional(inner("LSTM", return_sequences=True), SEQUENCE, make=mixed, masks=["left"]),
        layer("TimeDistributed", {"layer": inner("Dense", activation="tanh")}, SEQUENCE),
        layer("TimeDistributed", {"layer": inner("Dense")}, SEQUENCE, masks=["right"]),
        layer("TimeDistributed", {"layer": {"class_name": "Conv2D", "config": {
            "name": "conv", "filters": 2, "kernel_size": 3, "padding": "same"}}}, (2, 3, 4, 5, 3)),
        layer("TimeDistributed", {"layer": inner("LSTM")}, (2, 3, 4, 5), why="a sequence in each step"),
        layer("TimeDistributed", {"layer": {"class_name": "BatchNormalization", "config": {"name": "b"}}}, SEQUENCE,
              training=False),
    ]


ROWS = [*embedding(), *attention(), *multi_head(), *recurrent(), *wrappers()]
