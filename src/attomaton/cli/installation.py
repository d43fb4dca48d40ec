"""Find what is installed on this machine: packages and extras, Java, a browser, processors, memory.

:func:`find_installation` does so for ``attomaton doctor``. Packages are looked up by their metadata and
imported only with ``--probe``.
"""

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.base.machine import count_processors, parse_memory, read_cgroup_limit, total_memory
from attomaton.engines.sparksession import JAVA

# Package → the module to import, where the two names differ by more than a hyphen.
MODULES = {
    "beautifulsoup4": "bs4",
    "cvxpy-base": "cvxpy",
    "mkdocs-material": "material",
    "scikit-learn": "sklearn",
}

FOR_DEVELOPERS = ("all", "dev")  # extras that only gather others
OLDEST_JAVA = (17,)  # that Spark supports
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass(frozen=True)
class Package:
    """A package, the ``wanted`` versions, and its ``state``: ready, missing, too old, or broken: reason."""

    name: str
    wanted: str
    version: str | None
    state: str


@dataclass(frozen=True)
class Extra:
    """An extra with its packages; ``install`` is the command that installs what is not ready."""

    name: str
    packages: tuple[Package, ...]
    install: str | None


@dataclass(frozen=True)
class Program:
    """A program other than Python; ``install`` says how to install it if it is missing or too old."""

    path: str | None
    version: str | None
    install: str | None


@dataclass(frozen=True)
class Machine:
    """Processors, how many of them are ``usable``, and bytes of memory; None is unknown, or no limit.

    ``limit`` is the limit of memory of this process, and ``share`` what duckdb uses by default.
    """

    processors: int
    usable: int
    torch_threads: int | None
    memory: int | None
    limit: int | None
    share: int


@dataclass(frozen=True)
class DataFolder:
    """The folder that ``ATTOMATON_DATA`` names, and what to do if it cannot be used."""

    path: str | None
    usable: bool
    remedy: str | None


@dataclass(frozen=True)
class Installation:
    """Everything that ``attomaton doctor`` reports."""

    attomaton: str
    python: str
    platform: str
    packages: tuple[Package, ...]
    extras: tuple[Extra, ...]
    java: Program
    browser: Program
    machine: Machine
    data: DataFolder


def find_installation(*, probe: bool = False) -> Installation:
    """What is installed; with ``probe``, packages are also imported, which finds broken ones."""
    requirements = _read_requirements(importlib.metadata.requires("attomaton") or [])
    by_extra = {
        extra: tuple(_find_package(name, versions, probe) for name, versions in packages.items())
        for extra, packages in requirements.items()
    }
    return Installation(
        attomaton=importlib.import_module("attomaton").__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        packages=by_extra.pop("", ()),
        extras=tuple(_describe_extra(name, packages) for name, packages in sorted(by_extra.items())),
        java=_find_java(),
        browser=_find_browser(),
        machine=_describe_machine(),
        data=_find_data(),
    )


# Extra ("" for the core) → package → accepted versions, from lines of `Requires-Dist`.
def _read_requirements(lines: list[str]) -> dict[str, dict[str, str]]:
    requirements: dict[str, dict[str, str]] = {}
    for line in lines:
        requirement, _, marker = line.partition(";")
        match = re.match(r"\s*([\w.-]+)\s*(?:\[[^]]*\])?\s*(.*)", requirement)  # name [extras] versions
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        key = "" if extra is None else extra[1]
        if match is not None and match[1] != "attomaton" and key not in FOR_DEVELOPERS:
            requirements.setdefault(key, {})[match[1]] = match[2].strip()
    return requirements


def _find_package(name: str, wanted: str, probe: bool) -> Package:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Package(name, wanted, None, "missing")
    state = "too old" if _is_older(version, wanted) else "ready"
    if probe:
        try:
            importlib.import_module(MODULES.get(name, name.replace("-", "_")))
        except Exception as error:  # a broken package may raise anything; report it and continue
            reason = str(error).strip() or "no reason given"
            state = f"broken: {type(error).__name__}: {reason}".splitlines()[0]
    return Package(name, wanted, version, state)


def _is_older(version: str, wanted: str) -> bool:
    # upper limits, such as that of mkdocs, are not compared
    least = re.search(r">=\s*([\d.]+)", wanted)
    return least is not None and _version_numbers(version) < _version_numbers(least[1])


def _version_numbers(version: str) -> tuple[int, ...]:
    # "2.10.0rc1" → (2, 10): trailing zeros do not matter
    leading = re.match(r"[\d.]*", version)
    numbers = [int(digits) for digits in (leading[0] if leading else "").split(".") if digits]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _describe_extra(name: str, packages: tuple[Package, ...]) -> Extra:
    is_complete = all(package.state == "ready" for package in packages)
    return Extra(name, packages, None if is_complete else f"pip install --upgrade 'attomaton[{name}]'")


def _find_java() -> Program:
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if path is None:
        return Program(None, None, JAVA)
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, timeout=5, check=False)  # noqa: S603
        printed = (answer.stdout + answer.stderr).decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        printed = ""
    version = re.search(r'version "([^"]+)"', printed)
    numbers = _version_numbers(version[1]) if version else ()
    is_old = numbers < OLDEST_JAVA  # an unknown version counts as old
    return Program(path, version[1] if version else None, JAVA if is_old else None)


def _find_browser() -> Program:
    path = next((path for name in BROWSERS if (path := shutil.which(name)) is not None), None)
    advice = "a browser is needed only for browser tests: apt install chromium"
    return Program(path, None, advice if path is None else None)


def _describe_machine() -> Machine:
    torch: Any = sys.modules.get("torch")  # imported only by --probe
    memory, limit = total_memory(), read_cgroup_limit()
    # some systems write a huge number for no limit
    if memory is not None and limit is not None and limit >= memory:
        limit = None
    return Machine(
        processors=os.cpu_count() or 1,
        usable=count_processors(),
        torch_threads=None if torch is None else torch.get_num_threads(),
        memory=memory,
        limit=limit,
        share=parse_memory(None),
    )


def _find_data() -> DataFolder:
    folder = os.environ.get("ATTOMATON_DATA")
    if not folder:
        advice = "data are needed only for tests and benchmarks on real corpora: export ATTOMATON_DATA=FOLDER"
        return DataFolder(None, False, advice)
    exists = Path(folder).is_dir()
    return DataFolder(folder, exists, None if exists else "correct ATTOMATON_DATA: it names no folder")
