"""The docs speak of things that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_named_in_theory_to_code_exists():
    page = (ROOT / "docs" / "theory-to-code.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:\w+/)+\w+\.py)?(?:::(\w+))?`", page)
    file, seen = "", 0
    for path, name in named:
        file = path or file
        place = ROOT / "tests" / file
        if not place.exists():
            place = ROOT / "src" / "attomaton" / file
            assert place.exists(), file
        if name:
            assert re.search(rf"\b(?:def|class) {name}\b", place.read_text(encoding="utf-8")), (file, name)
            seen += 1
    assert seen > 20
