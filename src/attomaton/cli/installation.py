"""What is installed here: packages and extras, Java, a browser, processors, memory, folders.

Nothing heavy is imported to find out, unless it is asked to be: a package is looked for, not loaded.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attomaton.base.machine import count_processors, parse_memory, read_cgroup_limit, total_memory
from attomaton.engines.sparksession import JAVA

MODULES = {"scikit-learn": "sklearn", "cvxpy-base": "cvxpy", "mkdocs-material": "material"}
"""Package → the module it is imported as, where the names differ by more than a hyphen."""

FOR_DEVELOPERS = ("all", "dev")
"""Extras that only gather others."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@dataclass(frozen=True)
class Package:
    """A package that attomaton, or one of its extras, asks for.

    Attributes
    ----------
    name, wanted : str
        What it is called, and which versions will do (such as ``>=2.10``).
    version : str or None
        The one that is installed.
    state : str
        ``ready``, ``missing``, ``too old``, or what was raised when it was imported.
    """

    name: str
    wanted: str
    version: str | None
    state: str


@dataclass(frozen=True)
class Extra:
    """An extra with its packages, and the command that installs what is missing (None means that nothing is).

    Attributes
    ----------
    name : str
        As in ``pip install 'attomaton[name]'``.
    packages : tuple of Package
        What it brings.
    install : str or None
        The command that installs what is missing; None means that nothing is.
    """

    name: str
    packages: tuple[Package, ...]
    install: str | None


@dataclass(frozen=True)
class Program:
    """A program beside Python: where it is, its version, and how to install it if it is not there.

    Attributes
    ----------
    path, version : str or None
        Where it is, and which; None if it is not there, or does not say.
    install : str or None
        How to install it if it is not there.
    """

    path: str | None
    version: str | None
    install: str | None


@dataclass(frozen=True)
class Machine:
    """Processors and memory. Bytes; None where it cannot be told, or there is no limit.

    Attributes
    ----------
    processors, usable : int
        The processors of the machine, and those that this process may run on.
    numba_threads, torch_threads : int or None
        How many threads each would take; PyTorch's only if it was loaded.
    memory, limit : int or None
        The memory of the machine, and what the cgroup allows.
    share : int
        What ``learn --engine duckdb`` takes if it is not told.
    """

    processors: int
    usable: int
    numba_threads: int
    torch_threads: int | None
    memory: int | None
    limit: int | None
    share: int


@dataclass(frozen=True)
class Place:
    """A folder, whether it can be used, and what to do if not.

    Attributes
    ----------
    path : str or None
        Where it is.
    usable : bool
        Whether it can be used.
    remedy : str or None
        What to do if not.
    """

    path: str | None
    usable: bool
    remedy: str | None


@dataclass(frozen=True)
class Installation:
    """All of it.

    Attributes
    ----------
    attomaton, python, platform : str
        Versions of attomaton and Python, and what they run on.
    packages : tuple of Package
        What attomaton itself needs.
    extras : tuple of Extra
        What can be added.
    java, browser : Program
        For Spark, and for the report.
    machine : Machine
        Processors and memory.
    data, cache : Place
        The folder of ``ATTOMATON_DATA``, and the one where compiled code is kept.
    """

    attomaton: str
    python: str
    platform: str
    packages: tuple[Package, ...]
    extras: tuple[Extra, ...]
    java: Program
    browser: Program
    machine: Machine
    data: Place
    cache: Place

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return asdict(self)


def find_installation(*, probe: bool = False) -> Installation:
    """Look at what is installed; with ``probe``, import every package that is found."""
    wanted = _read_requirements(importlib.metadata.requires("attomaton") or [])
    by_extra = {
        extra: tuple(_find_package(name, versions, probe) for name, versions in packages.items())
        for extra, packages in wanted.items()
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
        cache=_find_cache(),
    )


def _read_requirements(lines: list[str]) -> dict[str, dict[str, str]]:
    """Extra ("" for the core) → package → the versions that will do."""
    wanted: dict[str, dict[str, str]] = {}
    for line in lines:
        requirement, _, marker = line.partition(";")
        match = re.match(r"\s*([\w.-]+)\s*(?:\[[^]]*\])?\s*(.*)", requirement)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        key = "" if extra is None else extra[1]
        if match is not None and match[1] != "attomaton" and key not in FOR_DEVELOPERS:
            wanted.setdefault(key, {})[match[1]] = match[2].strip()
    return wanted


def _find_package(name: str, wanted: str, probe: bool) -> Package:
    module = MODULES.get(name, name.replace("-", "_"))
    try:
        version = importlib.metadata.version(name)
        found = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # PackageNotFoundError is an ImportError
        return Package(name, wanted, None, "missing")
    if not found:
        return Package(name, wanted, version, "missing")
    state = "too old" if _is_older(version, wanted) else "ready"
    return Package(name, wanted, version, _import(module) or state if probe else state)


def _is_older(version: str, wanted: str) -> bool:
    least = re.search(r">=\s*([\d.]+)", wanted)
    return least is not None and _numbers(version) < _numbers(least[1])


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers a version begins with, zeros at the end left out."""
    leading = re.match(r"[\d.]*", version)
    numbers = [int(part) for part in (leading[0] if leading else "").split(".") if part]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _import(module: str) -> str | None:
    """What a package raises when it is imported, in one line."""
    try:
        importlib.import_module(module)
    except Exception as error:  # whatever a broken package does, the survey goes on
        return f"broken: {type(error).__name__}: {str(error).strip() or 'no reason given'}".splitlines()[0]
    return None


def _describe_extra(name: str, packages: tuple[Package, ...]) -> Extra:
    whole = all(package.state == "ready" for package in packages)
    return Extra(name, packages, None if whole else f"pip install --upgrade 'attomaton[{name}]'")


def _find_java() -> Program:
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if path is None:
        return Program(None, None, JAVA)
    told = _ask(path, "-version")
    version = re.search(r'version "([^"]+)"', told)
    numbers = _numbers(version[1]) if version else ()
    return Program(path, version[1] if version else None, JAVA if numbers < (17,) else None)


def _find_browser() -> Program:
    path = next((path for name in BROWSERS if (path := shutil.which(name)) is not None), None)
    advice = "only the browser tests need it: apt install chromium"
    return Program(path, None, advice if path is None else None)


def _ask(*command: str) -> str:
    """What a program prints, on either stream; nothing if it does not answer."""
    try:
        answer = subprocess.run(command, capture_output=True, timeout=5, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return (answer.stdout + answer.stderr).decode(errors="replace")


def _describe_machine() -> Machine:
    usable = count_processors()
    told = os.environ.get("NUMBA_NUM_THREADS", "")
    torch: Any = sys.modules.get("torch")
    memory, limit = total_memory(), read_cgroup_limit()
    if memory is not None and limit is not None and limit >= memory:  # some write no limit as a huge one
        limit = None
    return Machine(
        processors=os.cpu_count() or 1,
        usable=usable,
        numba_threads=int(told) if told.isdecimal() else usable,
        torch_threads=None if torch is None else torch.get_num_threads(),
        memory=memory,
        limit=limit,
        share=parse_memory(None),
    )


def _find_data() -> Place:
    """Where tests and benchmarks look for real corpora."""
    told = os.environ.get("ATTOMATON_DATA")
    if not told:
        advice = "only tests and benchmarks on real corpora need it: export ATTOMATON_DATA=FOLDER"
        return Place(None, False, advice)
    there = Path(told).is_dir()
    return Place(told, there, None if there else "there is no such folder; correct ATTOMATON_DATA")


def _find_cache() -> Place:
    """Where numba keeps compiled code: the first of its places that can be written, in its order."""
    beside = Path(__file__).parent / "graphs" / "__pycache__"
    told = os.environ.get("NUMBA_CACHE_DIR")
    places = [*([Path(told)] if told else []), beside, _user_cache()]
    for place in places:
        if _is_writable(place):
            return Place(str(place), True, None)
    remedy = "compiled code is not kept, and each start takes seconds more: export NUMBA_CACHE_DIR=FOLDER"
    return Place(str(places[0]), False, remedy)


def _user_cache() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "numba"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"


def _is_writable(folder: Path) -> bool:
    """Whether files can be made in the folder, or the folder itself where it is not there yet."""
    nearest = next((place for place in [folder, *folder.parents] if place.exists()), None)
    return nearest is not None and nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
