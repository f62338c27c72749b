"""Computes the rows of this folder with TensorFlow's graphs and sessions (tf.compat.v1).

Usage: expect.py FOLDER. Writes rows.json, a list of rows, and tensors.safetensors, whose tensors are named
"<index>/<what>":

  input/I      argument I of the row
  cotangent/I  incoming gradient of output I, if it is a float
  want/I       output I
  gradient/I   gradient of sum(output * cotangent) with respect to input I, if both are floats

A row of rows.json has its name, the dtypes and static shapes of its outputs when the batch is unknown (the first
extent of input 0 and of the inputs that share it), and the tolerance.
"""

import json
import pathlib
import re
import sys

from rows import as_list, tf  # first: it sets the environment

import numpy as np
import safetensors.numpy

import arrays
import elementwise
import functional
import images
import indexing
import nn
import products
import reductions
import spatial

FAMILIES = {"elementwise": elementwise, "reductions": reductions, "products": products, "arrays": arrays,
            "indexing": indexing, "nn": nn, "spatial": spatial, "images": images,
            "functional": functional}

RANDOM = "is random; ops/random_ops_test.cc tests it statistically"
ERROR = "is an error; ops/array_ops_test.cc tests its message"
NOT_COMPARED = {
    **{name: RANDOM for name in (
        "RandomUniform", "RandomNormal", "TruncatedNormal", "RandomShuffle", "RandomCrop", "Multinomial",
        "StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "random::Categorical",
        "nn::Dropout", "image::RandomFlipLeftRight", "image::RandomFlipUpDown", "image::RandomBrightness",
        "image::RandomContrast", "image::RandomHue", "image::RandomSaturation")},
    "BooleanMask": ERROR, "Unique": ERROR,
}


FUNCTION = r"(?!using|struct|enum|inline)[A-Za-z_][\w:<>, ]* (operator[^\s(]+|[A-Z]\w*)\("


def declared(header):
    """Qualified names of the functions that a header declares."""
    scope, names = [], []
    for line in re.sub(r"//.*", "", header).splitlines():
        if opened := re.match(r"namespace ([\w:]+) \{", line):
            scope.append(opened[1].removeprefix("penstock::session").removeprefix("::"))
        elif line.startswith("}") and line.strip() == "}":
            scope.pop()
        elif function := re.match(FUNCTION, line):
            names.append("::".join(filter(None, [*scope, function[1]])))
    return names


def check_completeness(folder, rows):
    names = [name for header in sorted(folder.glob("*_ops.h")) if header.name != "core_ops.h"
             for name in declared(header.read_text())]
    with_rows = {row.split("/")[0] if not row.startswith("operator") else row[:9] for row in rows}
    known = with_rows | NOT_COMPARED.keys()
    problems = [f"{name} has no row: add one, or a reason to NOT_COMPARED" for name in sorted(set(names) - known)]
    problems += [f"{name} has rows or a reason, but no header declares it" for name in sorted(known - set(names))]
    if problems:
        sys.exit("tests/session: " + "\n".join(problems))


def unknown_batch(inputs):
    """Which inputs have the batch of input 0 on their first axis."""
    batch = inputs[0].shape[:1] if inputs else ()
    return [len(batch) == 1 and value.shape[:1] == batch for value in inputs]


def static_shapes(row, inputs, unknown):
    """Static shapes of the outputs with an unknown batch: a list of extents, None for an unknown rank; or None if
    TensorFlow cannot build the row."""
    try:
        with tf.Graph().as_default():
            placeholders = [tf.placeholder(x.dtype, [None, *x.shape[1:]] if is_unknown else x.shape)
                            for x, is_unknown in zip(inputs, unknown)]
            outputs = [tf.convert_to_tensor(y) for y in as_list(row.function(*placeholders))]
            return [None if y.shape.rank is None else [-1 if n is None else n for n in y.shape.as_list()]
                    for y in outputs]
    except (ValueError, TypeError, tf.errors.OpError):
        return None


class Built:
    """A row in the default graph."""

    def __init__(self, name, row, feeds):
        self.name, self.row = name, row
        self.random = np.random.default_rng(list(name.encode()))
        self.inputs = [draw(self.random) for draw in row.inputs]
        self.placeholders = [tf.placeholder(x.dtype, x.shape) for x in self.inputs]
        feeds.update(zip(self.placeholders, self.inputs))
        self.outputs = [tf.convert_to_tensor(y) for y in as_list(row.function(*self.placeholders))]
        self.cotangents, self.gradients = {}, {}  # by output, by input

    def add_gradients(self, values):
        floats = [k for k, x in enumerate(self.placeholders) if x.dtype.is_floating]
        for k, value in enumerate(values):
            if self.outputs[k].dtype.is_floating:
                self.cotangents[k] = self.random.uniform(0.5, 1.5, np.shape(value)).astype(value.dtype)
        if not (self.row.gradient and floats and self.cotangents):
            return
        try:
            found = tf.gradients([self.outputs[k] for k in self.cotangents], [self.placeholders[k] for k in floats],
                                 grad_ys=[tf.constant(c) for c in self.cotangents.values()])
        except Exception as error:
            raise RuntimeError(f"gradients of row {self.name}: {error}") from error
        for k, g in zip(floats, found):
            self.gradients[k] = tf.zeros_like(self.placeholders[k]) if g is None else tf.convert_to_tensor(g)


class Expected:
    def __init__(self):
        self.rows, self.tensors = [], {}

    def add_family(self, family, rows):
        feeds, built = {}, []
        with tf.Graph().as_default(), tf.Session() as session:
            for name, row in rows.items():
                try:
                    built.append(Built(name, row, feeds))
                except Exception as error:
                    raise RuntimeError(f"row {name}: {error}") from error
            outputs = session.run([x.outputs for x in built], feeds)
            for x, values in zip(built, outputs):
                x.add_gradients(values)
            gradients = session.run([x.gradients for x in built], feeds)
        for x, values, computed in zip(built, outputs, gradients):
            self.add(family, x, values, computed)

    def add(self, family, x, outputs, gradients):
        unknown = unknown_batch(x.inputs)
        tensors = {f"input/{k}": value for k, value in enumerate(x.inputs)}
        tensors |= {f"want/{k}": value for k, value in enumerate(outputs)}
        tensors |= {f"cotangent/{k}": value for k, value in x.cotangents.items()}
        tensors |= {f"gradient/{k}": value for k, value in gradients.items()}
        for what, value in tensors.items():
            self.tensors[f"{len(self.rows)}/{what}"] = np.array(value, order="C")
        self.rows.append({"family": family, "name": x.name, "inputs": len(x.inputs), "outputs": len(outputs),
                          "gradient": bool(gradients), "unknown": unknown,
                          "static": static_shapes(x.row, x.inputs, unknown), "shape": x.row.shape,
                          "tolerance": x.row.tolerance})


def main(folder):
    root = pathlib.Path(__file__).resolve().parents[2]
    rows = {name: row for family in FAMILIES.values() for name, row in family.ROWS.items()}
    check_completeness(root / "penstock/session/ops", rows)
    expected = Expected()
    for family, module in FAMILIES.items():
        expected.add_family(family, module.ROWS)
    folder = pathlib.Path(folder)
    (folder / "rows.json").write_text(json.dumps(expected.rows))
    safetensors.numpy.save_file(expected.tensors, folder / "tensors.safetensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
