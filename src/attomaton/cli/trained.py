"""The models that ``attomaton heads`` is given, of one step or of several, and a corpus as their ids."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attomaton.base.errors import MismatchedParts, UnsupportedOption

if TYPE_CHECKING:
    from attomaton.cli.sources import How
    from attomaton.corpora.documents import Documents
    from attomaton.heads.steps import ModelStep


def find_models(
    sources: Sequence[str], *, revision: str | None = None, steps: int | None = None
) -> "tuple[ModelStep, ...]":
    """What the arguments name: one model, as it is, or the steps of a training; none is opened."""
    from attomaton.heads.opening import open_model
    from attomaton.heads.steps import ModelStep, expand, find_steps

    found = list(sources) if revision is not None else expand(sources)
    for missing in (name for name in found if revision is None and not Path(name).exists()):
        open_model(missing)  # says what is missing, before the corpus is read
    if len(found) == 1 and steps is None:
        return (ModelStep(0, found[0], partial(open_model, found[0], revision=revision)),)
    if revision is not None:
        raise UnsupportedOption("--revision is for one model of the hub; leave it out, or give one model")
    return find_steps(found, most=steps)


def read_for(models: "Sequence[ModelStep]", corpus: str, how: "How") -> "Documents":
    """The corpus as ids of the models: by the tokenizer asked for, by their own, or ids as they are."""
    from attomaton.corpora.readers.given import read_given

    tokenizer: Any = how.tokenizer or own_tokenizer([one.name for one in models])
    read, _ = read_given(corpus, tokenizer or "word", how.reading)
    if tokenizer is None and read.vocabulary is not None:
        raise UnsupportedOption(
            "the corpus is text, and nothing says which id of the model a word has; give the model's "
            "tokenizer.json with --tokenizer (or a .tiktoken file, or a .bin file of llama2.c such as "
            "tok512.bin), or token ids; a run of attomaton knows its words once `attomaton learn` was run "
            "with the same text and --out"
        )
    return read


def own_tokenizer(names: Sequence[str]) -> Any:
    """The tokenizer that stands beside models, the same beside all; None where there is none."""
    from attomaton.base.artifacts import digest_file

    found = {name: place for name in names if (place := _beside(name)) is not None}
    digests = {name: digest_file(place) for name, place in found.items()}
    if len(set(digests.values())) > 1:
        first = next(iter(found))
        other = next(name for name in found if digests[name] != digests[first])
        raise MismatchedParts(
            f"the tokenizers of {first} and {other} differ, so that their ids are of other tokens; give "
            "models of one training, or the tokenizer of all with --tokenizer"
        )
    if not found:
        return None
    place = next(iter(found.values()))
    if place.name == "tokenizer.json":
        return str(place)
    from attomaton.automaton.automaton import Automaton

    return Automaton.load(place.parent).vocabulary


def _beside(name: str) -> Path | None:
    """The file that says which ids tokens have: tokenizer.json, or the vocabulary of a run of attomaton."""
    place = Path(name)
    run = place.absolute().parent.parent.parent if place.suffix == ".safetensors" else place
    for one in (place / "tokenizer.json", run / "vocabulary.json"):
        if one.is_file() and (one.name == "tokenizer.json" or (one.parent / "training").is_dir()):
            return one
    return None
