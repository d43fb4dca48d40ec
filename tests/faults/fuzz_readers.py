"""Coverage-guided fuzzing of a reader, by atheris, for as long as it is given::

    pip install atheris
    python tests/faults/fuzz_readers.py parquet-text --seconds 3600

It starts from mutants of the target's own files, and keeps what reaches new lines. An error of ours is an
answer; anything else ends the run with the input in ``crash-…``. Without atheris, see ``mutants.py``.
"""

import argparse
import contextlib
import random
import signal
import sys
import tempfile
from pathlib import Path

SEEDS = 50
"""Mutants that it starts from."""


def main():
    sys.path.insert(0, str(Path(__file__).parents[2]))
    import atheris

    with atheris.instrument_imports(
        include=["attomaton.corpora", "attomaton.corpora.readers", "json", "gzip"]
    ):
        from attomaton.base.errors import AttomatonError
        from tests.faults.targets import TARGETS
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    asked = parser.parse_args()
    target = TARGETS[asked.target]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for number in range(SEEDS):
            (corpus / str(number)).write_bytes(target.mutate(random.Random(number)))  # noqa: S311  no secret
        path = Path(folder) / target.file

        def one(blob):
            path.write_bytes(blob)
            with contextlib.suppress(AttomatonError):
                target.consume(path, len(blob))

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        limits = [f"-max_total_time={asked.seconds}", "-timeout=10", "-rss_limit_mb=1500", "-max_len=65536"]
        atheris.Setup([sys.argv[0], *limits, str(corpus)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
