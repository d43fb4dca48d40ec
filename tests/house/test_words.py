"""Words of our own making that design and style replace by the field's."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

WORDS = {
    r"(?<!by )chances?": "probability",
    r"turned (?:positions?|keys?|quer(?:y|ies))": "rotary positions, RoPE",
    r"(?<!warm-up )(?<!W )doubles": "float64",
    r"hangs? on": "depends on",
    r"(?:hold|holds|held|holding) (?:it|them|\w+) against": "test against, compare with",
    r"asked and not loaded": "read on demand",
    r"so (?:many|much) (?!that|more|less|fewer)\w+": "at most n, n",
    r"(?<=\. )Of (?:a|an|each|every|several)(?= )": "subject first",
}
"""A pattern, matched as whole words and without regard to case → what to write."""


def read_lines():
    """Every line that somebody reads, with its place: pages, notebooks, source and its messages."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
    pages += [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "src").rglob("*.py"))]
    for page in pages:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{page}:{number}", line
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        for number, cell in enumerate(json.loads(page.read_text(encoding="utf-8"))["cells"], 1):
            for line in "".join(cell["source"]).splitlines():
                yield f"{page}, cell {number}", line


def test_no_replaced_word_has_come_back():
    pattern = re.compile("|".join(rf"(?:\b{word}\b)" for word in WORDS), re.IGNORECASE)
    wrong = [
        f"{place}: {line.strip()[:100]}"
        for place, line in read_lines()
        if pattern.search(line.replace("_", " "))
    ]
    assert wrong == [], f"write instead: {WORDS}"
