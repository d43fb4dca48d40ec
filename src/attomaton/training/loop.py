"""Train one layer of attention, or a deep model, on many trials in one tensor program.

Both read the corpora, draw the initial weights, lay out the tensors, and run the loop of `TrainingRun`.
"""

import warnings
from collections.abc import Sequence
from os import PathLike
from typing import Any, Unpack, cast

import numpy as np
import torch

from attomaton.base.artifacts import digest_arrays
from attomaton.base.errors import InvalidSamples, StepBeyondEdge, UncertifiedSolution, UnsupportedOption
from attomaton.base.options import MOST_TRIALS, real_number, show, whole_number
from attomaton.base.tables import Float64, Integers
from attomaton.corpora.readers.corpus import ReadingOptions, check_options, read_samples
from attomaton.corpora.samples import Samples
from attomaton.training.callbacks import Watch
from attomaton.training.checkpoints import Store
from attomaton.training.configuration import digest_corpora
from attomaton.training.iterate import TrainingRun
from attomaton.training.models.attention import AttentionModel, lay_out
from attomaton.training.models.deep import DeepModel, lay_out_sequences
from attomaton.training.models.heads import reads_mass
from attomaton.training.models.losses import LogLoss
from attomaton.training.steps import GradientDescent, Step, as_step
from attomaton.training.trace import DeepTrace, Trace, stack_records
from attomaton.trajectory.sharpness import find_passed

# Most positions of one layer, and most numbers of an activation of a deep model, for which one thread is
# faster than several.
SMALL_BATCH = 200_000
SMALL_DEEP = 400_000


class _Options(ReadingOptions, total=False):
    """How a source is read, and ``step_size`` for ``step``."""

    step_size: float


def train(
    samples: Any,
    model: AttentionModel,
    step: Step | float | None = None,
    *,
    steps: int,
    trials: int | None = None,
    seed: int = 0,
    watch: Watch | None = None,
    out: Store | str | PathLike[str] | None = None,
    **options: Unpack[_Options],
) -> Trace:
    """Train one layer of attention on the samples of every trial, all trials in parallel.

    Parameters
    ----------
    samples : Samples, sequence of Samples, or any source that :func:`~attomaton.learn` reads
        One corpus for all trials, or one per trial.
    model : AttentionModel
        Embeddings, readout, loss and PyTorch device; all numbers are float64.
    step : Step or float
        ``GradientDescent(step_size, …)``, ``Adam(step_size)`` or another step; a number is the step size of
        plain gradient descent, as is ``step_size=0.5``.
    steps : int
        Number of steps.
    trials : int, optional
        Number of trials for one corpus. None means 1.
    seed : int
        Trial i draws its embeddings and W(0) from the generator (seed, i), so its result depends on the other
        trials by rounding only.
    watch : Watch, optional
        Steps between records, callbacks, and a condition to stop early. None means 200 records.
    out : Store or path, optional
        Store the trace and checkpoints in this run folder. ``Store(path, resume=True)`` resumes from the
        last checkpoint, bit for bit like a run that was never interrupted. A resumed run must have equal
        settings; schedules, stop conditions and embeddings of your own classes are compared by name.
    **options
        For a source other than samples: ``window`` (32), ``tokenizer`` and ``reading``, as in
        :func:`~attomaton.learn`.

    Warns
    -----
    StepBeyondEdge
        If plain gradient descent on log-loss will not converge in some trial: its step size is above 2/λ_max.

    Examples
    --------
    >>> corpus = Samples.from_lists([[0, 1]], [0])
    >>> weights = train(corpus, AttentionModel("orthonormal"), 1.0, steps=1000).at(1000)[0]
    >>> float((weights[0, 1] - weights[1, 1]).round(2))  # ln(2 η t)
    7.6
    """
    run = TrainingRun.of(steps, _chosen_step(step, options), watch, out)
    seed = whole_number(seed, "seed")
    if not isinstance(cast("Any", model), AttentionModel):
        raise UnsupportedOption(
            f"model is {show(model)}; give AttentionModel(), or AttentionModel(embeddings=…) with a table"
        )
    corpora = _corpora_of_trials(samples, trials, options)
    rngs = [np.random.default_rng([seed, trial]) for trial in range(len(corpora))]
    tables = [model.embeddings.draw(corpus.n_tokens, rng) for corpus, rng in zip(corpora, rngs, strict=True)]
    starts = [model.draw_start(table.shape[1], rng) for table, rng in zip(tables, rngs, strict=True)]
    batch = lay_out(model, corpora, tables)  # errors are raised before anything is written
    if run.n_steps and (unstable := describe_unstable(model, run.step, corpora, tables)):
        warnings.warn(unstable, StepBeyondEdge, stacklevel=2)
    settings = run.describe(model, seed, samples=digest_corpora(corpora))
    return run.train(
        batch,
        starts,
        settings,
        lambda records: Trace(*stack_records(records), np.stack(tables), tuple(corpora), settings),
        corpora=corpora,
        threads=1 if batch.filled.numel() <= SMALL_BATCH else torch.get_num_threads(),
    )


def train_deep(
    sequences: Integers | Sequence[Integers],
    model: DeepModel | None = None,
    step: Step | float = 1.0,
    *,
    steps: int,
    n_tokens: int | None = None,
    watch: Watch | None = None,
    out: Store | str | PathLike[str] | None = None,
    seed: int = 0,
) -> DeepTrace:
    """Train a deep attention model on the sequences of every trial, all trials in parallel.

    The loss is the mean of −ln p(next token) over all positions; each step uses all sequences.

    Parameters
    ----------
    sequences : int array, shape (n_sequences, window + 1), or sequence of such arrays
        One corpus, or one per trial, all of equal shape; a corpus that is listed several times is trained
        from several initial weights.
    model : DeepModel, optional
        Layers, heads, initial weights. None means one layer with one head, starting from zero.
    step, steps : Step or float, int
        As in :func:`train`.
    n_tokens : int, optional
        Size of the vocabulary. None means one more than the largest token.
    watch, out : optional
        As in :func:`train`.
    seed : int
        Trial i draws its initial weights from the generator (seed, i).

    Examples
    --------
    >>> sequences = np.array([[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]])
    >>> trace = train_deep(sequences, DeepModel(n_layers=2), 1.0, steps=20)
    >>> trace.at(20).output[0].argmax(axis=1).tolist()  # the successor of each token
    [1, 2, 0]
    """
    model = DeepModel() if model is None else model
    if not isinstance(cast("Any", model), DeepModel):
        raise UnsupportedOption(f"model is {show(model)}; give DeepModel(n_layers=2) or similar")
    corpora = _sequences_of_trials(sequences)
    if n_tokens is None:
        size = max(int(np.max(rows, initial=0)) for rows in corpora) + 1
    else:
        size = whole_number(n_tokens, "n_tokens", least=1)
    batch = lay_out_sequences(model, corpora, size)
    run = TrainingRun.of(steps, as_step(step), watch, out)
    seed = whole_number(seed, "seed")
    rngs = [np.random.default_rng([seed, trial]) for trial in range(len(corpora))]
    starts = [model.draw_start(size, batch.window, rng) for rng in rngs]
    tokens = batch.tokens.cpu().numpy()
    settings = run.describe(model, seed, sequences=digest_arrays(tokens), n_tokens=size)
    is_small = tokens[..., :-1].size * size <= SMALL_DEEP  # the last token of a sequence is only a label
    return run.train(
        batch,
        starts,
        settings,
        lambda records: DeepTrace(*stack_records(records), tokens, size, settings),
        threads=1 if is_small else torch.get_num_threads(),
    )


# The update rule, from ``step`` or from the option ``step_size``.
def _chosen_step(step: Step | float | None, options: _Options) -> Step:
    if "step_size" not in options:
        return as_step(step)
    if step is not None:
        raise UnsupportedOption("step and step_size exclude each other; give one of them")
    return as_step(real_number(options["step_size"], "step_size", above=0))


# The samples of each trial: those in a list, or those of one source for all trials.
def _corpora_of_trials(samples: Any, trials: int | None, options: _Options) -> list[Samples]:
    reading = cast("ReadingOptions", {name: value for name, value in options.items() if name != "step_size"})
    check_options(reading)
    is_list = isinstance(samples, list | tuple)
    corpora: list[Any] = list(cast("Sequence[Any]", samples)) if is_list else [None]
    if not all(isinstance(corpus, Samples) for corpus in corpora):  # one source, such as a list of texts
        n_trials = 1 if trials is None else whole_number(trials, "trials", least=1, most=MOST_TRIALS)
        return [read_samples(samples, **reading)] * n_trials
    if not corpora:
        raise InvalidSamples("the list of corpora is empty; give one Samples, or a list of at least one")
    if trials is not None and trials != len(corpora):
        raise UnsupportedOption(
            f"samples lists {len(corpora)} corpora, but trials is {trials}; give one corpus per trial, or "
            "one for all trials"
        )
    return corpora


# The sequences of each trial, from one array (rows are sequences) or a list of arrays.
def _sequences_of_trials(sequences: Any) -> list[Integers]:
    is_list = isinstance(sequences, list | tuple | np.ndarray)
    rows = list(cast("Sequence[Any]", sequences)) if is_list else []
    depths = {np.ndim(row) for row in rows}
    if depths == {1}:  # one array, whose rows have one axis
        return [np.asarray(rows)]
    if depths != {2}:
        raise InvalidSamples(
            f"sequences are {show(cast('object', sequences))}; give an array of whole numbers, shape "
            "(n_sequences, window + 1), or a list of such arrays, one per trial"
        )
    return [np.asarray(row) for row in rows]


def describe_unstable(
    model: AttentionModel, step: Step, corpora: Sequence[Samples], tables: Sequence[Float64]
) -> str:
    """A sentence on trials whose plain gradient steps are above the stability limit, or an empty string."""
    # The limit is known for log-loss, a readout of the attention mass on the label, and W without factors.
    if not isinstance(step, GradientDescent) or not isinstance(model.loss, LogLoss):
        return ""
    is_plain = not step.normalized and not step.momentum and step.schedule is None
    if not is_plain or not reads_mass(model.head) or model.rank is not None:
        return ""
    try:
        passed = list(find_passed(corpora, tables, step.step_size))
    except (UncertifiedSolution, UnsupportedOption):  # too large, or not certified
        return ""
    if not passed:
        return ""
    trial, edge = min(passed, key=lambda pair: pair[1].largest)
    count = f" (trial {trial}; {len(passed)} of {len(corpora)} trials are beyond their edge)"
    return f"{edge}{count if len(corpora) > 1 else ''}; choose a step size below {edge.largest:.6g}"
