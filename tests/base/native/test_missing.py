"""Where the kernels are not built, every command says so in one line."""

import shutil
import subprocess
import sys
from pathlib import Path

import attomaton

PROGRAM = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
sys.path.insert(0, sys.argv.pop(1))  # an editable install would be found before it
from attomaton.cli import main
main()
"""


def test_without_kernels_one_line_says_what_to_do(tmp_path):
    source = Path(attomaton.__file__).parent
    shutil.copytree(source, tmp_path / "attomaton", ignore=shutil.ignore_patterns("*.so", "*.pyd"))
    (tmp_path / "text.txt").write_text("a b a c")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path, "learn", "text.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "kernels are not built for this Python: pip install" in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
