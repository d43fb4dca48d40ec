"""``attomaton doctor``: what is installed here, and what to do about what is not."""

from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_table, stages

if TYPE_CHECKING:
    from attomaton.cli.installation import Installation, Package, Place, Program


def doctor(
    probe: Annotated[
        bool, typer.Option("--probe", help="Import every installed package, which takes some seconds.")
    ] = False,
    compile_all: Annotated[
        bool,
        typer.Option("--compile", help="Compile all kernels now, so that later commands start at once."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Report what is installed and what is missing: packages, extras, Java, processors, memory.

    Small texts need no compiled kernels, and the first large text compiles what it needs. --compile does it
    in advance, for example in a Docker image.
    """
    from attomaton.cli.installation import find_installation

    seconds = None
    if compile_all:
        from attomaton.cli import warming

        begin = monotonic()
        with stages(quiet) as progress:
            progress("compiling")
            warming.warm_up()
        seconds = round(monotonic() - begin, 1)
    installation = find_installation(probe=probe)
    if as_json:
        print_json(asdict(installation) | ({} if seconds is None else {"seconds": seconds}))
    elif not quiet:
        version = installation.attomaton
        print_line(f"attomaton {version}, Python {installation.python}, {installation.platform}")
        packages = [("(core)", _packages(installation.packages))]
        packages += [(extra.name, _packages(extra.packages)) for extra in installation.extras]
        print_table("Packages", ["extra", "packages"], packages)
        _print_machine(installation)
        _print_advice(installation)
        if seconds is not None:
            print_line(f"All kernels are compiled and kept on disk ({seconds} s).")


def _packages(packages: "tuple[Package, ...]") -> str:
    cells: list[str] = []
    for package in packages:
        needed = f", wants {package.wanted}" if package.state == "too old" else ""
        state = "" if package.state == "ready" else f" ({package.state}{needed})"
        cells.append(f"{package.name} {package.version or ''}".rstrip() + state)
    return ", ".join(cells)


def _print_machine(installation: "Installation") -> None:
    machine = installation.machine
    torch = "known only with --probe" if machine.torch_threads is None else machine.torch_threads
    total = "unknown" if machine.memory is None else _gigabytes(machine.memory)
    limit = "no limit" if machine.limit is None else f"limited to {_gigabytes(machine.limit)}"
    rows = [
        ("Java", _program(installation.java)),
        ("browser", _program(installation.browser)),
        ("processors", f"{machine.processors}, of which {machine.usable} may be used here"),
        ("threads", f"numba {machine.numba_threads}, PyTorch {torch}"),
        ("memory", f"{total}, {limit}; duckdb takes {_gigabytes(machine.share)} unless told"),
        ("data folder", _place(installation.data)),
        ("compiled code", _place(installation.cache)),
    ]
    print_table("Machine", ["", ""], rows)


def _program(program: "Program") -> str:
    if program.path is None:
        return "not found"
    return program.path if program.version is None else f"{program.version}, {program.path}"


def _place(place: "Place") -> str:
    if place.path is None:
        return "not set"
    return place.path if place.usable else f"{place.path} (cannot be used)"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _print_advice(installation: "Installation") -> None:
    """One row for each thing that is missing, with the command that mends it."""
    missing = [(f"extra {extra.name}", extra.install) for extra in installation.extras]
    if any(package.state != "ready" for package in installation.packages):
        missing.append(("core", "pip install --upgrade attomaton"))
    missing += [("Java", installation.java.install), ("browser", installation.browser.install)]
    missing += [("data folder", installation.data.remedy), ("compiled code", installation.cache.remedy)]
    rows = [(what, remedy) for what, remedy in missing if remedy is not None]
    if rows:
        print_table("Not here, and what to do if you need it", ["what", "what to do"], rows)
    else:
        print_line("Everything is here.")
