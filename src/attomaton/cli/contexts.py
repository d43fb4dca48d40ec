"""A context as it is typed at the command line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attomaton.base.errors import TokenOutOfRange
from attomaton.base.options import show
from attomaton.cli.output import print_error
from attomaton.cli.values import read_number

if TYPE_CHECKING:
    from attomaton.automaton.attention import Attention
    from attomaton.automaton.context import Context


def read_words(attention: "Attention", text: str) -> "Context":
    """The context that a text gives: the text itself, or its numbers where a run has no vocabulary."""
    if attention.vocabulary is not None:
        return text
    numbers = [read_number(word) for word in text.split()]
    wrong = [number for number in numbers if not isinstance(number, int)]
    if wrong:
        raise TokenOutOfRange(
            f"{show(wrong[0])} is no token id, and this run has no vocabulary; give ids with blanks between "
            "them, such as '0 2 1'"
        )
    return numbers


def tell_unknown(unknown: Sequence[str]) -> None:
    """Say on stderr which words the vocabulary does not have."""
    from attomaton.automaton.scoring import tell_unknown as name_unknown

    for line in name_unknown(unknown):
        print_error(line)
