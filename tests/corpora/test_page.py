"""The page about corpora: its code runs and prints what it shows."""

import doctest
import re
from pathlib import Path

from attomaton.corpora.readers.sources import READERS
from attomaton.corpora.tokenizers import TOKENIZERS
from attomaton.corpora.tokenizers.patterns import SCHEMES

PAGE = (Path(__file__).parents[2] / "docs" / "corpora.md").read_text(encoding="utf-8")


def test_the_code_does_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```pycon\n(.*?)```", PAGE, flags=re.DOTALL))
    session = doctest.DocTestParser().get_doctest(code, {}, "page", None, 0)
    assert len(session.examples) > 10
    assert (
        doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE).run(session).failed
        == 0
    )


def test_every_format_and_tokenizer_is_on_the_page():
    for name in [*READERS, *TOKENIZERS, *SCHEMES]:
        assert f"`{name}`" in PAGE, name
