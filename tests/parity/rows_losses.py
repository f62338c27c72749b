"""Losses compared with Keras; see table.py.

loss(class, options, shape of the predictions, kind of labels, kind of predictions, more):
  labels   classes: class numbers [batch...]; column: [batch..., 1]; one_hot; soft (probabilities); real; binary; flat
           (binary, without the last axis of 1); signs (-1 and 1); positive; counts; zeros; ignored (classes, some of
           them 255); groups (class numbers [batch], few); sequences ([batch, 3], 0 is padding)
  scores   logits, probabilities (sum to 1), unnormalized (sum to more), certain (zeros and ones), real, unit (0 to 1),
           saturated (0, 1, and nearby values), huge (logits of 1e4), positive, zeros, directions (of norm 1)
  weights  sample weights, some of them 0: "examples" [batch], "column" [batch, 1], "steps" (all axes but the last)
  mask     True: a mask over all axes of the loss, as set by Masking
  dtype    of the predictions; both sides get the same rounded numbers
  ours     our name, if it differs from Keras's class
  label_dtype  of the labels, if it matters
"""


def loss(class_name, options, shape, labels, scores, **more):
    return {"class": class_name, "config": options, "shape": list(shape), "labels": labels, "scores": scores, **more}


def each(names, options, *rest, **more):
    return [loss(name, options, *rest, **more) for name in names]


REGRESSION = ["MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredLogarithmicError",
              "LogCosh", "Huber"]
BINARY = ["BinaryCrossentropy", "BinaryFocalCrossentropy"]
ONE_HOT = ["CategoricalCrossentropy", "CategoricalFocalCrossentropy"]
HINGES = ["Hinge", "SquaredHinge"]
LOGITS = {"from_logits": True}
# A batch for every class; Dice and Tversky have one value for each example, which a reduction can change.
EVERY = [
    *[(name, {}, (4, 3), labels, "probabilities")
      for name, labels in (("SparseCategoricalCrossentropy", "classes"), ("CategoricalCrossentropy", "one_hot"),
                           ("CategoricalFocalCrossentropy", "one_hot"),
                           ("CategoricalGeneralizedCrossEntropy", "classes"), ("KLDivergence", "soft"))],
    *[(name, {}, (4, 3), "binary", "unit") for name in BINARY],
    *[(name, {}, (4, 3), "signs", "real") for name in HINGES],
    ("CategoricalHinge", {}, (4, 3), "one_hot", "real"),
    *[(name, {}, (4, 3), "positive", "positive") for name in (*REGRESSION, "Poisson", "CosineSimilarity")],
    *[(name, {"axis": [1]}, (4, 3), "binary", "unit") for name in ("Dice", "Tversky")],
    ("Circle", {}, (8, 5), "groups", "directions"),
    ("CTC", {}, (3, 7, 4), "sequences", "logits"),
]

LOSSES = [
    *[loss(name, {"from_logits": logits}, shape, labels, scores)
      for name, kinds in (("SparseCategoricalCrossentropy", ("classes", "column")),
                          ("CategoricalCrossentropy", ("one_hot", "soft")))
      for labels in kinds
      for shape in ((5, 4), (1, 2), (3, 6, 5))
      for logits, scores in ((True, "logits"), (False, "probabilities"), (False, "unnormalized"))],
    loss("CategoricalCrossentropy", {**LOGITS, "label_smoothing": 0.1}, (5, 4), "one_hot", "logits"),
    loss("CategoricalCrossentropy", {"label_smoothing": 0.3}, (5, 4), "one_hot", "probabilities"),
    loss("CategoricalCrossentropy", {"label_smoothing": 0.1}, (2, 3, 4), "soft", "probabilities"),
    loss("CategoricalCrossentropy", {"axis": 1}, (3, 4, 5), "soft", "positive", why="classes in the middle"),
    loss("CategoricalCrossentropy", {**LOGITS, "axis": -2}, (3, 2, 4, 5), "soft", "logits"),
    loss("SparseCategoricalCrossentropy", {}, (5, 4), "classes", "certain"),
    loss("CategoricalCrossentropy", {}, (5, 4), "one_hot", "certain"),
    loss("SparseCategoricalCrossentropy", LOGITS, (5, 1000), "classes", "logits"),
    loss("SparseCategoricalCrossentropy", LOGITS, (5, 4), "classes", "huge"),
    loss("SparseCategoricalCrossentropy", LOGITS, (5, 4), "classes", "logits", label_dtype="uint8"),
    loss("SparseCategoricalCrossentropy", {}, (5, 4), "column", "probabilities", label_dtype="float32"),
    loss("SparseCategoricalCrossentropy", {**LOGITS, "ignore_class": 255}, (6, 4), "ignored", "logits"),
    loss("SparseCategoricalCrossentropy", {"ignore_class": 255}, (3, 5, 4), "ignored", "probabilities"),
    loss("SparseCategoricalCrossentropy", {**LOGITS, "ignore_class": 255}, (3, 5, 4), "ignored", "logits", mask=True),
    loss("SparseCategoricalCrossentropy", {**LOGITS, "ignore_class": 255}, (3, 4, 5, 4), "ignored", "logits",
         weights="steps"),
    loss("SparseCategoricalCrossentropy", {"ignore_class": 0}, (6, 4), "classes", "probabilities",
         why="a class that there is"),
    # According to Keras's documentation, `axis` is the axis of classes; on JAX, Keras 3.15 accepts only labels of the
    # shape
    # for the last axis. Compared with the same values, classes last.
    loss("SparseCategoricalCrossentropy", {**LOGITS, "axis": 1}, (3, 4, 5), "classes", "logits"),
    loss("SparseCategoricalCrossentropy", {"axis": 1, "ignore_class": 255}, (2, 4, 3, 5), "ignored", "positive"),
    *[loss(name, {**LOGITS}, (5, 4), labels, "logits", weights="examples")
      for name, labels in (("SparseCategoricalCrossentropy", "classes"), ("CategoricalCrossentropy", "one_hot"),
                           ("BinaryCrossentropy", "binary"))],
    *[loss(name, {**LOGITS}, (3, 6, 4), labels, "logits", mask=True)
      for name, labels in (("SparseCategoricalCrossentropy", "classes"), ("CategoricalCrossentropy", "one_hot"),
                           ("BinaryCrossentropy", "binary"))],
    *[loss("SparseCategoricalCrossentropy", {**LOGITS, "reduction": reduction}, (3, 6, 4), "classes", "logits",
           mask=True, weights="steps")
      for reduction in ("sum_over_batch_size", "mean", "sum", "mean_with_sample_weight", "none")],
    *[loss("MeanAbsoluteError", {"reduction": reduction}, (5, 3), "real", "real", weights=weights)
      for reduction in ("sum", "mean_with_sample_weight", "none")
      for weights in (None, "examples")],
    loss("MeanSquaredError", {"reduction": "mean_with_sample_weight"}, (5, 3), "real", "real", weights="column"),
    *[loss(name, {**options, "reduction": reduction}, *batch, weights="examples")
      for name, options, *batch in EVERY
      for reduction in ("sum", "mean_with_sample_weight", "none")],

    *each(BINARY, {}, (5, 1), "binary", "unit"),
    *each(BINARY, {}, (5, 1), "flat", "unit", why="labels without the last axis"),
    *each(BINARY, {}, (1, 1), "binary", "unit"),
    *each(BINARY, {}, (3, 4, 5), "binary", "unit"),
    *each(BINARY, {}, (4, 6), "binary", "saturated"),
    *each(BINARY, {}, (4, 3), "binary", "zeros"),
    *each(BINARY, LOGITS, (5, 4), "binary", "logits"),
    *each(BINARY, {"label_smoothing": 0.2}, (5, 4), "binary", "unit"),
    *each(BINARY, {**LOGITS, "label_smoothing": 0.1, "axis": 1}, (3, 4, 5), "soft", "logits"),
    *each(BINARY, {}, (5, 4), "binary", "unit", dtype="bfloat16"),
    loss("BinaryCrossentropy", LOGITS, (4, 3), "binary", "huge"),
    loss("BinaryFocalCrossentropy", {"apply_class_balancing": True, "alpha": 0.4, "gamma": 1.5}, (5, 4), "binary",
         "unit"),
    loss("BinaryFocalCrossentropy", {"gamma": 0.0}, (5, 4), "binary", "unit", why="the crossentropy"),
    loss("CategoricalFocalCrossentropy", {}, (5, 4), "one_hot", "probabilities"),
    loss("CategoricalFocalCrossentropy", {**LOGITS, "alpha": 0.5, "gamma": 1.0}, (2, 3, 4), "soft", "logits"),
    loss("CategoricalFocalCrossentropy", {"label_smoothing": 0.1}, (5, 4), "one_hot", "unnormalized"),
    loss("CategoricalFocalCrossentropy", {}, (5, 4), "one_hot", "certain"),
    loss("CategoricalFocalCrossentropy", {"axis": 1}, (3, 4, 5), "soft", "positive"),
    loss("CategoricalGeneralizedCrossEntropy", {}, (5, 4), "classes", "probabilities"),
    loss("CategoricalGeneralizedCrossEntropy", {"q": 0.1}, (3, 6, 5), "classes", "probabilities"),
    loss("CategoricalCrossentropy", {}, (5, 4), "one_hot", "probabilities", ours="crossentropy"),
    loss("SparseCategoricalCrossentropy", {}, (5, 4), "column", "probabilities", ours="crossentropy"),
    loss("BinaryCrossentropy", {}, (5, 1), "binary", "unit", ours="crossentropy"),
    *each(ONE_HOT, {}, (5, 4), "one_hot", "probabilities", dtype="bfloat16"),
    loss("SparseCategoricalCrossentropy", LOGITS, (5, 4), "classes", "logits", dtype="bfloat16"),

    *each(HINGES, {}, (5, 4), "signs", "real"),
    *each(HINGES, {}, (5, 4), "binary", "real", why="0 and 1 become -1 and 1"),
    *each(HINGES, {}, (5, 4), "real", "real"),
    *each(HINGES, {}, (3, 2, 4), "signs", "real", weights="steps"),
    *each(HINGES, {}, (5, 1), "flat", "zeros", why="labels without the last axis"),
    loss("CategoricalHinge", {}, (5, 4), "one_hot", "real"),
    loss("CategoricalHinge", {}, (2, 3, 4), "soft", "unit"),
    loss("CategoricalHinge", {}, (4, 3), "one_hot", "zeros"),

    *each(REGRESSION, {}, (5, 4), "real", "real"),
    *each(REGRESSION, {}, (1, 1), "real", "real"),
    *each(REGRESSION, {}, (2, 3, 4, 5), "positive", "positive"),
    *each(REGRESSION, {}, (4, 3), "zeros", "real", why="labels of 0"),
    *each(REGRESSION, {}, (4, 3), "positive", "zeros"),
    *each(REGRESSION, {}, (4, 3), "positive", "positive", dtype="bfloat16"),
    loss("MeanSquaredError", {}, (5, 1), "flat", "real", why="labels without the last axis"),
    loss("MeanSquaredError", {}, (5, 1), "real", "real"),
    # Keras drops the predictions' last axis then, and averages over the steps.
    *[loss(name, {"reduction": reduction}, (3, 4, 1), "flat", "unit", weights=weights,
           why="labels of steps without the last axis")
      for name in ("MeanSquaredError", "MeanAbsoluteError", "LogCosh", "Huber", "Poisson", "KLDivergence",
                   "CosineSimilarity", *BINARY, *HINGES)
      for reduction, weights in (("sum", None), ("sum_over_batch_size", "examples"))],
    loss("MeanSquaredError", {}, (2, 3, 4, 5), "real", "real"),
    loss("MeanSquaredError", {}, (3, 5, 2), "real", "real", mask=True, weights="steps"),
    loss("MeanSquaredError", {}, (5, 4), "counts", "positive", label_dtype="int32"),
    loss("Huber", {"delta": 0.3}, (5, 4), "real", "real"),
    loss("LogCosh", {}, (5, 4), "real", "huge", why="no overflow"),
    loss("Poisson", {}, (5, 4), "counts", "positive"),
    loss("Poisson", {}, (5, 4), "counts", "zeros"),
    loss("KLDivergence", {}, (5, 4), "soft", "probabilities"),
    loss("KLDivergence", {}, (3, 2, 4), "one_hot", "probabilities"),
    loss("KLDivergence", {}, (4, 3), "soft", "saturated"),
    loss("KLDivergence", {}, (4, 3), "one_hot", "certain"),
    loss("CosineSimilarity", {}, (5, 4), "real", "real"),
    loss("CosineSimilarity", {}, (1, 3), "real", "real"),
    loss("CosineSimilarity", {"axis": 1}, (3, 4, 5), "real", "real"),
    loss("CosineSimilarity", {"axis": -2}, (2, 3, 4, 5), "real", "real"),
    loss("CosineSimilarity", {}, (3, 4), "real", "zeros", gradient=False, why="Keras's gradient at 0 is NaN"),

    loss("Dice", {}, (3, 4, 5, 2), "binary", "unit"),
    loss("Dice", {"axis": [1, 2, 3]}, (3, 4, 5, 2), "binary", "unit"),
    loss("Dice", {"axis": [1, 2]}, (3, 4, 5, 2), "binary", "unit"),
    loss("Dice", {"axis": -1}, (3, 4, 5), "soft", "probabilities"),
    loss("Dice", {"axis": [0, 1, 2]}, (3, 4, 5, 2), "binary", "unit", why="each class over the batch"),
    loss("Dice", {}, (3, 4), "zeros", "zeros", why="nothing there, nothing found"),
    loss("Dice", {}, (4, 3), "binary", "unit", weights="examples"),
    loss("Tversky", {}, (3, 4, 5, 2), "binary", "unit"),
    loss("Tversky", {"alpha": 0.3, "beta": 0.7}, (3, 4, 5, 1), "binary", "unit"),
    loss("Tversky", {"alpha": 0.8, "beta": 0.1, "axis": [1, 2]}, (3, 4, 5, 2), "binary", "unit"),
    loss("Tversky", {}, (3, 4), "zeros", "zeros"),
    loss("Circle", {}, (8, 5), "groups", "directions"),
    loss("Circle", {"gamma": 32.0, "margin": 0.25}, (9, 4), "groups", "directions"),
    loss("Circle", {"remove_diagonal": False}, (6, 5), "groups", "directions"),
    loss("CTC", {}, (4, 9, 5), "sequences", "logits"),
    loss("CTC", {}, (1, 4, 3), "sequences", "logits"),
    loss("CTC", {}, (3, 7, 4), "sequences", "logits", weights="examples"),
]
