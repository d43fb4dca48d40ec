"""The run folder of an automaton that is being learned: opened, described, and checked against a training."""

import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.runs.layout import OWNED
from attomaton.base.artifacts import RUN, Building, digest_arrays
from attomaton.base.artifacts.uploads import build_at
from attomaton.base.machine import share_out
from attomaton.base.options import given_path
from attomaton.base.remote import as_place
from attomaton.corpora.readers.batches import Reading
from attomaton.engines.source import Corpus, refuse_input_in
from attomaton.graphs.origin import check_training, describe_origin


@contextmanager
def build_run(
    out: str | PathLike[str] | None, source: Any, *, overwrite: bool, resumable: bool = False
) -> Generator[Building | None]:
    """The run folder being built for ``out``, if it is given.

    An engine may work in its subfolder ``work``, and a later run resumes its unfinished work.
    """
    if out is None:
        yield None
        return
    if isinstance(as_place(out), Path):
        refuse_input_in(given_path(out, "out"), source)
    with build_at(out, RUN, OWNED, overwrite=overwrite, resumable=resumable) as building:
        yield building
        shutil.rmtree(building.folder / "work", ignore_errors=True)
        if not overwrite:
            check_training(building.folder, building.target)


def describe_run(
    corpus: Corpus,
    automaton: Automaton | None = None,
    *,
    reading: Reading,
    embeddings: object,
    threads: int | None = None,
    **more: str,
) -> dict[str, Any]:
    """The manifest of a run: its corpus, the settings of learning, and the digest of its samples if known.

    The coverage of the automaton is measured in the meantime.
    """
    digest = None if embeddings is None else digest_arrays(np.asarray(embeddings, np.float64))
    settings = {"documents": reading.documents, **more, "embeddings": digest}
    named = {name: getattr(reading, name) for name in ("column", "format")}
    settings |= {name: value for name, value in named.items() if value is not None}
    about = {"input": corpus.about, "config": {**corpus.selection.to_dict(), **settings}}
    if automaton is None or automaton.samples is None:
        return about
    samples = automaton.samples
    tasks: list[Callable[[], Any]] = [lambda: describe_origin(samples), lambda: automaton.coverage]
    return {**about, "samples": share_out(lambda task: task(), tasks, threads)[0]}
