"""``attomaton train``: one layer of attention trained on a text; it can be killed and resumed."""

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.cli.output import (
    AsJson,
    Overwrite,
    Quiet,
    print_error,
    print_json,
    print_line,
    print_table,
    stages,
)
from attomaton.cli.sources import Corpus, How, Window, reads
from attomaton.cli.values import place, real, whole
from attomaton.options import MOST_STEPS

if TYPE_CHECKING:
    from attomaton.corpora.samples import Samples
    from attomaton.training.trace import Trace

LARGEST = 250_000_000
"""Numbers that the embedded contexts may take: 2 GB, of which training holds about two."""


@reads
def train(
    corpus: Corpus,
    how: How,
    out: Annotated[Path, place("Run folder; the files are written to its folder training.")],
    window: Window = 32,
    steps: Annotated[int, whole("How many steps to take.", least=1, most=MOST_STEPS)] = 1000,
    step_size: Annotated[
        float, real("Step size of gradient descent.", sign="> 0", above=0, most=1e300)
    ] = 1.0,
    normalized: Annotated[bool, typer.Option("--normalized", help="Divide gradients by their norm.")] = False,
    dim: Annotated[
        int | None,
        whole("Use random unit embeddings of this dimension; by default they are orthonormal.", least=1),
    ] = None,
    seed: Annotated[int, whole("Random seed of the embeddings.")] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in --out.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a layer of attention on CORPUS: log-loss, token-id head, W(0) = 0, all samples in each step."""
    from attomaton.errors import StepBeyondEdge, needing
    from attomaton.readers.given import read_samples

    with needing("training"):
        from attomaton.models.attention import AttentionModel
        from attomaton.models.embeddings import Orthonormal, RandomUnit
        from attomaton.training import loop
        from attomaton.training.checkpoints import Store
        from attomaton.training.steps import GradientDescent

    read = read_samples(corpus, window=window, tokenizer=how.tokenizer, reading=how.reading)
    samples = _realisable(read)
    size = samples.n_tokens if dim is None else dim
    _check_size(samples, size)
    with stages(quiet or as_json) as announce, warnings.catch_warnings():
        warnings.simplefilter("always", StepBeyondEdge)
        warnings.showwarning = _tell
        announce("training")
        trace = loop.train(
            samples,
            AttentionModel(Orthonormal() if dim is None else RandomUnit(dim)),
            GradientDescent(step_size, normalized=normalized),
            steps=steps,
            seed=seed,
            watch=loop.Watch([lambda step, _: announce.advance(step, steps)]),
            out=Store(out, resume=resume, overwrite=overwrite),
        )
    record = _record(trace, out)
    if as_json:
        print_json(record)
    elif not quiet:
        _print(record)
    if not all(math.isfinite(number) for number in trace.losses[-1].tolist()):
        raise typer.Exit(1)


def _tell(message: Warning | str, *_: object, **__: object) -> None:
    """A warning as one line on stderr."""
    print_error(f"Warning: {message}.")


def _realisable(samples: "Samples") -> "Samples":
    """The samples whose context holds the label: the others teach nothing, and need not be laid out."""
    from attomaton.graphs.bags import find_realisable

    return samples.take(find_realisable(samples))


def _check_size(samples: "Samples", dim: int) -> None:
    """Say at once that a training would not fit into memory: before the work, not during it."""
    from attomaton.errors import UnsupportedOption

    longest = int(samples.lengths.max(initial=0))
    numbers = max(len(samples) * longest * dim, dim * dim)
    if numbers > LARGEST:
        raise UnsupportedOption(
            f"{len(samples):,} samples of {longest} tokens in {dim:,} dimensions are {numbers / 1e9:.1f} "
            f"billion numbers, and this command holds at most {LARGEST / 1e9} billion in memory; give a "
            "smaller --dim or --window, or a shorter text"
        )


def _record(trace: "Trace", out: Path) -> dict[str, Any]:
    """What a run came to; a loss that is not finite is null."""
    losses = [float(loss) for loss in trace.losses[:, 0]]
    return {
        "samples": len(trace.samples[0]),
        "tokens": trace.samples[0].n_tokens,
        "dim": trace.embeddings.shape[2],
        "steps": int(trace.steps[-1]),
        "first_loss": losses[0] if math.isfinite(losses[0]) else None,
        "loss": losses[-1] if math.isfinite(losses[-1]) else None,
        "norm": float((trace.weights[-1] ** 2).sum() ** 0.5) if math.isfinite(losses[-1]) else None,
        "out": str(out),
    }


def _print(record: dict[str, Any]) -> None:
    rows: list[tuple[object, ...]] = [
        ("realisable samples", f"{record['samples']:,}"),
        ("tokens", f"{record['tokens']:,}"),
        ("dimensions", f"{record['dim']:,}"),
        ("steps", f"{record['steps']:,}"),
        ("loss at the start", _shown(record["first_loss"])),
        ("loss at the end", _shown(record["loss"])),
        ("norm of W", _shown(record["norm"])),
    ]
    print_table("Training", ["", ""], rows)
    if record["loss"] is None:
        print_line("The loss is not finite. Try a smaller --step-size.")
    print_line(f"Written to {Path(record['out']) / 'training'}.")


def _shown(number: float | None) -> str:
    return "not finite" if number is None else f"{number:.6f}"
