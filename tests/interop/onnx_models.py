"""Checks ONNX models of Penstock with onnx, and runs them with ONNX Runtime.

  rows FILE      writes the rows of tests/parity for layers as JSON
  check FOLDER   for each name in FOLDER/models.json: checks FOLDER/NAME.onnx strictly, runs it with the first 1, 3 and 7
                 examples of the inputs in FOLDER/NAME.safetensors ("input/..."), and compares the outputs with the first
                 examples of "output/..."; writes what differs to FOLDER/differences.json
"""

import json
import pathlib
import sys

BATCHES = (1, 3, 7)


def write_rows(file):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "parity"))
    import table

    pathlib.Path(file).write_text(json.dumps(table.LAYERS))


def difference(got, want, tolerance):
    import numpy as np

    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.size == 0:
        return None
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return f"{np.isnan(got).sum()} NaNs instead of {np.isnan(want).sum()}"
    same = np.isnan(want) | (got == want)  # infinities, too
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0, np.abs(got - want))
    finite = want[np.isfinite(want)]
    scale = max(1.0, np.abs(finite).max() if finite.size else 0.0)
    worst = error.max() / scale
    return None if worst <= tolerance else f"differs by {worst:.2e} of the largest element"


def check(folder, model):
    import onnx
    import onnxruntime
    from safetensors.numpy import load_file

    path = str(folder / (model["name"] + ".onnx"))
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    tensors = load_file(folder / (model["name"] + ".safetensors"))
    # The axis with the examples, for inputs and outputs that have one.
    def examples(prefix, name, count):
        axis = model["batch_axis"][prefix + name]
        array = tensors[prefix + name]
        if axis < 0:
            return array
        return array.take(range(count * array.shape[axis] // BATCHES[-1]), axis)

    names = [output.name for output in session.get_outputs()]
    expected = [key.removeprefix("output/") for key in tensors if key.startswith("output/")]
    if sorted(names) != sorted(expected):
        return f"outputs {sorted(names)}, not {sorted(expected)}"
    for count in model.get("batches", BATCHES):
        feed = {i.name: examples("input/", i.name, count) for i in session.get_inputs()}
        for name, got in zip(names, session.run(names, feed), strict=True):
            wrong = difference(got, examples("output/", name, count), model["tolerance"])
            if wrong:
                return f"{name} of {count} examples: {wrong}"
    metadata = session.get_modelmeta().custom_metadata_map
    if metadata != model.get("metadata", {}):
        return f"metadata {metadata}"
    return None


def check_all(folder):
    differences = {}
    for model in json.loads((folder / "models.json").read_text()):
        print(model["what"], flush=True)  # the last one, if ONNX Runtime crashes
        try:
            wrong = check(folder, model)
        except Exception as error:  # noqa: BLE001  reported with the model's name
            wrong = f"{type(error).__name__}: {error}"[:1500]
        if wrong:
            differences[model["what"]] = wrong
    (folder / "differences.json").write_text(json.dumps(differences))


if __name__ == "__main__":
    if sys.argv[1] == "rows":
        write_rows(sys.argv[2])
    else:
        check_all(pathlib.Path(sys.argv[2]))
