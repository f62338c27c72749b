"""Generates programs from the code blocks in pages and header comments, so that the compiler checks them.

    code_blocks.py ROOT FOLDER          writes FOLDER/<page>.cc, FOLDER/run_<page>_<n>.cc and FOLDER/sources.txt

A block in a page is fenced: ```cpp. One in a header is indented by three or more spaces after `//` and has a line that
ends in `;` or `{`. Each becomes the body of a function that returns absl::Status, in the header's namespace (in a page
after `using namespace penstock`). Variables and functions that a block uses but does not show are defined in

  - a page: in a comment before it, `<!-- test: CODE -->`, where CODE is put before the block;
  - a header: in tests/docs/context/<room>.txt, in a section that begins with `== <header>:<n>` (its n-th block).

In CODE, `...` stands for the block itself when something has to follow it, `namespace` as the first word puts all at
namespace scope, `run` makes a program of a block with main() that the test runs (tests/docs/run_blocks.py), and `skip: REASON`
leaves a block out. A placeholder `...` in a block is removed.
"""
import os
import re
import subprocess
import sys
import textwrap

FENCE = re.compile(r"(?:<!-- test: (?P<context>(?:(?!-->).)*?) -->\n+)?^```(?P<language>\w+)\n(?P<code>.*?)^```", re.S | re.M)
COMMENT = re.compile(r"\s*//( {3,}\S|\s*$)")


class Block:
    def __init__(self, path, line, code, context):
        self.path, self.line, self.code, self.context = path, line, code, (context or "").strip()

    @property
    def where(self):
        return f"{self.path}:{self.line}"

    @property
    def is_program(self):
        return re.search(r"^int main\(", self.code, re.M) is not None


def blocks_of_page(path, text):
    for match in FENCE.finditer(text):
        if match["language"] == "cpp":
            line = text.count("\n", 0, match.start("code")) + 1
            yield Block(path, line, match["code"], match["context"])


def blocks_of_header(path, text, contexts):
    lines, i, number = text.split("\n"), 0, 0
    while i < len(lines):
        if not re.match(r"\s*// {3,}\S", lines[i]):
            i += 1
            continue
        first, block = i, []
        while i < len(lines) and COMMENT.match(lines[i]):
            block.append(re.sub(r"^\s*// ?", "", lines[i]))
            i += 1
        # A list of files that precedes an example is not part of it.
        for part in re.split(r"\n\s*\n(?=\S| {2}\S)", "\n".join(block)) if is_list("\n".join(block)) else ["\n".join(block)]:
            if re.search(r"[;{]\s*(//.*)?$", part, re.M) and not is_list(part):
                number += 1
                yield Block(path, first + 1, textwrap.dedent(part) + "\n", contexts.get(f"{path}:{number}"))


def is_list(text):
    """Whether all lines have the form `name.h   what it is`."""
    return re.search(r"^\s*[a-z_]+\.h[ ,]", text, re.M) is not None


def read_contexts(folder):
    contexts = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        with open(f"{folder}/{name}", encoding="utf-8") as file:
            for section in re.split(r"^== ", file.read(), flags=re.M)[1:]:
                head, _, body = section.partition("\n")
                head = head.strip()
                contexts[f"penstock/{head}" if ":" in head else f"penstock/{head}:1"] = body
    return contexts


def without_placeholders(code):
    return re.sub(r"(?<![\w.>)])\.\.\.(?![\w.])", "", code)


def function(block, name):
    """The block as a function, or as declarations at namespace scope; `name` is unique, because several pages are one
    translation unit."""
    code = without_placeholders(block.code)
    includes = re.findall(r"^\s*#include .*$", code, re.M)
    code = re.sub(r"^\s*#include .*$", "", code, flags=re.M)
    context, at_namespace = block.context, False
    if context.split(None, 1)[:1] == ["namespace"]:
        at_namespace, context = True, context.partition("namespace")[2]
    include = r'#include [<"][^>"]+[>"]'
    context_includes, context = re.findall(include, context), re.sub(include, "", context)
    before, _, after = context.partition("...")
    marked = f'#line {block.line} "{block.path}"\n{code}'
    if at_namespace:
        text = f"namespace {name} {{\n{before}\n{marked}\n{after}\n}}"
    else:
        text = f"absl::Status {name}() {{\n{before}\n{marked}\n{after}\nreturn absl::OkStatus();\n}}"
    return includes + context_includes, text


def write(path, text):
    """Writes the file only if it differs, to avoid needless compilations."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def stem(path):
    return re.sub(r"\W", "_", os.path.splitext(path)[0])


def source(path, blocks):
    includes, functions = [], []
    for number, block in enumerate(blocks, 1):
        more, text = function(block, f"{stem(path)}_{number}")
        includes += [line.strip() for line in more]
        functions.append(text)
    if path.endswith(".h"):
        room = path.split("/")[1]
        includes.append(f'#include "{path}"')
        opening = "namespace penstock {" if path == "penstock/penstock.h" else f"namespace penstock::{room} {{"
    else:
        opening = "namespace page {\nusing namespace penstock;"
    head = ["#include <iostream>", '#include "penstock/penstock.h"', '#include "penstock/base/status.h"']
    return "\n".join(head + sorted(set(includes)) + [opening] + functions + ["}"]) + "\n"


def main():
    root, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    files = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "penstock/*.h"],
                           capture_output=True, text=True, check=True).stdout.split("\n")
    contexts = read_contexts(f"{root}/tests/docs/context")
    rooms = {name for name in os.listdir(f"{root}/tests/docs/context")} if contexts else set()
    made, used = [], set()
    for path in filter(lambda name: name and os.path.exists(f"{root}/{name}"), files):
        with open(f"{root}/{path}", encoding="utf-8") as file:
            text = file.read()
        if path.endswith(".h"):
            if f"{path.split('/')[1].removesuffix('.h')}.txt" not in rooms:
                continue
            blocks = list(blocks_of_header(path, text, contexts))
            used |= {f"{path}:{n}" for n in range(1, len(blocks) + 1)}
        else:
            blocks = list(blocks_of_page(path, text))
        programs = [b for b in blocks if b.is_program and not b.context.startswith("skip:")]
        for number, block in enumerate(programs, 1):
            name = f"{'run' if block.context.startswith('run') else 'compile'}_{stem(path)}_{number}.cc"
            write(f"{folder}/{name}", f'#line {block.line} "{block.path}"\n{without_placeholders(block.code)}')
            made.append(name)
        rest = [b for b in blocks if not b.is_program and not b.context.startswith("skip:")]
        if rest:
            write(f"{folder}/{stem(path)}.cc", source(path, rest))
            made.append(f"{stem(path)}.cc")
    unknown = [name for name in contexts if name not in used]
    if unknown:
        sys.exit(f"tests/docs/context: there is no such block: {', '.join(unknown)}")
    write(f"{folder}/sources.txt", "".join(f"{name}\n" for name in made))


if __name__ == "__main__":
    main()
