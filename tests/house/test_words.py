"""Words that readers of this field do not know, or would have to read twice, and what to write instead."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WORDS = {
    r"chances?": "probability",
    r"turned (?:positions?|keys?|quer(?:y|ies))": "rotary positions, RoPE",
    r"doubles": "float64",
    r"hangs? on": "depends on",
    r"train on\b(?! )": "needs about N more steps",
    r"(?:hold|holds|held|holding) (?:it|them|\w+) against": "test against, compare with",
    r"asked and not loaded": "read on demand",
    r"so (?:many|much) (?!that|more|less|fewer)\w+": "at most n, n",
    r"for ever": "forever, without end",
    r"foret(?:old|ells?|elling)": "predicted, forecast",
    r"likes of": "such as",
    r"one's own": "your own",
    r"a handful of": "a few",
    r"(?<=\. )Of (?:a|an|each|every|several) ": "subject first",
}
"""A pattern, matched as whole words and without regard to case → what to write."""

EXCEPTIONS: dict[str, tuple[str, ...]] = {
    r"chances?": ("by chance",),
    r"doubles": ("while the warm-up doubles", "Doubling W doubles"),
}
"""A pattern → parts of lines in which it is right."""


def read_lines():
    """Every line that somebody reads, with its place: pages, notebooks, source and its messages."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
    pages += [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "src").rglob("*.py"))]
    for page in pages:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{page.relative_to(ROOT)}:{number}", line
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        for number, cell in enumerate(json.loads(page.read_text(encoding="utf-8"))["cells"], 1):
            for line in "".join(cell["source"]).splitlines():
                yield f"{page.relative_to(ROOT)}, cell {number}", line


LINES = list(read_lines())


@pytest.mark.parametrize("word", WORDS)
def test_the_word_has_not_come_back(word):
    pattern = re.compile(
        rf"\b{word}" + (r"\b" if word[-1].isalnum() or word[-1] in "?)+" else ""), re.IGNORECASE
    )
    right = EXCEPTIONS.get(word, ())
    wrong = [
        f"{place}: {line.strip()[:100]}"
        for place, line in LINES
        if pattern.search(line.replace("_", " ")) and not any(part in line for part in right)
    ]
    assert wrong == [], f"write instead: {WORDS[word]}"


def test_exceptions_are_still_needed():
    for word, parts in EXCEPTIONS.items():
        assert word in WORDS
        assert [part for part in parts if not any(part in line for _, line in LINES)] == []
