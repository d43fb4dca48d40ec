"""The page for choice-model people: what it shows of choix and of us is what happens."""

import doctest
import re
from pathlib import Path

from attomaton.limit.choices import fit_choices

PAGE = (Path(__file__).parents[2] / "docs" / "choice-models.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_choix_does_what_the_page_says():
    session = doctest.DocTestParser().get_doctest("\n".join(blocks("pycon")), {}, "page", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(session).failed == 0


def test_the_summary_shown_is_the_summary_printed():
    winners = ["Ann"] * 3 + ["Bob"] * 2 + ["Cat"] * 2 + ["Dan", "Ann", "Bob"]
    losers = ["Bob"] * 3 + ["Ann"] * 2 + ["Dan"] * 2 + ["Cat", "Cat", "Dan"]
    fit = fit_choices(winners, [list(pair) for pair in zip(winners, losers, strict=True)])
    shown = blocks("text")[0].splitlines()
    assert str(fit).splitlines()[: len(shown)] == shown
    assert str(fit.missing[0]) in PAGE
