"""``python -m tests.adversary [TARGET ...] [--minutes M | --trials N] [--seed S] [--trial I] [--kinds]``.

Without a number of trials or minutes each target makes as many trials as in the gate; without a seed a fresh
one is drawn, and printed.
"""

import argparse
import json
import secrets
import sys

from tests.adversary.registry import TARGETS
from tests.adversary.runner import attempt, run_minutes, run_trials, table_of


def main() -> int:
    """Run what was asked for; 1 if a promise was broken."""
    parser = argparse.ArgumentParser("python -m tests.adversary", description=__doc__)
    parser.add_argument("target", nargs="*", help=f"some of {', '.join(TARGETS)}; all without")
    much = parser.add_mutually_exclusive_group()
    much.add_argument("--minutes", type=float, help="for all targets together")
    much.add_argument("--trials", type=int, help="of each target")
    much.add_argument("--trial", type=int, help="show this one of the seed's trials with its case")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--kinds", action="store_true", help="a line for each kind of case, too")
    asked = parser.parse_args()
    names = asked.target or list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        parser.error(f"there is no target {unknown[0]!r}; the targets are {', '.join(TARGETS)}")
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    sys.stdout.write(f"seed {seed}\n")
    if asked.trial is not None:
        return _show(names, seed, asked.trial)
    if asked.minutes is not None:
        outcomes = run_minutes(names, seed, asked.minutes)
    else:
        outcomes = [run_trials(name, seed, asked.trials or TARGETS[name].trials) for name in names]
    sys.stdout.write(table_of(outcomes, by_kind=asked.kinds) + "\n")
    return int(any(outcome.violations for outcome in outcomes))


def _show(names: list[str], seed: int, number: int) -> int:
    """One trial of each target, in full."""
    findings = {name: attempt(name, seed, number) for name in names}
    for name, one in findings.items():
        verdict = "violated" if one.violated else "kept" if one.judged else "no promise made"
        sys.stdout.write(f"{name}: {verdict}: {one.what}: {one.deviation!r}, allowed {one.allowed!r}\n")
        sys.stdout.write(json.dumps(one.case, default=str) + "\n")
    return int(any(one.violated for one in findings.values()))


if __name__ == "__main__":
    sys.exit(main())
