"""Load a run folder, whether the head writes the tokens that it reads or other tokens."""

from typing import TYPE_CHECKING, Union

from attomaton.automaton.automaton import WRITES, Automaton, open_automaton
from attomaton.automaton.runs.stored import open_run
from attomaton.base.remote import AnyPath

if TYPE_CHECKING:
    from attomaton.automaton.ov_maps.automaton import WritingAutomaton


def load_attention(path: str | AnyPath, *, whole: bool = False) -> Union[Automaton, "WritingAutomaton"]:
    """Load the automaton of a run folder, whether the head writes the tokens that it reads or other tokens.

    Examples
    --------
    >>> import tempfile, attomaton as at
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_attention(at.learn([0, 1, 0, 1], window=3).save(folder))
    Automaton(2 queries, 4 components, 2 tokens)
    """
    run = open_run(path)
    if WRITES not in run.run.records:
        return open_automaton(run, whole=whole)
    from attomaton.automaton.ov_maps.automaton import open_writing

    return open_writing(run, whole=whole)
