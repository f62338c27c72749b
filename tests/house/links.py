#!/usr/bin/env python3
"""Checks references in pages and comments: links to files and headings, names of pages and of source files.

Usage: links.py ROOT
"""
import os
import re
import subprocess
import sys

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PAGE = re.compile(r"(?<![\w./-])docs/(?:[a-z]+/)*[\w-]+\.md")
SOURCE = re.compile(r"(?<![\w./*<-])((?:[a-z][a-z0-9_]*/)+[a-z0-9_]+\.(?:h|cc|py))(?![\w*])")
# Files of other projects, identified as such by the surrounding sentence.
FOREIGN = ("absl/", "nlohmann/", "xla/", "gtest/", "gmock/", "arrow/", "sys/", "net/", "CLI/", "google/", "tensorflow/",
           "tensorflow_estimator/", "oneapi/", "curl/", "openssl/", "kvstore/", "keras/src/")


def anchor(heading):
    """The anchor that GitHub assigns to a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    heading = re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower())
    return heading.replace(" ", "-")


def prose(text):
    """Markdown without code blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def headings(path):
    with open(path, encoding="utf-8") as page:
        return {anchor(line.lstrip("#")) for line in prose(page.read()).splitlines() if line.startswith("#")}


def broken_links(root, page, text):
    for target in LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        path = os.path.normpath(os.path.join(root, os.path.dirname(page), name)) if name else os.path.join(root, page)
        if not os.path.exists(path):
            yield f"{page}: the link ({target}) leads to no file"
        elif fragment and path.endswith(".md") and fragment not in headings(path):
            yield f"{page}: the link ({target}) leads to no heading of {name or page}"


def missing_pages(root, page, text):
    """Pages that a sentence names without a link."""
    for line_number, line in enumerate(text.splitlines(), 1):
        for name in PAGE.findall(line):
            if not os.path.exists(f"{root}/{name}"):
                yield f"{page}:{line_number}: there is no page {name}"


def comments(text):
    return "\n".join(line.partition("//")[2] if "//" in line else "" for line in text.splitlines())


def missing_sources(root, page, text):
    folder = os.path.dirname(page)
    room = os.path.splitext(os.path.basename(page))[0]  # docs/design/data.md is about penstock/data
    for line_number, line in enumerate(text.splitlines(), 1):
        for name in SOURCE.findall(line):
            places = (name, f"penstock/{name}", f"{folder}/{name}", f"{os.path.dirname(folder)}/{name}",
                      f"penstock/{room}/{name}")
            if not name.startswith(FOREIGN) and not any(os.path.exists(f"{root}/{place}") for place in places):
                yield f"{page}:{line_number}: there is no file {name}"


def main():
    root = sys.argv[1]
    files = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=False)
    if files.returncode != 0:
        print("no git repository here: nothing is checked")
        return 77
    errors = []
    for page in files.stdout.split("\n"):
        if not os.path.exists(f"{root}/{page}") or not page.endswith((".md", ".h", ".cc")):
            continue
        with open(f"{root}/{page}", encoding="utf-8") as file:
            text = file.read()
        if page.endswith(".md"):
            errors += broken_links(root, page, text)
            errors += missing_pages(root, page, text)
            errors += missing_sources(root, page, text)
        else:
            errors += missing_sources(root, page, comments(text))
    print("\n".join(errors) or "every link and every named source file exists")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
