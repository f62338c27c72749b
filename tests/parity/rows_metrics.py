"""Metrics compared with Keras; see table.py. Three batches each, with sample weights, some of which are 0.

metric(class, options, shape of the predictions, labels, scores, more): labels, scores, dtype and ours as in
rows_losses.py, and
  labels   ones; numbers (classes 0 to 3 in every place); two_classes (one-hot, only the first two occur)
  scores   steps (0, 0.1 ... 1: many ties, some on a threshold); numbers; ids (class numbers, best first)
  weights  "examples" by default; "steps"; None
  batches  3 by default
  keras    options for Keras only
"""


def metric(class_name, options, shape, labels, scores, **more):
    return {"class": class_name, "config": options, "shape": list(shape), "labels": labels, "scores": scores,
            "weights": "examples", "batches": 3, **more}


def each(names, options, *rest, **more):
    return [metric(name, options, *rest, **more) for name in names]


COUNTS = ["TruePositives", "TrueNegatives", "FalsePositives", "FalseNegatives"]
PRECISIONS = ["Precision", "Recall"]
AT = [("SensitivityAtSpecificity", "specificity"), ("SpecificityAtSensitivity", "sensitivity"),
      ("PrecisionAtRecall", "recall"), ("RecallAtPrecision", "precision")]
REGRESSION = ["MeanSquaredError", "RootMeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError",
              "MeanSquaredLogarithmicError", "LogCoshError", "CosineSimilarity"]
CORRELATIONS = ["PearsonCorrelation", "ConcordanceCorrelation"]
LOGITS = {"from_logits": True}
# Keras counts in integers by default.
FLOAT = {"dtype": "float32"}


def iou(class_name, options, *rest, **more):
    return metric(class_name, options, *rest, keras=FLOAT, **more)


METRICS = [
    metric("SparseCategoricalAccuracy", {}, (7, 4), "classes", "logits"),
    metric("SparseCategoricalAccuracy", {}, (7, 4), "column", "probabilities"),
    metric("SparseCategoricalAccuracy", {}, (3, 5, 4), "classes", "logits", weights="steps"),
    metric("SparseCategoricalAccuracy", {}, (3, 5, 4), "classes", "zeros", why="the first of equals"),
    metric("CategoricalAccuracy", {}, (7, 4), "one_hot", "probabilities"),
    metric("CategoricalAccuracy", {}, (3, 5, 4), "soft", "logits"),
    metric("BinaryAccuracy", {}, (9, 1), "binary", "unit"),
    metric("BinaryAccuracy", {}, (9, 1), "flat", "unit", why="labels without the last axis"),
    metric("BinaryAccuracy", {"threshold": 0.3}, (5, 4), "binary", "steps"),
    metric("Accuracy", {}, (9, 3), "numbers", "numbers"),
    metric("Accuracy", {}, (9,), "numbers", "numbers", why="one axis"),
    metric("SparseCategoricalAccuracy", {}, (7, 4), "classes", "probabilities", ours="accuracy"),
    metric("CategoricalAccuracy", {}, (7, 4), "one_hot", "probabilities", ours="accuracy"),
    metric("BinaryAccuracy", {}, (9, 1), "binary", "unit", ours="accuracy"),
    metric("TopKCategoricalAccuracy", {}, (6, 9), "one_hot", "logits"),
    metric("TopKCategoricalAccuracy", {"k": 2}, (3, 5, 6), "soft", "logits"),
    metric("TopKCategoricalAccuracy", {"k": 1}, (6, 4), "one_hot", "zeros", why="all equal"),
    metric("SparseTopKCategoricalAccuracy", {"k": 3}, (7, 8), "classes", "logits"),
    metric("SparseTopKCategoricalAccuracy", {"k": 2}, (7, 5), "classes", "steps", why="equal ones"),
    metric("SparseTopKCategoricalAccuracy", {"k": 9}, (7, 5), "classes", "logits", why="more than there are"),
    metric("SparseTopKCategoricalAccuracy", {"k": 2, "from_sorted_ids": True}, (7, 5), "classes", "ids"),

    *each(COUNTS, {}, (8, 3), "binary", "unit"),
    *each(COUNTS, {"thresholds": 0.3}, (8, 1), "flat", "steps"),
    *each(COUNTS, {"thresholds": 0.0}, (8, 3), "binary", "saturated"),
    *each(PRECISIONS, {}, (8, 3), "binary", "unit"),
    *each(PRECISIONS, {}, (8, 1), "flat", "unit", weights=None),
    *each(PRECISIONS, {"thresholds": 0.7}, (8, 3), "binary", "steps"),
    *each(PRECISIONS, {"top_k": 2}, (8, 5), "binary", "unit"),
    *each(PRECISIONS, {"top_k": 2}, (8, 5), "binary", "steps", why="the first of equals"),
    *each(PRECISIONS, {"class_id": 1}, (8, 3), "one_hot", "probabilities"),
    *each(PRECISIONS, {"class_id": 2, "top_k": 1, "thresholds": 0.4}, (9, 3), "one_hot", "probabilities"),
    *each(PRECISIONS, {}, (6, 3), "binary", "zeros", why="nothing is found"),
    *each(PRECISIONS, {}, (6, 3), "zeros", "unit", why="nothing is there"),
    *each(PRECISIONS, {}, (8, 3), "binary", "unit", dtype="bfloat16"),

    *[metric(name, {**options, "average": average}, (8, 4), labels, scores)
      for name, options in (("F1Score", {}), ("FBetaScore", {"beta": 2.0}))
      for average in ("micro", "macro", "weighted")
      for labels, scores in (("one_hot", "probabilities"), ("two_classes", "steps"))],
    metric("F1Score", {"average": "macro", "threshold": 0.5}, (8, 4), "binary", "unit"),
    metric("FBetaScore", {"average": "weighted", "beta": 0.5, "threshold": 0.25}, (8, 4), "binary", "unit"),
    metric("F1Score", {"average": "micro"}, (8, 4), "one_hot", "zeros"),

    *[metric("AUC", {"curve": curve, "summation_method": method}, (16, 1), "binary", "unit")
      for curve in ("ROC", "PR", "PRGAIN") for method in ("interpolation", "minoring", "majoring")],
    *[metric("AUC", {"curve": curve, "num_thresholds": 11}, (20, 2), "binary", "steps") for curve in ("ROC", "PR")],
    metric("AUC", {"num_thresholds": 3}, (20, 1), "flat", "unit"),
    metric("AUC", {"num_thresholds": 2}, (20, 1), "binary", "unit"),
    metric("AUC", {"thresholds": [0.9, 0.2, 0.5]}, (20, 1), "binary", "unit"),
    metric("AUC", {"thresholds": [0.5], "curve": "PR"}, (20, 1), "binary", "steps", why="even after all"),
    metric("AUC", {**LOGITS, "curve": "PR"}, (20, 1), "binary", "logits"),
    metric("AUC", {"multi_label": True}, (20, 3), "binary", "unit"),
    metric("AUC", {"multi_label": True, "num_labels": 3, "label_weights": [0.5, 2.0, 0.0], "curve": "PR"}, (20, 3),
           "binary", "unit"),
    metric("AUC", {"label_weights": [1.0, 0.25, 3.0]}, (20, 3), "binary", "unit"),
    metric("AUC", {}, (12, 1), "binary", "saturated"),
    metric("AUC", {}, (12, 1), "zeros", "unit", why="no positives"),
    metric("AUC", {"curve": "PR"}, (12, 1), "ones", "unit", why="no negatives"),
    metric("AUC", {}, (12, 1), "binary", "zeros"),
    *[metric(name, {key: 0.6}, (16, 2), "binary", "unit") for name, key in AT],
    *[metric(name, {key: 0.4, "num_thresholds": 11, "class_id": 1}, (16, 3), "one_hot", "probabilities")
      for name, key in AT],
    *[metric(name, {key: 0.5, "num_thresholds": 1}, (16, 1), "flat", "steps") for name, key in AT],
    *[metric(name, {key: 1.0, "num_thresholds": 5}, (9, 2), "binary", "zeros") for name, key in AT],

    iou("MeanIoU", {"num_classes": 4}, (7,), "numbers", "numbers"),
    iou("MeanIoU", {"num_classes": 6}, (2, 5, 4), "numbers", "numbers", weights=None, why="classes that do not occur"),
    iou("MeanIoU", {"num_classes": 4, "ignore_class": 2}, (2, 5, 4), "numbers", "numbers", weights=None),
    iou("MeanIoU", {"num_classes": 4, "ignore_class": 255, "sparse_y_pred": False}, (3, 5, 4), "ignored", "logits",
        weights="steps"),
    iou("MeanIoU", {"num_classes": 3}, (30,), "numbers", "numbers", why="a class that there is not"),
    iou("IoU", {"num_classes": 4, "target_class_ids": [0, 2]}, (12,), "numbers", "numbers"),
    iou("IoU", {"num_classes": 4, "target_class_ids": [3], "sparse_y_true": False, "sparse_y_pred": False}, (12, 4),
        "one_hot", "probabilities"),
    iou("BinaryIoU", {}, (12,), "binary", "unit"),
    iou("BinaryIoU", {"target_class_ids": [1], "threshold": 0.3}, (3, 5, 4), "binary", "steps", weights=None),
    iou("OneHotIoU", {"num_classes": 4, "target_class_ids": [1, 3]}, (12, 4), "one_hot", "logits"),
    # Keras 3.15 applies `axis` to its result as well, which fails unless it is -1. Compared
    # with the same values, classes last.
    iou("OneHotIoU", {"num_classes": 3, "target_class_ids": [0, 1], "axis": 1}, (2, 3, 4), "soft", "logits",
        weights=None),
    iou("OneHotMeanIoU", {"num_classes": 4}, (12, 4), "one_hot", "logits"),
    iou("OneHotMeanIoU", {"num_classes": 4, "ignore_class": 0}, (3, 5, 4), "two_classes", "logits", weights="steps"),

    *each(REGRESSION, {}, (7, 3), "real", "real"),
    *each(REGRESSION, {}, (3, 4, 2), "positive", "positive", weights="steps"),
    *each(REGRESSION, {}, (7, 3), "positive", "positive", dtype="bfloat16"),
    metric("MeanSquaredError", {}, (7, 1), "flat", "real", why="labels without the last axis"),
    metric("CosineSimilarity", {"axis": 1}, (3, 4, 2), "real", "real"),
    *[metric(name, {}, (3, 6, 1), "flat", "unit", why="labels of steps without the last axis")
      for name in ("MeanSquaredError", "RootMeanSquaredError", "CosineSimilarity", "BinaryAccuracy", *CORRELATIONS)],
    *each(CORRELATIONS, {}, (5, 6), "real", "real"),
    *each(CORRELATIONS, {"axis": 1}, (3, 6, 2), "positive", "real"),
    metric("R2Score", {}, (8, 1), "real", "real"),
    metric("R2Score", {}, (8, 3), "real", "unit"),
    metric("R2Score", {"class_aggregation": "variance_weighted_average"}, (8, 3), "positive", "unit"),
    metric("R2Score", {"num_regressors": 2}, (8, 1), "real", "real", weights=None),
    metric("R2Score", {"num_regressors": 99}, (8, 1), "real", "real", weights=None, why="more than examples"),
    metric("R2Score", {}, (8, 2), "zeros", "real", why="labels that do not vary"),
    metric("BinaryCrossentropy", {}, (7, 3), "binary", "unit"),
    metric("BinaryCrossentropy", {**LOGITS, "label_smoothing": 0.1}, (7, 1), "binary", "logits"),
    metric("CategoricalCrossentropy", {}, (7, 4), "one_hot", "probabilities"),
    metric("CategoricalCrossentropy", {**LOGITS, "label_smoothing": 0.2}, (3, 5, 4), "soft", "logits"),
    metric("SparseCategoricalCrossentropy", {}, (7, 4), "classes", "probabilities"),
    metric("SparseCategoricalCrossentropy", {**LOGITS, "ignore_class": 255}, (7, 4), "ignored", "logits"),
    metric("KLDivergence", {}, (7, 4), "soft", "probabilities"),
    metric("Poisson", {}, (7, 4), "counts", "positive"),
    *each(["Hinge", "SquaredHinge"], {}, (7, 4), "signs", "real"),
    metric("Hinge", {}, (7, 4), "binary", "real"),
    metric("CategoricalHinge", {}, (7, 4), "one_hot", "real"),
    metric("Mean", {}, (7, 3), "zeros", "real"),
    metric("Mean", {}, (3, 4, 2), "zeros", "real", weights="steps"),
    metric("Mean", {}, (7,), "zeros", "real", batches=1, weights=None),
    metric("Sum", {}, (7, 3), "zeros", "real"),
    metric("Sum", {}, (3, 4, 2), "zeros", "real", weights=None),
]
