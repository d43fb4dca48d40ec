"""A working directory full of code that is not ours: every file in it leaves a witness if it runs."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import attomaton

MODULES = [
    *("pickle", "json", "random", "signal", "socket", "tempfile", "threading", "multiprocessing", "struct"),
    *(
        "hashlib",
        "selectors",
        "subprocess",
        "warnings",
        "tokenize",
        "queue",
        "logging",
        "platform",
        "copyreg",
    ),
    *("numpy", "scipy", "pyarrow", "duckdb", "typer", "rich", "torch", "matplotlib", "pandas"),
    *("yaml", "pyspark", "py4j", "fsspec", "tokenizers", "hostile", "sitecustomize", "usercustomize"),
    "attomaton",
]
"""What a program such as ours imports, and what Python imports by itself."""

PROGRAM = """
import sys

from attomaton.cli import main

if __name__ == "__main__":
    sys.exit(main())
"""
"""What pip writes as the command ``attomaton``."""


@dataclass(frozen=True)
class Place:
    """A working directory for tests, with hostile files or without."""

    folder: Path
    witness: Path

    def run(self, command, *, timeout=300, **environment):
        """Run a command there, with attomaton importable; what it printed."""
        source = str(Path(attomaton.__file__).parents[1])
        quiet = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK_HOME"))
        }
        return subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env={**quiet, "PYTHONPATH": source, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def attomaton(self, *arguments, **environment):
        """The command ``attomaton``, as pip installs it."""
        script = self.witness.parent / "bin" / "attomaton"
        script.parent.mkdir(exist_ok=True)
        script.write_text(PROGRAM)
        return self.run([sys.executable, script, *arguments], **environment)

    def assert_clean(self, result):
        """The command did its work, and nothing of the directory ran."""
        assert not self.witness.exists(), f"{self.witness.read_text()}{result.stderr}"
        assert result.returncode == 0, result.stdout + result.stderr


def hostile_place(base, modules=MODULES):
    """A directory with such modules, and a false Spark in the folder above, where pyspark would look."""
    witness = base / "witness.txt"
    here = base / "untrusted" / "here"
    here.mkdir(parents=True)
    for name in modules:
        (here / f"{name}.py").write_text(f"open({str(witness)!r}, 'a').write({name!r} + ' ran; ')\n")
    submit = base / "untrusted" / "bin" / "spark-submit"
    submit.parent.mkdir()
    (base / "untrusted" / "jars").mkdir()
    submit.write_text(f"#!/bin/sh\necho 'spark-submit ran; ' >> '{witness}'\nexit 1\n")
    submit.chmod(0o755)
    return Place(here, witness)


def plain_place(base):
    """An empty directory."""
    (base / "plain").mkdir()
    return Place(base / "plain", base / "witness.txt")
