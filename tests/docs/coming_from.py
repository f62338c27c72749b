"""Checks that every name of Penstock in docs/coming-from.md exists, by a program that mentions each of them.

    coming_from.py ROOT FILE.cc        writes FILE.cc; the build compiles it

Names are in the last column of the page's tables, in backticks: `session::Placeholder`, and members after a dot,
`session::Session.Run`. A name may be followed by arguments, which are not checked. Other text in backticks is an error, so that
no name goes unchecked.
"""
import pathlib
import re
import sys

NAME = re.compile(r"^(?P<name>[a-z_]+(?:::\w+)+)(?:\.(?P<member>\w+))?(?:[({].*)?$")
HEADERS = ["penstock/penstock.h", "penstock/estimator/canned/canned.h", "penstock/estimator/estimator.h",
           "penstock/estimator/keras_interop.h", "penstock/estimator/monitored_session.h",
           "penstock/estimator/train_and_evaluate.h", "penstock/lazy/torch.h",
           "penstock/session/tensorflow.h"]


def names(page):
    for number, line in enumerate(page.splitlines(), 1):
        if not line.startswith("|") or re.match(r"^\|[ |-]*$", line):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for text in re.findall(r"`([^`]*)`", cells[-1]):
            match = NAME.match(text)
            if match is None:
                raise SystemExit(f"docs/coming-from.md:{number}: `{text}` is not a name of the form room::Name or room::Type.Member")
            yield number, match["name"], match["member"]


def main():
    root, file = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    lines = ["// Generated from docs/coming-from.md by tests/docs/coming_from.py."]
    lines += [f'#include "{header}"' for header in HEADERS]
    lines.append("namespace {")
    count = 0
    for number, name, member in names((root / "docs/coming-from.md").read_text(encoding="utf-8")):
        count += 1
        lines.append(f'#line {number} "docs/coming-from.md"')
        if member is None:
            lines.append(f"namespace name_{count} {{ using ::penstock::{name}; }}")
        else:
            lines.append(f"struct Name{count} : ::penstock::{name} {{ using ::penstock::{name}::{member}; }};")
    if count < 100:
        raise SystemExit(f"docs/coming-from.md has {count} names, fewer than 100: is its form still the one that is read here?")
    lines.append("}  // namespace")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


main()
