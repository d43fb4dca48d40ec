"""``attomaton train``: train one attention layer on a text; a stopped training can be resumed."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.base.options import MOST_TRAINING_STEPS
from attomaton.cli import output
from attomaton.cli.messages import warnings_as_lines
from attomaton.cli.progress import stages
from attomaton.cli.sources import CorpusArgument, CorpusOptions, WindowOption, reads
from attomaton.cli.stopping import resumable
from attomaton.cli.values import path_option, real, whole, words

if TYPE_CHECKING:
    from attomaton.corpora.samples import Samples
    from attomaton.training.steps import Step


# Maximum number of entries of the embedded contexts: 2 GB, of which training needs about two copies.
MOST_EMBEDDED = 250_000_000


@reads
def train(
    corpus: CorpusArgument,
    corpus_options: CorpusOptions,
    out: Annotated[Path, path_option("Run folder to write to; the training is in its subfolder training.")],
    window: WindowOption = 32,
    steps: Annotated[int, whole("Number of steps.", least=1, most=MOST_TRAINING_STEPS)] = 5000,
    step_size: Annotated[
        float, real("Step size of gradient descent.", sign="> 0", above=0, most=1e300)
    ] = 1.0,
    normalized: Annotated[bool, typer.Option("--normalized", help="Divide gradients by their norm.")] = False,
    optimiser: Annotated[str, words("Optimiser: descent, sign, adam, spectral or muon.")] = "descent",
    decay: Annotated[
        float, real("Multiply the step size by step^-DECAY; 0.5 is usual.", least=0, most=1)
    ] = 0.0,
    dim: Annotated[
        int | None, whole("Dimension of random unit embeddings; default: orthonormal ones.", least=1)
    ] = None,
    seed: Annotated[int, whole("Random seed of the embeddings.")] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume from the last checkpoint in --out.")
    ] = False,
    overwrite: output.Overwrite = False,
    as_json: output.AsJson = False,
    quiet: output.Quiet = False,
) -> None:
    """Train one attention layer on CORPUS from W = 0, with the log-loss and full batches."""
    from attomaton.base.errors import StepBeyondEdge, needing
    from attomaton.corpora.readers.corpus import read_samples
    from attomaton.graphs.bags import find_realisable

    with needing("training"):
        import attomaton.training.loop as loop
        from attomaton.training.checkpoints import Store
        from attomaton.training.models.attention import AttentionModel
        from attomaton.training.models.embeddings import Orthonormal, RandomUnit

    with resumable(corpus != "-", "--resume"), stages(quiet) as announce, warnings_as_lines(StepBeyondEdge):
        announce("reading")
        read = read_samples(corpus, window=window, **corpus_options)
        samples = read.take(find_realisable(read))  # no gradient comes from the others
        _check_size(samples, samples.n_tokens if dim is None else dim)
        announce("training")
        trace = loop.train(
            samples,
            AttentionModel(Orthonormal() if dim is None else RandomUnit(dim)),
            _make_step(optimiser, step_size, decay, normalized=normalized),
            steps=steps,
            seed=seed,
            watch=loop.Watch([lambda step, _: announce.advance(step, steps)]),
            out=Store(out, resume=resume, overwrite=overwrite),
        )
    if as_json:
        output.print_json({**trace.summary(), "out": str(out)})
    elif not quiet:
        output.print_value(trace)
        output.print_written(out / "training")
    if not all(math.isfinite(number) for number in trace.losses[-1].tolist()):
        raise typer.Exit(1)


def _make_step(optimiser: str, step_size: float, decay: float, *, normalized: bool) -> "Step":
    # the step of the optimiser with this name; of these, only gradient descent can be normalized
    from attomaton.base.errors import UnsupportedOption
    from attomaton.base.options import show
    from attomaton.training.steps import Adam, Decay, GradientDescent, Muon, SignDescent, SpectralDescent

    schedule = Decay(decay) if decay else None
    kinds = {"sign": SignDescent, "adam": Adam, "spectral": SpectralDescent, "muon": Muon}
    if optimiser == "descent":
        return GradientDescent(step_size, normalized=normalized, schedule=schedule)
    if normalized:
        raise UnsupportedOption("--normalized works only with --optimiser descent; leave one of them out")
    if optimiser not in kinds:
        raise UnsupportedOption(f"--optimiser is {show(optimiser)}; give one of descent, {', '.join(kinds)}")
    return kinds[optimiser](step_size, schedule=schedule)


def _check_size(samples: "Samples", dim: int) -> None:
    # refuse a training whose embedded contexts, padded to the longest, or whose W do not fit into memory
    from attomaton.base.errors import UnsupportedOption

    longest = int(samples.lengths.max(initial=0))
    numbers = max(len(samples) * longest * dim, dim * dim)
    if numbers > MOST_EMBEDDED:
        raise UnsupportedOption(
            f"the training needs {numbers / 1e9:.1f} billion numbers in memory ({len(samples):,} samples of "
            f"up to {longest} tokens in {dim:,} dimensions), and the limit is {MOST_EMBEDDED / 1e9} "
            "billion; use a smaller --dim or --window, or a shorter text"
        )
