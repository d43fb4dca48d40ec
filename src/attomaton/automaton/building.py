"""Build the folder of a run: check it before any work, then write it."""

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.runs.layout import OWNED
from attomaton.base.artifacts import RUN, Building, digest_arrays, explained
from attomaton.base.artifacts.folders import check_replaceable, resolve_target
from attomaton.base.artifacts.uploads import build_at, check_upload
from attomaton.base.errors import UnwritablePlace
from attomaton.base.machine import divide_work
from attomaton.base.options import given_path
from attomaton.base.remote import as_path
from attomaton.corpora.readers.batches import Reading
from attomaton.corpora.readers.corpus import path_of
from attomaton.engines.source import EngineCorpus
from attomaton.graphs.origin import check_training, describe_origin


def check_run_target(out: str | PathLike[str], source: Any, *, overwrite: bool) -> None:
    """Refuse, before the corpus is read, a path or URL where no run can be written."""
    if not isinstance(url := as_path(out), Path):
        check_upload(url, overwrite=overwrite)
        return
    path = given_path(out, "out")
    target = resolve_target(path)
    corpus = path_of(source)
    if isinstance(corpus, Path):
        corpus = Path(os.path.realpath(corpus))
        if target in corpus.parents or (target == corpus and target.is_dir()):
            raise UnwritablePlace(f"{out} contains the corpus ({source}); give another folder for the run")
    check_replaceable(target, RUN, overwrite=overwrite)
    # A run is built beside its folder and renamed; if the parent is not writable, inside an existing folder.
    # A temporary file shows that this works.
    parent = next(folder for folder in target.parents if folder.exists())
    in_parent = os.access(parent, os.W_OK | os.X_OK) or not target.exists()
    with explained(target), TemporaryFile(prefix=".attomaton-", dir=parent if in_parent else target):
        pass


@contextmanager
def build_run(out: str | PathLike[str], *, overwrite: bool, resumable: bool = False) -> Generator[Building]:
    """A partial folder to write the run into, put in place at the end; `resumable` keeps it on failure."""
    with build_at(out, RUN, OWNED, overwrite=overwrite, resumable=resumable) as building:
        yield building
        shutil.rmtree(building.folder / "work", ignore_errors=True)
        if not overwrite:
            check_training(building.folder, building.target)


def describe_run(
    corpus: EngineCorpus,
    automaton: Automaton | None = None,
    *,
    reading: Reading,
    embeddings: object,
    threads: int | None = None,
    **more: str,
) -> dict[str, Any]:
    """The first entries of a run's manifest: the corpus, the settings and the origin of the samples."""
    digest = None if embeddings is None else digest_arrays(np.asarray(embeddings, np.float64))
    settings = {"documents": reading.documents, **more, "embeddings": digest}
    optional = {name: getattr(reading, name) for name in ("column", "format")}
    settings |= {name: value for name, value in optional.items() if value is not None}
    about = {"input": corpus.about, "config": {**corpus.selection.to_dict(), **settings}}
    if automaton is None or automaton.samples is None:
        return about
    samples = automaton.samples
    # a second thread meanwhile measures the coverage, which is cached and written later
    tasks: list[Callable[[], Any]] = [lambda: describe_origin(samples), lambda: automaton.coverage]
    return {**about, "samples": divide_work(lambda task: task(), tasks, threads)[0]}
