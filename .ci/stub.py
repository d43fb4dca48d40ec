"""Write the stub of the extension; with --check, exit 1 if the committed stub differs from it."""

import re
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

import attomaton.base.native as native

STUB = Path(__file__).parents[1] / "src/attomaton/base/native.pyi"


def make_stub() -> str:
    """The signatures and first lines of all kernels; arrays by the type of their entries alone."""
    generator = StubGen(native)
    generator.put(native)
    text = re.sub(r"Annotated\[(NDArray\[[\w.]+\]), dict\((?:[^()]|\([^()]*\))*\)\]", r"\1", generator.get())
    return text.replace("from typing import Annotated\n\n", "")


if __name__ == "__main__":
    stub = make_stub()
    if "--check" in sys.argv:
        sys.exit(
            f"{STUB.name} is not what `python .ci/stub.py` writes" if STUB.read_text("utf-8") != stub else 0
        )
    STUB.write_text(stub, "utf-8")
