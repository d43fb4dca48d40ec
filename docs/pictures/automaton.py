"""Draw the picture of the landing page from the example story: ``python docs/pictures/automaton.py``.

Left, one sample of the text; in the middle, the order that all samples put the tokens in under the query
*the*; right, what attention does with a new context. All words and numbers come from the automaton.
"""

from html import escape
from importlib.resources import files
from pathlib import Path

import pyarrow.compute as pc

import attomaton as at

PLACE = Path(__file__).parents[1] / "assets" / "automaton.svg"
CONTEXT = "the wind saw the lamp and the"
SHOWN = ("the", "and", "saw", "lit", ".", ",")
"""Tokens below the nouns that the picture names; the others are counted."""

STYLE = """
text { font: 15px system-ui, 'Segoe UI', Roboto, 'Noto Sans', sans-serif; fill: #1b2330; }
.head { font-size: 18px; font-weight: 650; } .quiet { fill: #525d6e; font-size: 13.5px; }
.box { fill: #fff; stroke: #c3cad5; } .win { fill: #dcebfb; stroke: #1f5fa8; } .bar { fill: #1f5fa8; }
.gone { fill: #8a94a3; text-decoration: line-through; }
.line { stroke: #1f5fa8; stroke-width: 1.6; fill: none; }
"""


def draw() -> str:
    """The picture as SVG."""
    story = files("attomaton.corpora") / "example.txt"
    auto = at.learn(str(story), window=8)
    *context, label = story.read_text(encoding="utf-8").split()[:8]
    parts = [*_sample(context, label), *_order(auto), *_answer(auto)]
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1080 430" role="img"'
    told = (
        f'aria-label="From a text to an order of tokens, and from a context, {CONTEXT}, to the tokens '
        'that are retrieved and their odds">'
    )
    marker = (
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto">'
        '<path d="M0 0 L10 5 L0 10 z" fill="#1f5fa8"/></marker></defs>'
    )
    card = '<rect width="1080" height="430" rx="12" fill="#f5f6f8"/>'
    return "\n".join([f"{head} {told}", f"<style>{STYLE}</style>", marker, card, *parts, "</svg>"]) + "\n"


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{named} text-anchor="{anchor}">{escape(words)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="{kind}"/>'


def _arrow(*points: tuple[float, float]) -> str:
    path = " L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="M{path}" class="line" marker-end="url(#tip)"/>'


def _sample(context: list[str], label: str) -> list[str]:
    """One sample, and who beats whom in it."""
    beaten = [token for token in dict.fromkeys(context) if token != label]
    parts = [_text(36, 48, "1  Count", "head"), _text(36, 74, "In a context that ends in “the”,", "quiet")]
    parts += [_text(36, 93, "the token that follows beats the others.", "quiet"), _box(36, 112, 268, 76)]
    parts += [_text(52, 140, " ".join(context)), _text(52, 170, f"→ {label}")]
    parts += [_box(36, 260, 72, 34, "win"), _text(72, 282, label, anchor="middle")]
    for place, token in enumerate(beaten):
        y = 214 + place * 44
        parts += [_arrow((108, 277), (150, 277), (150, y + 16), (192, y + 16)), _box(194, y, 84, 32)]
        parts.append(_text(236, y + 21, token, anchor="middle"))
    return parts


def _order(auto: at.Automaton) -> list[str]:
    """The components under the query: those that precede the nouns, the nouns, and what they precede."""
    query = auto.explain(CONTEXT).context[-1]
    nodes = auto.components.nodes
    nodes = nodes.filter(pc.equal(nodes["query"], query))
    members: dict[int, list[str]] = {}
    for token, component in zip(nodes["token"].to_pylist(), nodes["component"].to_pylist(), strict=True):
        members.setdefault(component, []).append(auto.name(token))
    order = auto.components.order
    pairs = list(zip(order["above"].to_pylist(), order["below"].to_pylist(), strict=True))
    nouns = max(members, key=lambda component: len(members[component]))
    above = [members[a][0] for a, b in pairs if b == nouns]
    below = [members[b][0] for a, b in pairs if a == nouns]
    parts = [_text(376, 48, "2  Order", "head"), _text(376, 74, "All samples together: who wins", "quiet")]
    parts += [_text(376, 93, "under “the”, and who takes turns.", "quiet")]
    parts += [
        _box(470, 112, 84, 34),
        _text(512, 134, above[0], anchor="middle"),
        _arrow((512, 146), (512, 174)),
    ]
    parts.append(_box(376, 176, 272, 84, "win"))
    named = members[nouns]
    parts += [_text(512, 206, "  ".join(named[:4]), anchor="middle")]
    parts += [_text(512, 230, "  ".join(named[4:]), anchor="middle")]
    parts += [
        _text(512, 250, "beat each other: one component", "quiet", "middle"),
        _arrow((512, 260), (512, 288)),
    ]
    shown = [token for token in SHOWN if token in below]
    for place, token in enumerate(shown):
        parts += [_box(376 + place * 46, 290, 42, 34), _text(397 + place * 46, 312, token, anchor="middle")]
    parts.append(_text(512, 346, f"and {len(below) - len(shown)} more tokens", "quiet", "middle"))
    return parts


def _answer(auto: at.Automaton) -> list[str]:
    """The context, what is retrieved from it, and the odds."""
    explanation = auto.explain(CONTEXT)
    kept = {token for component in explanation.retrieved for token in component}
    parts = [_text(716, 48, "3  Answer", "head"), _text(716, 74, "Hard retrieval: only the highest", "quiet")]
    parts += [_text(716, 93, "component in the context is kept.", "quiet")]
    x = 716.0
    for word, token in zip(CONTEXT.split(), explanation.context, strict=True):
        width = 8.6 * len(word) + 12
        if token in kept:
            parts.append(_box(x, 112, width, 32, "win"))
        parts.append(_text(x + width / 2, 133, word, "" if token in kept else "gone", "middle"))
        x += width + 4
    parts.append(_text(716, 196, "Soft composition: the odds inside it", "quiet"))
    parts.append(_text(716, 215, "are those that the text shows.", "quiet"))
    chosen = sorted(explanation.probabilities.items(), key=lambda pair: -pair[1])
    for place, (token, probability) in enumerate(chosen):
        y = 238 + place * 46
        parts += [
            _text(716, y + 20, auto.name(token)),
            f'<rect x="770" y="{y}" width="{190 * probability:.1f}" ',
        ]
        parts[-1] += 'height="30" rx="4" class="bar"/>'
        parts.append(_text(780 + 190 * probability, y + 20, f"{probability:.2f}"))
    parts.append(_text(716, 370, "A layer trained by gradient descent ends here.", "quiet"))
    parts.append(_text(716, 389, "No training was needed to know it.", "quiet"))
    return parts


if __name__ == "__main__":
    PLACE.write_text(draw(), encoding="utf-8")
