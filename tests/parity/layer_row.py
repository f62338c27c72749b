"""A row of the table that is a layer: (class, options, shapes of the inputs with their batch), and what differs from
the defaults below.

  training   False, True, or both when left out (once where the layer does not look at it)
  dtype      of the inputs, float32 unless said; a list: of each input
  masks      of each input, None for none: which steps are real (step_mask of expect.py)
  arguments  True: Keras takes the inputs one by one, not as a list
  states     True: all inputs but the first are the state to start from
  attention_mask  True: the last input is
  call       what Keras is told at the call, and Penstock in the options
  told       what Keras is told at the call, and Penstock sees by itself
  high       whole numbers are below it, 200 unless said
  why        beside the options, where they do not speak for themselves
  gradient   False where there is none to compare
  reference  what is compared with instead of the layer's own call (REFERENCES of expect.py)
  tolerance  where it is not the one of float32
  least      where differences are rounding of terms above 0.01 (Row::least)

In options, activations, regularizers and constraints are written as Penstock takes them: "elu(0.5)", "l2(0.01)".
"""

SEQUENCE = (3, 9, 4)
IMAGE = (3, 8, 7, 4)  # neither square nor even
VOLUME = (2, 5, 6, 4, 3)

# bfloat16 has 8 bits, float16 11: the two sides may round differently if they add in another order.
BFLOAT16 = 1 / 32
FLOAT16 = 1 / 256


def layer(class_name, options, *shapes, **more):
    return {"class": class_name, "config": options, "shapes": [list(s) for s in shapes], **more}


def mixed(class_name, options, *shapes, **more):
    return layer(class_name, {**options, "dtype": "mixed_bfloat16"}, *shapes, **{"tolerance": BFLOAT16, **more})


def mixed_half(class_name, options, *shapes, **more):
    return layer(class_name, {**options, "dtype": "mixed_float16"}, *shapes, **{"tolerance": FLOAT16, **more})
