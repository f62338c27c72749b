"""Runs the blocks of pages that are marked `<!-- test: run -->`, in the order of the page, in an empty folder.

Usage: run_blocks.py ROOT BUILD PAGE...    Shell blocks (```sh) find the program `penstock`; C++ blocks with main() are
programs in BUILD/tests/docs (tests/docs/code_blocks.py). The folder contains small images in photos/train and photos/test.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"<!-- test: run(?P<how>[^>]*?) -->\n+```(?P<language>sh|cpp)\n(?P<code>.*?)^```", re.S | re.M)


def photos(root, folder):
    """Makes images of two digits, as a stand-in for a user's photo folders."""
    archive = pathlib.Path(root, "third_party/unpacked/digits/digits.csv.gz")
    with tempfile.TemporaryDirectory() as digits:
        subprocess.run([sys.executable, f"{root}/examples/digits/write_images.py", archive, digits], check=True,
                       stdout=subprocess.DEVNULL)
        for split, count in {"train": 24, "test": 8}.items():
            for label, name in (("0", "cat"), ("1", "dog")):
                target = pathlib.Path(folder, "photos", split, name)
                target.mkdir(parents=True)
                for image in sorted(pathlib.Path(digits, split, label).iterdir())[:count]:
                    shutil.copy(image, target)


def run_page(root, build, page):
    text = pathlib.Path(root, page).read_text(encoding="utf-8")
    stem = re.sub(r"\W", "_", os.path.splitext(page)[0])
    programs = 0
    with tempfile.TemporaryDirectory() as folder:
        photos(root, folder)
        environment = dict(os.environ, PATH=f"{build}/bin:{os.environ['PATH']}")
        for match in BLOCK.finditer(text):
            if match["language"] == "cpp":
                programs += 1
                command = [f"{build}/tests/docs/run_{stem}_{programs}"]
            else:
                command = ["bash", "-euo", "pipefail", "-c", match["code"]]
            result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False,
                                    timeout=500)
            line = text.count("\n", 0, match.start("code")) + 1
            if result.returncode != 0:
                print(f"{page}:{line}: exit status {result.returncode}\n{match['code']}\n{result.stdout}\n{result.stderr}")
                return False
            print(f"{page}:{line}: ok")
    return True


def main():
    root, build, *pages = sys.argv[1:]
    sys.exit(0 if all([run_page(root, build, page) for page in pages]) else 1)


if __name__ == "__main__":
    main()
