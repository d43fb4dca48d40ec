"""``attomaton doctor``: what is installed on this machine, and how to install what is missing."""

# `attomaton.cli.installation` finds it; this file prints it as two tables and a list of remedies.

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.output import AsJson, Quiet, print_json, print_line, print_table

if TYPE_CHECKING:
    from attomaton.cli.installation import DataFolder, Installation, Package, Program


def doctor(
    probe: Annotated[
        bool, typer.Option("--probe", help="Also import every installed package, which takes some seconds.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Report what is installed and what is missing: packages of each extra, Java, processors, memory."""
    from attomaton.cli.installation import find_installation

    installation = find_installation(probe=probe)
    if as_json:
        print_json(asdict(installation))
    elif not quiet:
        print_line(
            f"attomaton {installation.attomaton}, Python {installation.python}, {installation.platform}"
        )
        packages = [("(core)", _list_packages(installation.packages))]
        packages += [(extra.name, _list_packages(extra.packages)) for extra in installation.extras]
        print_table("Packages", ["extra", "packages"], packages)
        _print_machine(installation)
        _print_remedies(installation)


def _list_packages(packages: "tuple[Package, ...]") -> str:
    # "numpy 2.1.0, scipy (missing)"
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
        ("Java", _describe_program(installation.java)),
        ("browser", _describe_program(installation.browser)),
        ("processors", f"{machine.processors}, of which this process may use {machine.usable}"),
        ("threads of PyTorch", f"{torch}"),
        ("GPU", "attomaton was not tested on a real GPU; audits of heads run on the device of the model"),
        ("memory", f"{total}, {limit}; duckdb uses {_gigabytes(machine.share)} by default"),
        ("data folder", _describe_folder(installation.data)),
    ]
    print_table("Machine", ["", ""], rows)


def _describe_program(program: "Program") -> str:
    if program.path is None:
        return "not found"
    return program.path if program.version is None else f"{program.version}, {program.path}"


def _describe_folder(folder: "DataFolder") -> str:
    if folder.path is None:
        return "not set"
    return folder.path if folder.usable else f"{folder.path} (cannot be used)"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _print_remedies(installation: "Installation") -> None:
    # a part and how to install it, or None if it is ready
    remedies = [(f"extra {extra.name}", extra.install) for extra in installation.extras]
    if any(package.state != "ready" for package in installation.packages):
        remedies.append(("core", "pip install --upgrade attomaton"))
    remedies += [("Java", installation.java.install), ("browser", installation.browser.install)]
    remedies.append(("data folder", installation.data.remedy))
    rows = [(part, remedy) for part, remedy in remedies if remedy is not None]
    if rows:
        print_table("Missing parts, and how to install them if you need them", ["what", "what to do"], rows)
    else:
        print_line("Nothing is missing.")
