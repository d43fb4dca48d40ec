"""The pages of the command line list the options that the parser takes, and no others."""

import re
from pathlib import Path

import pytest
import typer

from attomaton.cli.commands import EXAMPLES, load_command

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("command-line.md", "command-line-models.md", "command-line-choices.md")
PAGE = "".join((DOCS / name).read_text(encoding="utf-8") for name in PAGES)
EVERYWHERE = {"--json", "--quiet", "--help"}
CORPUS = set(
    re.findall(r"`(--[a-z-]+)`", PAGE[PAGE.index("**Corpora.**") : PAGE.index("## `attomaton learn")])
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_lists_the_options_of_the_command(name):
    command = load_command(name)
    options = {
        text for param in command.params if isinstance(param, typer.core.TyperOption) for text in param.opts
    }
    section = re.search(rf"^## `attomaton {name}\b.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[0]
    rows = re.findall(r"^\| (`--[^|]*)\|", section, re.MULTILINE)
    listed = {option for row in rows for option in re.findall(r"(--[a-z][a-z-]*)", row)}
    named = set(re.findall(r"(--[a-z][a-z-]*)", section))
    long = {option for option in options if option.startswith("--")}
    assert long - named - EVERYWHERE - CORPUS == set(), "the page does not name them"
    assert listed - long == set(), "the parser does not take them"
