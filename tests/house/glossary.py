#!/usr/bin/env python3
"""Checks that every term of docs/glossary.md occurs in the file that the glossary names for it.

Usage: glossary.py ROOT
"""
import pathlib
import re
import sys

ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| \[[^\]]*\]\((?P<file>[^)]+)\) \|$", re.M)


def main():
    root = pathlib.Path(sys.argv[1])
    errors, terms = [], set()
    for row in ROW.finditer((root / "docs/glossary.md").read_text(encoding="utf-8")):
        file = root / "docs" / row["file"]
        # Comments may wrap a term over two lines.
        text = re.sub(r"\s*\n\s*(//|#)?\s*", " ", file.read_text(encoding="utf-8") if file.exists() else "").lower()
        for term in re.sub(r"\(.*?\)", "", row["term"]).split(","):
            word = term.strip().lower()
            if word in terms:
                errors.append(f"'{word}' is in the glossary twice")
            terms.add(word)
            if not re.search(re.sub(r"[ -]", "[-_ ]", re.escape(word).replace("\\", "")), text):
                errors.append(f"'{word}' does not occur in {row['file'].removeprefix('../')}")
    print("\n".join(errors) or f"all {len(terms)} terms occur in the files that the glossary names")
    return 1 if errors or len(terms) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
