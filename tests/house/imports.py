"""Which file of the two packages imports which, read from the source: imports inside functions count too."""

import ast
from pathlib import Path

import attomaton

SOURCE = Path(attomaton.__file__).parents[1]
PACKAGES = ("attomaton", "attomaton_experiments")


def module_names() -> dict[str, Path]:
    """Every module of the packages and its file."""
    names: dict[str, Path] = {}
    for path in sorted(path for package in PACKAGES for path in (SOURCE / package).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imported(path: Path, names: dict[str, Path]) -> set[str]:
    """The modules that a file imports, wherever in the file it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & names.keys()
            outside = {alias.name for alias in node.names if f"{node.module}.{alias.name}" not in names}
            found |= inside | ({node.module} if outside else set())
    return found & names.keys()


def import_graph() -> dict[str, set[str]]:
    """Module → the modules that it imports."""
    names = module_names()
    return {name: imported(path, names) - {name} for name, path in names.items()}


def find_circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Every set of modules that reach each other, found by following all ways from each."""
    reached = {name: _reach(graph, name) for name in graph}
    circles = {
        tuple(sorted({name} | {other for other in reached[name] if name in reached[other]}))
        for name in graph
        if name in reached[name]
    }
    return [list(circle) for circle in sorted(circles)]


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    waiting, seen = list(graph[start]), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen
