"""Draw the imports between rooms for docs/architecture.md, and list every file in docs/files.md.

    python docs/pictures/rooms.py

The picture leaves out an arrow where a longer way leads to the same room.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.house.imports import SOURCE, import_graph  # noqa: E402

LAYERS = [
    {"cli": 360},
    {"report": 430},
    {"claims": 300, "heads": 520},
    {"choices": 100, "automaton": 270, "training": 450, "theories": 620},
    {"trajectory": 250},
    {"solvers": 220, "engines": 560},
    {"graphs": 360},
    {"corpora": 360},
    {"base": 360},
]
"""Rooms from top to bottom, with the place of each in its row."""
PICTURE = ROOT / "docs" / "assets" / "rooms.svg"
PAGE = ROOT / "docs" / "files.md"
NATIVE = ROOT / "native"
WIDTH, ROW, BOX, TALL = 720, 76, 118, 34


def room_graph() -> dict[str, set[str]]:
    """Room → the rooms that its files import."""
    graph: dict[str, set[str]] = {name: set() for layer in LAYERS for name in layer}
    for name, others in import_graph().items():
        room = name.split(".")[1] if name.startswith("attomaton.") else ""
        found = {other.split(".")[1] for other in others if other.startswith("attomaton.")}
        graph.get(room, set()).update((found & graph.keys()) - {room})
    return graph


def reach(graph: dict[str, set[str]], room: str) -> set[str]:
    """All rooms below a room."""
    return graph[room].union(*(reach(graph, other) for other in graph[room]))


def draw(graph: dict[str, set[str]]) -> str:
    """The picture: a row of boxes for each layer, an arrow for each import."""
    center = {
        room: (place, 40 + ROW * row) for row, layer in enumerate(LAYERS) for room, place in layer.items()
    }
    arrows = [
        (one, other)
        for one in graph
        for other in sorted(graph[one])
        if not any(other in reach(graph, third) for third in graph[one] - {other})
    ]
    height = 40 + ROW * (len(LAYERS) - 1) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="15">',
        "<title>Imports between the rooms of attomaton: every arrow points down</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#5c6bc0"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fafafe"/>',
    ]
    for one, other in arrows:
        (x1, y1), (x2, y2) = center[one], center[other]
        lines.append(
            f'<path d="M{x1:.0f} {y1 + TALL / 2:.0f}L{x2:.0f} {y2 - TALL / 2 - 1:.0f}" stroke="#5c6bc0" '
            'fill="none" marker-end="url(#tip)"/>'
        )
    for room, (x, y) in center.items():
        lines += [
            f'<rect x="{x - BOX / 2:.0f}" y="{y - TALL / 2:.0f}" width="{BOX}" height="{TALL}" rx="6" '
            'fill="#e8eaf6" stroke="#5c6bc0"/>',
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="#1a237e">{room}</text>',
        ]
    return "\n".join([*lines, "</svg>\n"])


def sentence(path: Path) -> str:
    """The first sentence of a file, without the roles of its names."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.sub(r":\w+:(?=`)", "", text.partition("\n")[0]).rstrip(".").replace("|", "\\|")


def list_files() -> str:
    """A table of files for each room, in the order of the layers."""
    lines: list[str] = []
    for room in [name for layer in reversed(LAYERS) for name in layer]:
        folder = SOURCE / "attomaton" / room
        lines += [
            "",
            f"## {room}/",
            "",
            f"{sentence(folder / '__init__.py')}.",
            "",
            "| file | what it does |",
            "|---|---|",
        ]
        for path in sorted(folder.rglob("*.py"), key=lambda one: (len(one.relative_to(folder).parts), one)):
            inside = path.relative_to(folder)
            if inside.as_posix() != "__init__.py":
                name = f"{inside.parent.as_posix()}/" if inside.name == "__init__.py" else inside.as_posix()
                lines.append(f"| `{name}` | {sentence(path)} |")
    lines += [
        "",
        "## native/",
        "",
        "The kernels in C++, in folders named like those of Python that call them.",
    ]
    lines += ["", "| file | what it does |", "|---|---|"]
    for path in sorted({*NATIVE.rglob("*.hpp"), *NATIVE.rglob("bindings.cpp"), NATIVE / "module.cpp"}):
        comment = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("//").strip().rstrip(".")
        lines.append(f"| `{path.relative_to(NATIVE).as_posix()}` | {comment} |")
    return "\n".join([*lines, ""])


def make_page() -> str:
    """The page."""
    opening = "`python docs/pictures/rooms.py` writes this page from the first sentence of each file."
    return f"# Every file\n\n{opening}\n{list_files()}"


def find_rising(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Arrows that do not point down."""
    row = {room: number for number, layer in enumerate(LAYERS) for room in layer}
    return [(one, other) for one, others in graph.items() for other in others if row[other] <= row[one]]


def main() -> None:
    """Write both."""
    PICTURE.write_text(draw(room_graph()), encoding="utf-8")
    PAGE.write_text(make_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
