"""Comparison of two programs that run alternately, about a second each. The ratio is the median over the rounds of the ratio
within a round, so that other load of the machine affects both sides.

A side is an object with round(), which returns a dictionary of numbers, and close(). A Match has our side, a peer's side, and
lines, each of which compares one number of their results.
"""
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import signal

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
LOGS = BUILD / "logs"
WARM_ROUNDS = 2  # warm-up for autotuners


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def run(*command):
    done = subprocess.run([str(part) for part in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-2000:]}\nbench: command failed: {' '.join(str(part) for part in command)}")


def build(*targets):
    say(f"building {', '.join(targets)}")
    run("cmake", "--preset", "release")
    run("cmake", "--build", "--preset", "release", "--target", *targets)


def make_folder(folder, program):
    """Creates a folder with `program make FOLDER`, atomically."""
    if folder.exists():
        return
    say(f"making {folder.relative_to(ROOT)}")
    part = folder.with_name(folder.name + ".part")
    part.mkdir(parents=True, exist_ok=True)
    run(program, "make", part)
    part.rename(folder)


class SideFailed(Exception):
    pass


class Program:
    """Base class of sides that run a program with pipes; an error includes the end of the program's stderr."""

    def __init__(self, *command, env=None):
        self.command = [str(part) for part in command]
        self.env = {**os.environ, **(env or {})}
        LOGS.mkdir(parents=True, exist_ok=True)

    def start(self):
        self.log = open(LOGS / f"{pathlib.Path(self.command[0]).name}.{os.getpid()}.{id(self)}", "w+")
        return subprocess.Popen(self.command, cwd=ROOT, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=self.log, text=True)

    def answer(self, process):
        line = process.stdout.readline()
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            self.log.seek(0)
            raise SideFailed(f"{self.log.read()[-2000:]}\nprogram exited early: {' '.join(self.command)}") from None

    def delete_log(self):
        self.log.close()
        os.unlink(self.log.name)


class Worker(Program):
    """Program that runs a workload for about a second for each line of its stdin."""

    def __init__(self, *command, env=None):
        super().__init__(*command, env=env)
        self.process = self.start()

    def round(self):
        try:
            self.process.send_signal(signal.SIGCONT)
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            return self.answer(self.process)
        except BrokenPipeError:
            return self.answer(self.process)
        finally:
            # Otherwise it would continue to fill its buffers while the other side is measured.
            self.process.send_signal(signal.SIGSTOP)

    def close(self):
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.delete_log()


class Start(Program):
    """Time from the start of a program until it prints a line. The program is killed then."""

    def __init__(self, *command, env=None, before=lambda: None):
        super().__init__(*command, env=env)
        self.before = before

    def round(self):
        self.before()
        begin = time.perf_counter()
        process = self.start()
        try:
            answer = self.answer(process)
            return {**answer, "seconds": time.perf_counter() - begin}
        finally:
            process.kill()
            process.wait()
            self.delete_log()

    def close(self):
        pass


class Once(Program):
    """Program with a deterministic result, which is run once."""

    def __init__(self, *command, env=None):
        super().__init__(*command, env=env)
        self.result = None

    def round(self):
        if self.result is None:
            process = self.start()
            self.result = self.answer(process)
            process.stdin.close()
            process.wait()
            self.delete_log()
        return self.result

    def close(self):
        pass


class Constant:
    """Constant limit, as a side."""

    def __init__(self, **answer):
        self.answer = answer

    def round(self):
        return self.answer

    def close(self):
        pass


@dataclasses.dataclass(frozen=True)
class Reading:
    """One number of a side's result."""
    key: str
    unit: str
    scale: float = 1
    less_is_better: bool = False
    last: bool = False  # use the last round instead of the median
    digits: int = 0

    def of(self, answer):
        return answer[self.key] * self.scale

    def ratio(self, ours, peer):
        return peer / ours if self.less_is_better else ours / peer


ITEMS = Reading("items_per_second", "items/s")
IMAGES = Reading("items_per_second", "images/s")
STEPS = Reading("items_per_second", "steps/s")
MEMORY = Reading("peak_rss", "MB", scale=1e-6, less_is_better=True, last=True)
SECONDS = Reading("seconds", "s", less_is_better=True, digits=2)


class BestOf:
    """One peer with several settings: uses the best of them, determined by alternating rounds."""

    def __init__(self, reading, rounds=3, **settings):
        sides = {name: make() for name, make in settings.items()}
        for side in sides.values():
            side.round()
        results = [{name: reading.of(side.round()) for name, side in sides.items()} for _ in range(rounds)]
        medians = {name: statistics.median(result[name] for result in results) for name in sides}
        self.setting = (min if reading.less_is_better else max)(medians, key=medians.get)
        say(", ".join(f"{name}: {value:,.{max(1, reading.digits)}f} {reading.unit}" for name, value in medians.items()) +
            f"; using {self.setting}")
        self.side = sides.pop(self.setting)
        for side in sides.values():
            side.close()

    def round(self):
        return self.side.round()

    def close(self):
        self.side.close()


@dataclasses.dataclass(frozen=True)
class Line:
    work: str
    reading: Reading
    target: float  # minimum ratio; a ratio above 1 means that Penstock is better


@dataclasses.dataclass(frozen=True)
class Match:
    ours: callable  # creates our side
    peer_name: str
    peer: callable
    lines: list


def selected(match, only):
    """Returns the lines of the match that contain one of the words of --only."""
    return [line for line in match.lines
            if not only or any(word.lower() in f"{line.work} | {match.peer_name}".lower() for word in only)]


def measure(matches, rounds, only=()):
    """Runs the matches, prints a row for each line, and returns the rows as dictionaries."""
    print(f"{'work':<52} {'ours':>12} {'unit':<9} {'peer':<26} {'peer':>12}  {'ratio':>6}  {'target':>6}  met", flush=True)
    rows = []
    for match in matches:
        lines = selected(match, only)
        if not lines:
            continue
        try:
            setting, pairs = run_match(match, rounds)
            rows += [print_row(row(line, match.peer_name, setting, pairs)) for line in lines]
        except SideFailed as failed:
            say(failed)
            rows += [print_row(failed_row(line, match.peer_name)) for line in lines]
    return rows


def run_match(match, rounds):
    sides = []
    try:
        for make in (match.ours, match.peer):
            sides.append(make())
        for _ in range(WARM_ROUNDS):
            for side in sides:
                side.round()
        return getattr(sides[1], "setting", ""), [[side.round() for side in sides] for _ in range(rounds)]
    finally:
        for side in sides:
            side.close()


def row(line, peer_name, setting, pairs):
    reading = line.reading
    values = [[reading.of(answer) for answer in pair] for pair in (pairs[-1:] if reading.last else pairs)]
    ratio = statistics.median(reading.ratio(ours, peer) for ours, peer in values)
    return {"work": line.work, "ours": statistics.median(ours for ours, _ in values), "unit": reading.unit,
            "digits": reading.digits, "peer": peer_name, "peer_setting": setting,
            "peer_value": statistics.median(peer for _, peer in values), "ratio": ratio, "target": line.target,
            "met": ratio >= line.target}


def failed_row(line, peer_name):
    return {"work": line.work, "ours": None, "unit": line.reading.unit, "digits": 0, "peer": peer_name, "peer_setting": "",
            "peer_value": None, "ratio": None, "target": line.target, "met": False}


def print_row(made):
    digits = made.pop("digits")
    number = lambda value, digits: "failed" if value is None else f"{value:,.{digits}f}"
    print(f"{made['work']:<52} {number(made['ours'], digits):>12} {made['unit']:<9} {made['peer']:<26} "
          f"{number(made['peer_value'], digits):>12}  {number(made['ratio'], 2):>6}  {made['target']:6.2f}  "
          f"{'yes' if made['met'] else 'NO'}", flush=True)
    return made


def markdown(rows):
    """The rows as a page's table (docs/benchmarks)."""
    def number(value, unit=""):
        if value is None:
            return "failed"
        return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}".strip()
    lines = ["| work | ours | peer | its figure | ratio | target | met |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for made in rows:
        ratio = "failed" if made["ratio"] is None else f"{made['ratio']:.2f}"
        lines.append(f"| {made['work']} | {number(made['ours'], made['unit'])} | {made['peer']} | {number(made['peer_value'])} "
                     f"| {ratio} | {made['target']:g} | {'yes' if made['met'] else 'no'} |")
    return "\n".join(lines) + "\n"
