"""The page about corpora names all that can be read."""

from pathlib import Path

from attomaton.corpora.readers.sources import READERS
from attomaton.corpora.tokenizers import TOKENIZERS
from attomaton.corpora.tokenizers.ranks import SCHEMES

PAGE = (Path(__file__).parents[3] / "docs" / "corpora.md").read_text(encoding="utf-8")


def test_every_format_and_tokenizer_is_on_the_page():
    for name in [*READERS, *TOKENIZERS, *SCHEMES]:
        assert f"`{name}`" in PAGE, name
