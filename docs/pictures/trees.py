"""Draw the decision tree of head types, and three graphs of wins: ``python docs/pictures/trees.py``."""

from html import escape
from pathlib import Path

ASSETS = Path(__file__).parents[1] / "assets"
STYLE = """
text { font: 14px system-ui, 'Segoe UI', Roboto, 'Noto Sans', sans-serif; fill: #1b2330; }
.title { font-weight: 650; } .quiet { fill: #525d6e; font-size: 13px; }
.box { fill: #fff; stroke: #c3cad5; } .win { fill: #dcebfb; stroke: #0072b2; }
.far { fill: #fdeadb; stroke: #d55e00; }
.line { stroke: #0072b2; stroke-width: 1.6; fill: none; }
"""
QUESTIONS = (
    ("Are 90 % of its rows outside window and first token?", "outside the window"),
    ("Does the head attend evenly everywhere?", "uniform"),
    (
        "Induction or duplicate ≥ 20 %, or previous token ≥ 40 %,|and more than random heads?",
        "induction, duplicate,|previous token",
    ),
    ("Does the first token explain ≥ 90 %?", "sink *"),
    ("Does one part have ≥ 50 %: position, delimiters, tokens?", "position *, delimiter *,|token-specific *"),
    ("Does it seek the next token?", "next-token seeking"),
    ("Is ≥ 50 % left over?", "contextual"),
)
"""Questions from top to bottom, and the type if the answer is yes."""

Point = tuple[float, float]


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> list[str]:
    lines = words.split("|")
    top = y - 8.5 * (len(lines) - 1)
    named = f' class="{kind}"' if kind else ""
    return [
        f'<text x="{x:g}" y="{top + 17 * row:g}" text-anchor="{anchor}"{named}>{escape(line)}</text>'
        for row, line in enumerate(lines)
    ]


def _box(x: float, y: float, width: float, words: str, kind: str = "box", height: float = 42) -> list[str]:
    box = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="{kind}"/>'
    return [box, *_text(x + width / 2, y + height / 2 + 5, words)]


def _arrow(*points: Point) -> str:
    path = " L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="M{path}" class="line" marker-end="url(#tip)"/>'


def _picture(width: int, height: int, label: str, parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
    head += f'aria-label="{label}">'
    marker = (
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="#0072b2"/></marker></defs>'
    )
    card = f'<rect width="{width}" height="{height}" rx="12" fill="#f5f6f8"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", marker, card, *parts, "</svg>"]) + "\n"


def draw_types() -> str:
    """The questions in the order in which the rule asks them."""
    parts: list[str] = []
    for row, (question, kind) in enumerate(QUESTIONS):
        y = 20 + 64 * row
        parts += _box(20, y, 430, question)
        parts += [_arrow((450, y + 21), (516, y + 21)), *_text(482, y + 15, "yes", "quiet")]
        parts += _box(518, y, 190, kind, "win")
        last = row + 1 == len(QUESTIONS)
        parts += [_arrow((235, y + 42), (235, y + 62)), *_text(252, y + 57, "no", "quiet")]
        if last:
            parts += _box(140, y + 64, 190, "mixed", "win")
    y = 20 + 64 * (len(QUESTIONS) + 1)
    parts += _text(
        20, y + 6, "* if random heads of the layer have as much: like random weights,", "quiet", "start"
    )
    parts += _text(20, y + 24, "   or next-token seeking if the head seeks the next token", "quiet", "start")
    return _picture(728, y + 42, "Seven questions that give a head its type", parts)


def _players(places: dict[str, Point], wins: list[tuple[str, str]], infinite: str = "") -> list[str]:
    parts: list[str] = []
    for name, (x, y) in places.items():
        kind = "far" if name in infinite.split() else "win"
        parts += [f'<circle cx="{x:g}" cy="{y:g}" r="22" class="{kind}"/>', *_text(x, y + 5, name)]
    for winner, loser in wins:
        (x1, y1), (x2, y2) = places[winner], places[loser]
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        side = 7 if (loser, winner) in wins else 0
        ends = [
            (x + sign * 24 * dx - side * dy, y + sign * 24 * dy + side * dx)
            for x, y, sign in ((x1, y1, 1), (x2, y2, -1))
        ]
        parts.append(_arrow(*ends))
    return parts


def draw_wins() -> str:
    """A component, two ordered components, and two that nothing orders; arrows lead from winner to loser."""
    cases = (
        ("Wins lead both ways", "one component:|every rating is finite"),
        ("Wins lead one way only", "two components: Cat and Dan are|infinitely far behind, with a bound"),
        ("No wins lead across", "nothing orders the two:|a board for each"),
    )
    both = [("Ann", "Bob"), ("Bob", "Ann"), ("Cat", "Dan"), ("Dan", "Cat")]
    across = [
        [("Ann", "Cat"), ("Dan", "Bob")],
        [("Ann", "Cat"), ("Bob", "Dan")],
        [],
    ]
    parts: list[str] = []
    for number, ((title, result), more) in enumerate(zip(cases, across, strict=True)):
        left = 20 + 270 * number
        corners = {"Ann": (60, 90), "Bob": (190, 90), "Cat": (60, 200), "Dan": (190, 200)}
        places = {name: (left + x, y) for name, (x, y) in corners.items()}
        parts += _text(left + 125, 40, title, "title")
        parts += _players(places, both + more, "Cat Dan" if number == 1 else "")
        parts += _text(left + 125, 264, result, "quiet")
    return _picture(830, 296, "Three cases of a graph of wins", parts)


PICTURES = {"types.svg": draw_types, "wins.svg": draw_wins}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (ASSETS / name).write_text(draw(), encoding="utf-8")
