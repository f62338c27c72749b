"""Rows for layers: (class, options, shapes of the inputs with their batch), and optional keys that override
the defaults below:

  training   False, True, or both by default (once if the layer does not depend on it)
  dtype      of the inputs, float32 by default; a list: of each input
  masks      of each input, None if it has none: which steps are real (step_mask of expect.py)
  arguments  True: Keras receives the inputs as separate arguments, not as a list
  states     True: all inputs but the first are the initial state
  attention_mask  True: the last input is the attention mask
  call       arguments of Keras's call, which are options in Penstock
  inferred   arguments of Keras's call that Penstock infers
  high       exclusive upper bound of integers, 200 by default
  why        explanation beside the options, if they are not self-explanatory
  gradient   False if there is no gradient to compare
  reference  used instead of the layer's own call (REFERENCES of expect.py)
  tolerance  if it differs from that of float32
  min_scale  if differences are due to rounding of terms above 0.01 (Row::min_scale)

In options, activations, regularizers, and constraints are written as in Penstock: "elu(0.5)", "l2(0.01)".
"""

SEQUENCE = (3, 9, 4)
IMAGE = (3, 8, 7, 4)  # neither square nor of even size
VOLUME = (2, 5, 6, 4, 3)

# bfloat16 has 8 bits, float16 11: the two sides may round differently if they sum in a different order.
BFLOAT16 = 1 / 32
FLOAT16 = 1 / 256


def layer(class_name, options, *shapes, **more):
    return {"class": class_name, "config": options, "shapes": [list(s) for s in shapes], **more}


def mixed(class_name, options, *shapes, **more):
    return layer(class_name, {**options, "dtype": "mixed_bfloat16"}, *shapes, **{"tolerance": BFLOAT16, **more})


def mixed_half(class_name, options, *shapes, **more):
    return layer(class_name, {**options, "dtype": "mixed_float16"}, *shapes, **{"tolerance": FLOAT16, **more})
