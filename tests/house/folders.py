#!/usr/bin/env python3
"""Checks that no folder has too many sources and that docs/ARCHITECTURE.md lists exactly the existing rooms.

Usage: folders.py [ROOT]. Prints each violation on a line; the exit code is 1 if there are any.
"""
import pathlib
import re
import sys

MOST_SOURCES = 30  # number of .cc files in a folder, not counting tests


def sources(folder):
    return [f for f in folder.glob("*.cc") if not f.name.endswith("_test.cc")]


def too_large(root):
    for folder in sorted((root / "penstock").rglob("*")):
        if not folder.is_dir() or len(sources(folder)) <= MOST_SOURCES:
            continue
        yield (f"{folder.relative_to(root)} holds {len(sources(folder))} sources (.cc that are no tests), more than "
               f"{MOST_SOURCES}: give each kind of thing in it a folder (cmake/Room.cmake finds them)")


def rooms_of_cmake(root):
    text = (root / "CMakeLists.txt").read_text()
    return re.search(r"set\(PENSTOCK_ROOMS ([^)]*)\)", text)[1].split()


def wrong_list(root):
    page = "docs/ARCHITECTURE.md"
    listed, pages = [], []
    for row in re.findall(r"^\| `(\w+)` \|.*\[\w+\]\(([\w./]+)[^)]*\) \|$", (root / page).read_text(), re.M):
        listed.append(row[0])
        pages.append(row[1])
    folders = {f.parent.name for f in (root / "penstock").glob("*/CMakeLists.txt")}
    for room in sorted(folders - set(listed)):
        yield f"{page} does not list the room penstock/{room}"
    for room in sorted(set(listed) - folders):
        yield f"{page} lists the room `{room}`, and there is no penstock/{room}"
    for name in sorted({p for p in pages if not (root / "docs" / p).exists()}):
        yield f"{page} links to docs/{name}, which does not exist"
    order = rooms_of_cmake(root)
    for room in sorted(folders - set(order)):
        yield f"PENSTOCK_ROOMS in CMakeLists.txt lacks the room {room}"
    expected = [room for room in order if room in listed]
    if [room for room in listed if room in order] != expected:
        yield f"{page} lists rooms in another order than PENSTOCK_ROOMS in CMakeLists.txt: {' '.join(expected)}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    wrong = [*too_large(root), *wrong_list(root)]
    print("\n".join(wrong) or "all folders and the list of rooms are as they should be")
    return 1 if wrong else 0


sys.exit(main())
