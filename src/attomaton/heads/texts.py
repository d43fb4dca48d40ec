"""A corpus as token ids of a model: text is tokenised by the model's own tokenizer.

A text begins with the token that the tokenizer puts before it, if it does so for the model: Gemma 3 with 270
million parameters has a loss of 2.0 nats per token on stories with it, and 3.6 without.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.base.artifacts import digest_file
from attomaton.base.errors import MismatchedParts, UnsupportedOption
from attomaton.base.tables import Int32, Int64
from attomaton.corpora.documents import Documents
from attomaton.corpora.readers.batches import Reading, as_reading
from attomaton.corpora.readers.corpus import read_documents_and_entry
from attomaton.corpora.tokenizers.subwords import HUGGING_FACE, subword_encoder
from attomaton.corpora.tokenizers.vocabulary import Vocabulary
from attomaton.heads.reading.folders import fetch_tokenizer
from attomaton.heads.reading.gguf_tokenizer import read_tokenizer


def read_for(
    models: Sequence[Any],
    corpus: Any,
    *,
    tokenizer: Any = None,
    reading: Reading | None = None,
    on_hub: bool = False,
) -> Documents | list[Any]:
    """A corpus as ids of some models: by the given tokenizer, by their own, or ids as they are.

    ``models`` are paths, names or objects, as :func:`~attomaton.heads.opening.open_model` takes them, and
    models of the hub are named with their revision, ``owner/name@revision``. ``corpus`` is a path or URL,
    :class:`~attomaton.corpora.Documents`, a frame or dataset with a column of texts or ids, or any container
    of texts, of records or of rows of ids.
    """
    framed = hasattr(corpus, "columns") or hasattr(corpus, "column_names")  # not a column of one
    if not isinstance(corpus, str | PathLike | Documents) and not framed:
        items: Any = corpus.to_pylist() if hasattr(corpus, "to_pylist") else corpus
        items = list(cast("Iterable[Any]", items)) if isinstance(items, Iterable) else items
        if not (isinstance(items, list) and items and isinstance(items[0], str | Mapping | None)):
            return cast("Any", items)  # ids, or what is refused where ids are checked
        corpus = cast("list[Any]", items)
    chosen = _vocabulary(own_tokenizer(models, on_hub=on_hub) if tokenizer is None else tokenizer)
    chosen = (Vocabulary.fixed(chosen) or chosen) if isinstance(chosen, str) else chosen
    named = isinstance(chosen, Vocabulary)
    wanted = (
        BegunVocabulary(chosen.tokens, chosen.tokenizer, chosen.definition) if named else chosen or "word"
    )
    read, _ = read_documents_and_entry(corpus, wanted, as_reading(reading))
    read = replace(read, vocabulary=chosen) if read.vocabulary is wanted else read
    if chosen is None and read.vocabulary is not None and not isinstance(corpus, Documents):
        raise UnsupportedOption(
            "the corpus is text, and nothing says which id of the model a word has; give the model's "
            "tokenizer by tokenizer= (one of transformers, a tokenizer.json, a .tiktoken file, or a .bin "
            "file of llama2.c such as tok512.bin), or token ids; a run of attomaton knows its words once "
            "`attomaton learn` was run with the same text and --out"
        )
    return read


class BegunVocabulary(Vocabulary):
    """A vocabulary in which every text begins with the tokens that its tokenizer puts before it."""

    def encode_all(self, texts: Sequence[str | Sequence[str]]) -> tuple[Int64, Int32]:
        """Many texts as ids, ``(offsets, ids)``."""
        offsets, ids = super().encode_all(texts)
        begin = np.array(self.before, np.int32)
        starts = np.repeat(offsets[:-1], len(begin))
        begun = np.insert(ids, starts, np.tile(begin, len(offsets) - 1))
        return offsets + len(begin) * np.arange(len(offsets)), begun


def own_tokenizer(models: Sequence[Any], *, on_hub: bool = False) -> Any:
    """The tokenizer that belongs to models, the same to all; None if none has one.

    It is a file in the folder of a model on disk, or an attribute of a model in memory.
    """
    in_memory = [
        getattr(model, "tokenizer", None) for model in models if not isinstance(model, str | PathLike)
    ]
    if in_memory:
        return in_memory[0]
    names = [str(model) for model in models]
    files = {name: file for name in names if (file := _on_hub(name) if on_hub else _tokenizer_file(name))}
    several = files if len(files) > 1 else {}
    digests = {name: _digest_tokenizer(file) for name, file in several.items()}
    if len(set(digests.values())) > 1:
        first = next(iter(files))
        second = next(name for name in files if digests[name] != digests[first])
        raise MismatchedParts(
            f"the tokenizers of {first} and {second} differ, so equal ids mean different tokens; give "
            "models of one training run, or one tokenizer for all"
        )
    if not files:
        return None
    file = next(iter(files.values()))
    if file.suffix == ".gguf":
        return read_tokenizer(file)
    return str(file) if file.name == "tokenizer.json" else Automaton.load(file.parent).vocabulary


def _vocabulary(tokenizer: Any) -> Any:
    """A tokenizer as readers of corpora take it: a path or a vocabulary, also that of an object in memory."""
    if tokenizer is None or isinstance(tokenizer, str | Vocabulary):
        return tokenizer
    if isinstance(tokenizer, PathLike):
        return str(cast("Any", tokenizer))
    whole = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(whole, "to_str"):
        raise UnsupportedOption(
            f"a {type(tokenizer).__name__} is no fast tokenizer of transformers; give a tokenizer.json or "
            "other file, a Vocabulary, or token ids as the corpus"
        )
    definition = str(whole.to_str())
    return Vocabulary(subword_encoder(HUGGING_FACE, definition).tokens(), HUGGING_FACE, definition)


def _digest_tokenizer(file: Path) -> str:
    """What two files share if their tokenizers are the same."""
    return str(read_tokenizer(file).definition) if file.suffix == ".gguf" else digest_file(file)


def _on_hub(name: str) -> Path | None:
    repository, _, revision = name.partition("@")
    return fetch_tokenizer(repository, revision)


def _tokenizer_file(name: str) -> Path | None:
    """The file that says which ids tokens have: tokenizer.json, or the vocabulary of a run of attomaton."""
    path = Path(name)
    if path.suffix == ".gguf":
        return path
    run = path.absolute().parent.parent.parent if path.suffix == ".safetensors" else path
    for file in (path / "tokenizer.json", run / "vocabulary.json"):
        if file.is_file() and (file.name == "tokenizer.json" or (file.parent / "training").is_dir()):
            return file
    return None
