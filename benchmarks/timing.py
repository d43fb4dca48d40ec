"""What the benchmarks share: the bar, the JSON line, the corpus, the memory of this process."""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("ATTOMATON_DATA", Path(__file__).parents[1] / "../shared/data"))


def read_wikitext(*parts: str) -> str:
    """The text of these parts of WikiText-2, one after the other."""
    return "".join((DATA / "wikitext-2" / f"{part}.txt").read_text(encoding="utf-8") for part in parts)


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """What the function returns, and its seconds."""
    start = time.perf_counter()
    result = function(*arguments)
    return result, round(time.perf_counter() - start, 3)


def peak_gigabytes() -> float:
    """Largest resident memory of this process so far."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 3)


def report(figures: dict[str, Any], bars: dict[str, bool]) -> None:
    """Print one JSON line; with --check, end with 1 if a bar is missed."""
    print(json.dumps({**figures, "bars": bars}))
    if "--check" in sys.argv and not all(bars.values()):
        sys.exit(1)


def median_run(once: Callable[[], dict[str, Any]], key: str, runs: int) -> dict[str, Any]:
    """The run that is the median by ``key``."""
    results = sorted((once() for _ in range(runs)), key=lambda figures: figures[key])
    return {**results[len(results) // 2], "runs": runs}
