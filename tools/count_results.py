"""Counts the results of ./test: GoogleTest cases, crashed programs, fuzz targets, stages that could not run.

Usage: count_results.py RESULTS-FOLDER. Prints the failures by name and, as the last line, "N passed, N failed";
the exit code is 1 if something failed or nothing ran.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def cases(folder):
    """Returns the number of passed cases and the names of failed cases of all GoogleTest reports in `folder`."""
    passed, failed = 0, []
    for report in sorted(folder.glob("*.xml")):
        try:
            root = ElementTree.parse(report).getroot()
        except ElementTree.ParseError:
            continue  # the program crashed while writing; its ctest entry counts
        for suite in root.iter("testsuite"):
            for case in suite.iter("testcase"):
                if case.get("status") != "run":
                    continue
                if case.find("failure") is None:
                    passed += 1
                else:
                    failed.append(f"{folder.name}: {suite.get('name')}.{case.get('name')}")
    return passed, failed


def skipped(program):
    """Returns whether a script was skipped because a requirement is missing on this machine (SKIP_RETURN_CODE)."""
    reason = program.find("skipped")
    return reason is not None and "SKIP_RETURN_CODE" in reason.get("message", "")


def main():
    results = pathlib.Path(sys.argv[1])
    passed, failed = 0, []
    for junit in sorted(results.glob("*.junit")):
        ok, bad = cases(results / junit.stem)
        passed += ok
        failed += bad
        programs = [p for p in ElementTree.parse(junit).getroot().iter("testcase") if not skipped(p)]
        broken = [p for p in programs if p.get("status") != "run" or p.find("failure") is not None]
        # A failed case fails its program as well; a program that failed without one (a crash, a sanitizer's
        # report, a timeout) counts as a failure of its own.
        if len(broken) > len({name.split(".")[0] for name in bad}):
            failed += [f"{junit.stem}: program {p.get('name')}" for p in broken]
        # A test that is not a GoogleTest program (a script) counts as one case.
        xml = {report.stem for report in (results / junit.stem).glob("*.xml")}
        passed += sum(1 for p in programs if p not in broken and p.get("name") not in xml)
    fuzz = results / "fuzz.log"
    if fuzz.exists():
        for line in fuzz.read_text().splitlines():
            if line.endswith(" ok"):
                passed += 1
            elif " FAILED" in line:
                failed.append(line)
    not_run = results / "not-run"
    if not_run.exists():
        failed += [f"could not {line}" for line in not_run.read_text().splitlines()]
    for name in failed:
        print(f"FAILED {name}")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
