"""Learn with an engine on disk, partition by partition, into the run folder or a temporary folder."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attomaton.automaton.automaton import Automaton, write_automaton
from attomaton.automaton.runs.layout import OWNED
from attomaton.automaton.runs.staged import learn_by_partition
from attomaton.base.artifacts import RUN, Building, build_folder
from attomaton.base.progress import Progress
from attomaton.corpora.shards import Shards
from attomaton.engines.choose import Engine, make_disk_engine
from attomaton.engines.source import EngineCorpus
from attomaton.solvers.solved import solve_edges


def learn_on_disk(
    settings: Engine,
    source: EngineCorpus | Callable[..., EngineCorpus],
    build: Callable[[], AbstractContextManager[Building | None]],
    describe: Callable[[EngineCorpus], dict[str, Any]],
    embeddings: object,
    progress: Progress,
) -> Automaton | None:
    """Learn from shards, or from those that ``source`` writes; None if the result is in the run folder."""
    with build() as building, _work_folder(building) as path:
        work = Path(path)
        corpus = source if isinstance(source, EngineCorpus) else source(tokens=work / "tokens")
        assert isinstance(corpus.tokens, Shards)  # noqa: S101  our own invariant
        passes = make_disk_engine(settings, corpus.tokens, corpus.selection, work / "passes", progress)
        progress("extracting edges", 0, 0)
        edges, about = passes.edges(), describe(corpus)
        if embeddings is not None:
            solved = solve_edges(
                edges.load(),
                passes.choices,
                embeddings=embeddings,
                progress=progress,
                threads=settings.threads,
            )
            solution = solved.components, solved.hard, solved.soft
            automaton = Automaton(*solution, corpus.vocabulary, window=corpus.window)
            if building is not None:
                progress("writing the run", 0, 0)
                write_automaton(building, automaton, about)
            return automaton
        finished = learn_by_partition(passes, edges, progress)
        if building is not None:
            finished.write(building, corpus.vocabulary, about)
            return None
        with build_folder(work / "run", RUN, OWNED, overwrite=False) as folder:
            finished.write(folder, corpus.vocabulary, about)
        return Automaton.load(work / "run", whole=True)


def _work_folder(building: Building | None) -> AbstractContextManager[str]:
    if building is None:
        return TemporaryDirectory(prefix="attomaton-")
    return nullcontext(str(building.folder / "work"))
