"""Run the same commands in two checkouts and compare every answer: moving code must not change one.

    python .ci/same_answers PARENT RESULT [--quick | --full] [--answers-only] [--keep DIR]

Each checkout runs the command line (``plan.py`` says which commands) and the Python functions that
``python_answers.py`` calls, with this interpreter, the same packages and one thread. What they print and
write is then compared (``parts.py`` says how). With --answers-only, sentences may have other words and
pictures other lines; the numbers in sentences count nevertheless.
"""

import argparse
import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from parts import Part, describe, find_broken, judge, read_parts
from plan import SIZES, Command, make_inputs, plan

THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON", "ARROW_IO")
"""Whose number of threads is set to one: sums are then added up in one order."""

SIZE_HELP = {
    "quick": "Take the beginnings of the corpora and two trials of four experiments.",
    "full": "Take all trials and texts of each experiment as it was published.",
}
SITE = Path(__file__).with_name("site")
"""Keeps an editable install from being found before the checkout."""

FACE = Path(__file__).with_name("python_answers.py")


@dataclass(frozen=True)
class Tree:
    """A checkout, and the folder in which its commands run."""

    checkout: Path
    place: Path

    def run(self, command: Command) -> None:
        """Run one command; what it prints and its exit code become files beside what it writes."""
        target = self.place / command.name
        target.parent.mkdir(parents=True, exist_ok=True)
        start = ["-m", "attomaton"] if command.arguments else [str(FACE), str(target)]
        ran = subprocess.run(
            [sys.executable, *start, *command.arguments],
            cwd=self.place,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        ending = ".json" if "--json" in command.arguments else ".txt"
        target.with_name(f"{target.name}.stdout{ending}").write_bytes(ran.stdout)
        said = ran.stderr.decode().replace(str(self.checkout), "CHECKOUT")
        target.with_name(f"{target.name}.stderr.txt").write_text(said, encoding="utf-8")
        target.with_name(f"{target.name}.exit").write_text(f"{ran.returncode}\n", encoding="utf-8")

    def run_all(self, commands: list[Command]) -> None:
        """Run all commands in order, and say on stderr how long each took."""
        self.place.mkdir(parents=True)
        for number, command in enumerate(commands, 1):
            began = time.perf_counter()
            self.run(command)
            took = time.perf_counter() - began
            line = f"{self.place.name} {number}/{len(commands)} {command.name}: {took:.1f} s"
            print(line, file=sys.stderr, flush=True)

    def check_source(self) -> None:
        """Stop if this checkout is not what its commands import."""
        ask = [sys.executable, "-c", "import attomaton; print(attomaton.__file__)"]
        ran = subprocess.run(ask, env=self._environment(), capture_output=True, text=True, check=False)
        if not Path(ran.stdout.strip()).is_relative_to(self.checkout):
            sys.exit(f"{self.checkout} is not what is imported ({ran.stdout}{ran.stderr}); give a checkout")

    def _environment(self) -> dict[str, str]:
        """Nothing is written into the checkout: bytecode and compiled code have a place of their own."""
        cache = str(self.place.with_name(f"{self.place.name}-cache"))
        set_here = {f"{name}_NUM_THREADS": "1" for name in THREADS}
        caches = {"PYTHONPYCACHEPREFIX": cache}
        fixed = {"PYTHONHASHSEED": "0", "COLUMNS": "120", "SOURCE_DATE_EPOCH": "0"}
        return {
            **os.environ,
            **set_here,
            **caches,
            **fixed,
            "PYTHONPATH": os.pathsep.join(map(str, (SITE, self.checkout / "src"))),
        }


def digest(parts: dict[str, Part], names: list[str]) -> str:
    """One digest of these parts, its first twelve digits."""
    total = hashlib.sha256()
    for name in names:
        total.update(f"{name}\0{parts[name].content if name in parts else None}\0".encode())
    return total.hexdigest()[:12]


def compare(one: Path, other: Path) -> dict[str, int]:
    """Print a row for each group of parts, then each part that is not equal; returns how many there are."""
    left, right = read_parts(one), read_parts(other)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(left.keys() | right.keys()):
        groups[name.split("/")[0]].append(name)
    judged = {name: judge(left.get(name), right.get(name)) for names in groups.values() for name in names}
    print(f"{'what':28} {'parts':>6} {'parent':12} {'result':12}")
    for group, names in groups.items():
        said = sorted({judged[name] for name in names} - {"equal"})
        row = f"{group:28} {len(names):6,} {digest(left, names)} {digest(right, names)}"
        print(f"{row} {' and '.join(said) or 'equal'}")
    for name, found in judged.items():
        if found != "equal":
            print(f"{found}: {name}: {describe(left.get(name), right.get(name), (one, other))}")
    counts = {kind: list(judged.values()).count(kind) for kind in ("equal", "presentation", "DIFFERS")}
    broken = [f"{one.name}/{name}" for name in find_broken(left)]
    broken += [f"{other.name}/{name}" for name in find_broken(right)]
    counts["BROKEN"] = len(broken)
    for name in broken:
        print(f"BROKEN: {name} shows a command that did not answer")
    print(", ".join(f"{kind} {count:,}" for kind, count in counts.items()))
    return counts


def read_arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(
        description="Run the same commands in two checkouts and compare every answer, bit for bit.",
        epilog="The exit code is 1 if anything differs. Corpora come from the folder ATTOMATON_DATA.",
    )
    parser.add_argument("parent", type=Path, help="The checkout before a change.")
    parser.add_argument("result", type=Path, help="The checkout after it.")
    size = parser.add_mutually_exclusive_group()
    for name, told in SIZE_HELP.items():
        size.add_argument(f"--{name}", action="store_const", dest="size", const=name, help=told)
    parser.add_argument("--answers-only", action="store_true", help="Sentences and pictures may differ.")
    parser.add_argument("--together", action="store_true", help="Run both checkouts at the same time.")
    parser.add_argument("--keep", type=Path, help="Keep all outputs in this folder, which must be new.")
    parser.add_argument("--only", default="", help="Run the commands whose names match this expression.")
    return parser.parse_args()


def main() -> None:
    """Make the inputs, run both checkouts, compare."""
    asked = read_arguments()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary) if asked.keep is None else asked.keep.resolve()
        work.mkdir(parents=True, exist_ok=asked.keep is None)
        inputs = make_inputs(work / "inputs", SIZES[asked.size or "default"])
        commands = [one for one in plan(inputs) if re.search(asked.only, one.name)]
        trees = [Tree(getattr(asked, name).resolve(), work / name) for name in ("parent", "result")]
        for tree in trees:
            tree.check_source()
        with concurrent.futures.ThreadPoolExecutor(2 if asked.together else 1) as pool:
            list(pool.map(lambda tree: tree.run_all(commands), trees))
        counts = compare(trees[0].place, trees[1].place)
    print(f"{len(commands)} commands in each checkout, {time.perf_counter() - began:.0f} s together")
    wrong = counts["DIFFERS"] + counts["BROKEN"] + (0 if asked.answers_only else counts["presentation"])
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
