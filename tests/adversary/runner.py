"""Runs targets for so many trials or minutes and prints one table."""

import json
import time
import traceback
import warnings
import zlib
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import binom

from tests.adversary.finding import Finding, Target
from tests.adversary.registry import TARGETS

LONGEST = 4000
"""Characters of a case that are printed."""


@dataclass
class Outcome:
    """What became of the trials of one target."""

    name: str
    target: Target
    seed: int
    trials: int = 0
    judged: int = 0
    above: int = 0
    seconds: float = 0.0
    worst: Finding | None = None
    broken: list[tuple[int, int, Finding]] = field(default_factory=list)
    kinds: "dict[str, Outcome]" = field(default_factory=dict)

    def add(self, number: int, finding: Finding) -> None:
        """Count one trial, also among those of its kind."""
        if finding.kind:
            own = self.kinds.setdefault(finding.kind, Outcome(f"  {finding.kind}", self.target, self.seed))
            own.add(number, replace(finding, kind=""))
        self.trials += 1
        self.judged += finding.judged
        if not finding.judged:
            return
        self.above += not finding.deviation <= 1
        if self.worst is None or not finding.used <= self.worst.used:
            self.worst = finding
        if finding.violated:
            self.broken.append((finding.size, number, finding))

    @property
    def too_many_above(self) -> bool:
        """Whether more trials are above 1 than chance explains, once in a thousand tries."""
        share = self.target.share_above_one
        return share is not None and self.above > binom.ppf(0.999, self.judged, share)

    @property
    def violations(self) -> int:
        """Trials that broke the promise, or were above 1 where few may be."""
        return max(len(self.broken), self.above if self.too_many_above else 0)

    def row(self) -> list[str]:
        """Its line of the table."""
        worst = self.worst
        told = "" if worst is None else f"{worst.deviation:.2g} of {worst.allowed:.2g}"
        shown = [self.name, self.target.promise, f"{self.trials:,}", f"{self.judged:,}", told]
        above = f" ({self.above} above)" if self.target.share_above_one is not None else ""
        return [*shown, f"{self.violations:,}{above}", f"{self.seconds:.0f}"]

    def story(self) -> str:
        """The smallest case that broke the promise, and how to see it again; empty if none did."""
        if not self.broken:
            return ""
        size, number, finding = min(self.broken, key=lambda one: one[:2])
        told = json.dumps(finding.case, default=str)[:LONGEST]
        return (
            f"{self.name}: {finding.what}: {finding.deviation:.6g}, allowed {finding.allowed:.6g} "
            f"(size {size})\n"
            f"  python -m tests.adversary {self.name} --seed {self.seed} --trial {number}\n  {told}"
        )


def attempt(name: str, seed: int, number: int) -> Finding:
    """One trial; whatever escapes is a finding too."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return TARGETS[name].attack(rng)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno}"
            return Finding(np.inf, 0.0, f"{type(error).__name__} at {place}: {str(error)[:300]}", 0)


def run_trials(name: str, seed: int, trials: int, *, until: float = np.inf) -> Outcome:
    """So many trials of one target, or fewer if the clock passes ``until``."""
    outcome, begun = Outcome(name, TARGETS[name], seed), time.monotonic()
    for number in range(trials):
        outcome.add(number, attempt(name, seed, number))
        if time.monotonic() > until:
            break
    outcome.seconds = time.monotonic() - begun
    return outcome


def run_minutes(names: list[str], seed: int, minutes: float) -> list[Outcome]:
    """All targets for so long together; each has its share of what is left when its turn comes."""
    end, found = time.monotonic() + 60 * minutes, []
    for place, name in enumerate(names):
        now = time.monotonic()
        waiting = sum(TARGETS[other].patience for other in names[place:])
        share = max(end - now, 0.0) * TARGETS[name].patience / waiting
        found.append(run_trials(name, seed, 10**9, until=now + share))
    return found


def table_of(outcomes: list[Outcome], *, by_kind: bool = False) -> str:
    """One table, as Markdown, and the smallest case of each target that broke its promise."""
    listed = list(outcomes)
    if by_kind:
        listed = [row for one in outcomes for row in (one, *(one.kinds[k] for k in sorted(one.kinds)))]
    head = ["target", "promise", "trials", "judged", "worst deviation", "violations", "s"]
    rows = [head, *(outcome.row() for outcome in listed)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    stories = [story for outcome in outcomes if (story := outcome.story())]
    return "\n".join([*lines, *stories])
