"""The pages and the help name all that can be read."""

from pathlib import Path

from attomaton import learn
from attomaton.cli.commands import load_command
from attomaton.corpora import tokenize_corpus
from attomaton.corpora.readers.corpus import read_corpus
from attomaton.corpora.readers.sources import READERS
from attomaton.corpora.tokenizers import TOKENIZERS, Vocabulary
from attomaton.corpora.tokenizers.ranks import SCHEMES

DOCS = Path(__file__).parents[3] / "docs"


def test_every_format_and_tokenizer_is_on_the_page():
    page = (DOCS / "corpora.md").read_text(encoding="utf-8")
    assert [name for name in [*READERS, *TOKENIZERS, *SCHEMES] if f"`{name}`" not in page] == []


def test_the_help_and_the_docstrings_list_every_tokenizer():
    option = next(option for option in load_command("learn").params if option.name == "tokenizer")
    assert option.help.split(", or ")[0].split(", ") == list(TOKENIZERS)
    texts = {"docs/command-line.md": (DOCS / "command-line.md").read_text(encoding="utf-8")}
    named = (learn, tokenize_corpus, Vocabulary, read_corpus)
    texts |= {f"docstring of {definition.__name__}": definition.__doc__ for definition in named}
    for place, text in texts.items():
        missing = [name for name in TOKENIZERS if f"`{name}`" not in text and f'"{name}"' not in text]
        assert not missing, f"the {place} does not name {missing}"
