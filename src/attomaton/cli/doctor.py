"""``attomaton doctor``: what is installed here, and what to do about what is not."""

from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_table, stages

if TYPE_CHECKING:
    from attomaton.cli.installation import Installation, Machine, Package, Place, Program


def doctor(
    probe: Annotated[
        bool, typer.Option("--probe", help="Import every package that is found, which takes some seconds.")
    ] = False,
    compile_all: Annotated[
        bool,
        typer.Option(
            "--compile", help="Compile all kernels for this machine first, so that no later command has to."
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Say what is installed here: packages, extras, Java, processors, memory, folders; exit code 0.

    Small texts need no compiling. The first large text compiles what it needs by itself; --compile does it
    ahead, for example in a layer of a Docker image.
    """
    from attomaton.cli.installation import find_installation

    seconds = _compile(quiet or as_json) if compile_all else None
    installation = find_installation(probe=probe)
    if as_json:
        print_json(installation.to_dict() | ({} if seconds is None else {"seconds": seconds}))
    elif not quiet:
        _print_packages(installation)
        _print_machine(installation)
        _print_advice(installation)
        if seconds is not None:
            print_line(f"All kernels are compiled and kept on disk ({seconds} s).")


def _compile(quiet: bool) -> float:
    """Compile everything ahead; the seconds that it took."""
    from attomaton.cli import warming

    begin = monotonic()
    with stages(quiet) as progress:
        progress("compiling")
        warming.warm_up()
    return round(monotonic() - begin, 1)


def _print_packages(installation: "Installation") -> None:
    print_line(f"attomaton {installation.attomaton}, Python {installation.python}, {installation.platform}")
    rows: list[tuple[object, ...]] = [("(core)", _packages(installation.packages))]
    rows += [(extra.name, _packages(extra.packages)) for extra in installation.extras]
    print_table("Packages", ["extra", "packages"], rows)


def _packages(packages: "tuple[Package, ...]") -> str:
    return ", ".join(_package(package) for package in packages)


def _package(package: "Package") -> str:
    named = package.name if package.version is None else f"{package.name} {package.version}"
    if package.state == "ready":
        return named
    wanted = f", wants {package.wanted}" if package.state == "too old" else ""
    return f"{named} ({package.state}{wanted})"


def _print_machine(installation: "Installation") -> None:
    machine = installation.machine
    torch = machine.torch_threads
    rows: list[tuple[object, ...]] = [
        ("Java", _program(installation.java)),
        ("browser", _program(installation.browser)),
        ("processors", f"{machine.processors}, of which {machine.usable} may be used here"),
        (
            "threads",
            f"numba {machine.numba_threads}, PyTorch {'known only with --probe' if torch is None else torch}",
        ),
        ("memory", _memory(machine)),
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


def _memory(machine: "Machine") -> str:
    total = "unknown" if machine.memory is None else _gigabytes(machine.memory)
    limit = "no limit" if machine.limit is None else f"limited to {_gigabytes(machine.limit)}"
    return f"{total}, {limit}; duckdb takes {_gigabytes(machine.share)} unless told"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _print_advice(installation: "Installation") -> None:
    """One row for each thing that is missing, with the command that mends it."""
    missing = [(f"extra {extra.name}", extra.install) for extra in installation.extras]
    if any(package.state != "ready" for package in installation.packages):
        missing.append(("core", "pip install --upgrade attomaton"))
    missing += [("Java", installation.java.install), ("browser", installation.browser.install)]
    missing += [("data folder", installation.data.remedy), ("compiled code", installation.cache.remedy)]
    rows: list[tuple[object, ...]] = [(what, remedy) for what, remedy in missing if remedy is not None]
    if rows:
        print_table("Not here, and what to do if you need it", ["what", "what to do"], rows)
    else:
        print_line("Everything is here.")
