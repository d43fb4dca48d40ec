"""What is too long for the gate, as much of it as fits into a budget, taken up where the last call stopped.

    python .ci/campaigns.py [--minutes M] [--list]

A piece of work is a file of slow tests, the laws on other examples, a target of the adversary or a benchmark.
Pieces that never ran come first, then those that ran longest ago; one that passed with this very code does
not run again. What ran, at which size, with which seed and how it ended goes to docs/campaigns.md after each
piece, and docs/promises.md shows it.
"""

import argparse
import hashlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "campaigns.md"
CODE = ("src", "native", "tests", "benchmarks", "pyproject.toml")
FAULTS = os.environ.get("ATTOMATON_FAULTS", "30")
ABOVE = "Seed {}, code {}, {}:"
HEAD = ("| work | size | result | seconds |", "| --- | --- | --- | --- |")
TARGET_MINUTES = 3
"""Of each target of the adversary."""


@dataclass(frozen=True)
class Work:
    """A piece of work: what it is called, what is run, and how large it is if that is known before."""

    name: str
    command: tuple[str, ...]
    size: str = ""
    alone: bool = False


@dataclass(frozen=True)
class Done:
    """A row of the record."""

    work: str
    size: str
    seed: int
    result: str
    seconds: int
    code: str
    day: str


def list_work(seed: int) -> list[Work]:
    """Everything there is to run."""
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    listed = subprocess.run(
        [*pytest, "--collect-only", "-m", "slow and not timing", "tests"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    files = Counter(line.partition("::")[0] for line in listed.splitlines() if "::" in line)
    work = [
        Work(file, (*pytest, "-m", "slow and not timing", file), f"{count} × {FAULTS}")
        for file, count in files.items()
    ]
    laws = ("tests/laws", "--hypothesis-profile", "random", "--hypothesis-seed", str(seed))
    work.append(Work("laws on other examples", (*pytest, *laws), "400 examples of each"))
    sys.path.insert(0, str(ROOT))
    from tests.adversary.registry import TARGETS

    adversary = (
        sys.executable,
        "-m",
        "tests.adversary",
        "--minutes",
        str(TARGET_MINUTES),
        "--seed",
        str(seed),
    )
    work += [Work(f"adversary: {name}", (*adversary, name)) for name in TARGETS]
    work.append(Work("timing tests", (*pytest, "-m", "timing", "tests"), alone=True))
    for path in sorted((ROOT / "benchmarks").glob("bench_*.py")):
        work.append(Work(f"benchmarks/{path.name}", (sys.executable, str(path), "--check"), alone=True))
    return work


def size_of(work: Work, printed: str) -> str:
    """How much was done, as the work itself says it."""
    if row := re.search(r"^\| [\w-]+ +\| .*? \| ([\d,]+) +\| ([\d,]+) +\| (.*?) +\|", printed, re.MULTILINE):
        return f"{row[1]} trials, {row[2]} judged, worst {row[3]}"
    if work.name.startswith("benchmarks/"):
        with suppress(ValueError, KeyError, IndexError):  # it failed before it printed its line
            return json.dumps(json.loads(printed.splitlines()[0])["bars"]).replace("|", "/")
    return work.size


def read_record() -> dict[str, Done]:
    """The last run of each piece of work."""
    if not RECORD.exists():
        return {}
    record: dict[str, Done] = {}
    seed, code, day = 0, "", ""
    for line in RECORD.read_text(encoding="utf-8").splitlines():
        if above := re.fullmatch(ABOVE.format(r"(\d+)", r"(\w+)", r"(\S+)"), line):
            seed, code, day = int(above[1]), above[2], above[3]
        elif line.startswith("| ") and line not in HEAD:
            name, size, result, seconds = line.strip("| ").split(" | ")
            record[name] = Done(name, size, seed, result, int(seconds), code, day)
    return record


def write_record(record: dict[str, Done]) -> None:
    """The record as tables of Markdown: one, latest first, for all that ran with one seed, code and day."""
    tables: dict[tuple[str, str, int], list[str]] = {}
    for name in sorted(record):
        done = record[name]
        row = f"| {name} | {done.size} | {done.result} | {done.seconds} |"
        tables.setdefault((done.day, done.code, done.seed), []).append(row)
    lines: list[str] = []
    for (day, code, seed), rows in sorted(tables.items(), reverse=True):
        lines += [ABOVE.format(seed, code, day), "", *HEAD, *rows, ""]
    RECORD.write_text("\n".join(lines), encoding="utf-8")


def code_now() -> str:
    """A short name of everything that can change a result, committed or not; the record cannot."""
    digest = hashlib.sha256()
    for command in (["ls-tree", "-r", "HEAD"], ["diff", "HEAD"]):
        listed = subprocess.run(["git", *command, "--", *CODE], cwd=ROOT, capture_output=True, check=True)
        digest.update(listed.stdout)
    return digest.hexdigest()[:8]


def is_done(done: Done | None, code: str) -> bool:
    """Whether this passed with this very code."""
    return done is not None and done.code == code and done.result == "passed"


def choose_work(work: list[Work], record: dict[str, Done], code: str) -> list[Work]:
    """What is left to run: what never ran, then what ran longest ago."""
    waiting = [one for one in work if not is_done(record.get(one.name), code)]
    return sorted(waiting, key=lambda one: record[one.name].day if one.name in record else "")


def run_work(work: Work, seed: int, seconds: float) -> tuple[str, int, str]:
    """How it ended, after how many seconds, and what it printed; cut off when its time is over."""
    environment = {**os.environ, "ATTOMATON_FAULTS": FAULTS, "ATTOMATON_SEED": str(seed)}
    if not work.alone:
        environment["OMP_NUM_THREADS"] = "1"
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(
            work.command, cwd=ROOT, env=environment, stdout=printed, stderr=printed, start_new_session=True
        )
        try:
            result = "failed" if process.wait(min(seconds, threading.TIMEOUT_MAX)) else "passed"
        except subprocess.TimeoutExpired:
            result = "cut off by the budget"
            os.killpg(process.pid, signal.SIGKILL)  # with all that it started
            process.wait()
        printed.seek(0)
        return result, round(time.monotonic() - begun), printed.read()


@dataclass
class Campaigns:
    """Runs pieces of work until the time is over, and keeps the record."""

    seed: int
    code: str
    end: float
    record: dict[str, Done]
    failed: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, work: Work) -> None:
        """Run one piece, unless it would not end in time, and write down how it ended."""
        left = self.end - time.monotonic()
        last = self.record.get(work.name)
        if left < (last.seconds if last and last.result == "passed" else 30):
            print(f"not begun, for lack of time: {work.name}", flush=True)
            return
        result, seconds, printed = run_work(work, self.seed, left)
        size, day = size_of(work, printed), str(date.today())
        with self.lock:
            print(f"{result}: {work.name} ({seconds} s)", flush=True)
            if result == "failed":
                self.failed.append(work.name)
                print(printed[-4000:], flush=True)
            self.record[work.name] = Done(work.name, size, self.seed, result, seconds, self.code, day)
            write_record(self.record)

    def run_all(self, waiting: list[Work]) -> None:
        """Run as many at once as there are cores; what measures seconds has the machine to itself."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            begun: list[Future[None]] = []
            for work in waiting:
                if work.alone:
                    wait(begun)
                    self.run(work)
                else:
                    begun.append(pool.submit(self.run, work))
            for one in begun:
                one.result()


def main() -> int:
    """Run what fits; 1 if something failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="for everything together")
    parser.add_argument("--list", action="store_true", help="say what would be run, and end")
    asked = parser.parse_args()
    end, code, seed = time.monotonic() + 60 * asked.minutes, code_now(), secrets.randbelow(2**31)
    campaigns, work = Campaigns(seed, code, end, read_record()), list_work(seed)
    waiting = choose_work(work, campaigns.record, code)
    print(f"{len(waiting)} of {len(work)} pieces of work are to be run; seed {seed}", flush=True)
    if asked.list:
        print("\n".join(one.name for one in waiting))
        return 0
    campaigns.run_all(waiting)
    passed = sum(is_done(campaigns.record.get(one.name), code) for one in work)
    print(f"{passed} of {len(work)} passed with this code; failed: {', '.join(campaigns.failed) or 'none'}")
    return int(bool(campaigns.failed))


if __name__ == "__main__":
    sys.exit(main())
