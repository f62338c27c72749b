"""Opens the SavedModels of saved_model_test.cc with TensorFlow, and writes others.

Usage: saved_model_files.py FOLDER

FOLDER has a SavedModel for each case, and CASE_BATCH.safetensors with inputs, predictions and weights. Exits with 1
where TensorFlow predicts something else. Writes CASE_again, the same saved by TensorFlow; keras_export, of TensorFlow's
operations; jax, of jax2tf.
"""

import contextlib
import io
import pathlib
import sys

import jax
import keras
import numpy as np
import tensorflow as tf
from absl import flags
from jax.experimental import jax2tf
from safetensors.numpy import load_file, save_file
from tensorflow.python.tools import saved_model_cli

BATCHES = [1, 3, 128]


def part(arrays, prefix):
    return {name[len(prefix):]: array for name, array in arrays.items() if name.startswith(prefix)}


def expect_near(got, want, what):
    got = np.asarray(got)
    assert got.shape == want.shape and got.dtype == want.dtype, f"{what}: {got.dtype}{got.shape}"
    error = np.max(np.abs(got - want) / (1 + np.abs(want)), initial=0)
    assert error <= 1e-5, f"{what}: differs by {error}"


def expect_outputs(got, want, what):
    assert sorted(got) == sorted(want), f"{what}: outputs {sorted(got)}"
    for name, array in want.items():
        expect_near(got[name], array, f"{what}, {name}")


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def check_predictions(folder, case, loaded):
    serve = loaded.signatures["serving_default"]
    layer = keras.layers.TFSMLayer(str(folder / case), call_endpoint="serve")
    for batch in BATCHES:
        arrays = load_file(folder / f"{case}_{batch}.safetensors")
        inputs, outputs = part(arrays, "input/"), part(arrays, "output/")
        what = f"{case}, batch {batch}"
        expect_outputs(serve(**{name: tf.constant(x) for name, x in inputs.items()}), outputs, what)
        # In the order of the network's inputs and outputs.
        xs = [tf.constant(inputs[name]) for name in ORDER.get(case, (list(inputs), None))[0]]
        ys = [outputs[name] for name in ORDER.get(case, (None, list(outputs)))[1]]
        for function, name in (loaded.serve, "serve"), (layer, "TFSMLayer"):
            for got, want in zip(listed(function(xs[0] if len(xs) == 1 else xs)), ys, strict=True):
                expect_near(got, want, f"{what}, {name}")
    return load_file(folder / f"{case}_1.safetensors")


ORDER = {"ports": (["wide-input", "deep"], ["score", "code"])}


def check_variables(folder, case, loaded, weights):
    by_name = {v.name.removesuffix(":0"): v.numpy() for v in loaded.variables}
    assert sorted(by_name) == sorted(weights), f"{case}: variables {sorted(by_name)}"
    for name, array in weights.items():
        assert by_name[name].tobytes() == array.tobytes(), f"{case}: variable {name}"
    assert len(loaded.trainable_variables) + len(loaded.non_trainable_variables) == len(weights), case
    for variable in loaded.non_trainable_variables:
        assert "moving" in variable.name or "seed" in variable.name, f"{case}: {variable.name}"
    reader = tf.train.load_checkpoint(str(folder / case / "variables" / "variables"))
    for name, array in weights.items():
        assert reader.get_tensor(f"{name}/.ATTRIBUTES/VARIABLE_VALUE").tobytes() == array.tobytes(), name


# Sessions of TensorFlow 1, as TensorFlow Serving runs them, and the command line.
def check_session(folder, case):
    arrays = load_file(folder / f"{case}_3.safetensors")
    inputs, outputs = part(arrays, "input/"), part(arrays, "output/")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], str(folder / case))
        signature = meta.signature_def["serving_default"]
        feed = {signature.inputs[name].name: x for name, x in inputs.items()}
        got = session.run({name: info.name for name, info in signature.outputs.items()}, feed)
        expect_outputs(got, outputs, f"{case}, session")


def check_command_line(folder, case):
    arrays = load_file(folder / f"{case}_3.safetensors")
    inputs, outputs = part(arrays, "input/"), part(arrays, "output/")
    np.savez(folder / "inputs.npz", **inputs)
    base = ["--dir", str(folder / case), "--tag_set", "serve", "--signature_def", "serving_default"]
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        # The functions that the program saved_model_cli calls.
        for command, arguments in ((saved_model_cli.show, ["show", *base]),
                                   (saved_model_cli.run, ["run", *base, "--overwrite", "--outdir", str(folder), "--inputs",
                                    ";".join(f"{name}={folder / 'inputs.npz'}[{name}]" for name in inputs)])):
            flags.FLAGS(["saved_model_cli", *arguments])
            command()
    assert "tensorflow/serving/predict" in text.getvalue(), text.getvalue()
    for name, array in outputs.items():
        expect_near(np.load(folder / f"{name}.npy"), array, f"{case}, saved_model_cli")


def write_others(folder):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="dense")])
    model.export(str(folder / "keras_export"), verbose=False)
    kernel = tf.Variable(np.arange(12, dtype=np.float32).reshape(3, 4), name="kernel")
    module = tf.Module()
    module.kernel = kernel
    predict = jax2tf.convert(lambda w, x: jax.numpy.tanh(x @ w) + x.sum())
    module.serve = tf.function(lambda x: {"y": predict(kernel, x)}, autograph=False,
                               input_signature=[tf.TensorSpec((5, 3), tf.float32, name="x")])
    tf.saved_model.save(module, str(folder / "jax"), signatures={"serving_default": module.serve})
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    save_file({"input": x, "output": module.serve(tf.constant(x))["y"].numpy()}, folder / "jax.safetensors")


def main():
    folder = pathlib.Path(sys.argv[1])
    cases = sorted({f.name.rsplit("_", 1)[0] for f in folder.glob("*.safetensors")})
    assert len(cases) == 6, cases
    for case in cases:
        loaded = tf.saved_model.load(str(folder / case))
        weights = part(check_predictions(folder, case, loaded), "weight/")
        check_variables(folder, case, loaded, weights)
        check_session(folder, case)
        tf.saved_model.save(loaded, str(folder / f"{case}_again"), signatures=loaded.signatures)
    for case in ("dense", "convolutions", "ports"):
        check_command_line(folder, case)
    write_others(folder)


main()
