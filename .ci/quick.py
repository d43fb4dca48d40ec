"""Check what a change touches: style, imports, types and the tests of its rooms, with this interpreter.

    .ci/run --quick [BASE]

A change is what differs from BASE, a commit; without it, what is not committed yet, or else the last commit.
"""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path("tests")
NONE_COLLECTED = 5
"""How pytest ends where all tests it found are slow."""


def changed_files(base: str | None) -> list[Path]:
    """Files that the change touches, also those that it removes."""

    def listed(*arguments: str) -> list[str]:
        command = ["git", "-c", "core.quotepath=off", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    new = listed("ls-files", "--others", "--exclude-standard")
    files = listed("diff", "--name-only", "--no-renames", base or "HEAD") + new
    if not files and base is None:
        files = listed("diff", "--name-only", "--no-renames", "HEAD~1")
    return [Path(name) for name in files]


def tests_of(file: Path) -> set[Path]:
    """What is run for a file: itself if it is a test, else the doctests and the tests of its room."""
    if file.parts[0] == "native":
        return {TESTS / "base" / "native"}
    if file.suffix != ".py" or file.parts[0] not in ("src", "tests"):
        return set()
    if file.parts[0] == "tests":
        return {file} if file.name.startswith("test_") else set(file.parent.glob("test_*.py"))
    package, *inside = file.parts[1:-1]
    rooms = ["experiments", *inside] if package == "attomaton_experiments" else inside
    folders = [TESTS.joinpath(*rooms[:depth]) for depth in range(len(rooms), 0, -1)]
    return {file.parent if inside else file, *[one for one in folders if one.is_dir()][:1]}


def main() -> int:
    """Run all checks; 1 if one failed."""
    changed = changed_files(sys.argv[1] if len(sys.argv) > 1 else None)
    sources = [str(one) for one in changed if one.suffix == ".py" and one.parts[0] == "src" and one.exists()]
    tests = sorted({str(one) for file in changed for one in tests_of(file) if one.exists()})
    tools = Path(sys.executable).parent
    style = [[tools / "ruff", "check", "."], [tools / "ruff", "format", "--check", "."]]
    types = [[tools / "pyright", "--pythonpath", sys.executable, *sources]] if sources else []
    running = [subprocess.Popen(command) for command in types]
    codes = [
        subprocess.run(command, check=False).returncode for command in [*style, [tools / "lint-imports"]]
    ]
    if tests:
        print("tests of", *tests, flush=True)
        selection = ["-q", "-n", "2", "--dist", "loadfile", "-m", "not slow and not timing"]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", *selection, *tests]
        ended = subprocess.run(command, env=one_thread, check=False).returncode
        codes.append(0 if ended == NONE_COLLECTED else ended)
    codes += [process.wait() for process in running]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
