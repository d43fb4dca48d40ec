"""Start-up: `import attomaton` under 1 s, `attomaton --help` under 1.5 s, nothing heavy loaded."""

import statistics
import subprocess
import sys
import time

from timing import report

HEAVY = ("torch", "duckdb", "pyspark", "numba")
IMPORT = f"import sys, attomaton; sys.exit(any(name in sys.modules for name in {HEAVY}))"


def seconds(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    return time.perf_counter() - start


def median(*command: str) -> float:
    seconds(*command)  # byte-compile
    return round(statistics.median(seconds(*command) for _ in range(7)), 3)


if __name__ == "__main__":
    figures = {
        "python_s": median("-c", "pass"),
        "import_s": median("-c", IMPORT),
        "help_s": median("-c", "from attomaton.cli import main; main()", "--help"),
    }
    report(
        figures, {"import_under_1_s": figures["import_s"] < 1, "help_under_1.5_s": figures["help_s"] < 1.5}
    )
