"""Score predictions on held-out labels: log-loss and top-1 accuracy over realisable samples.

A label that is not in its context has probability 0 under any attention, so such samples are left out.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.automaton.prediction import BatchPrediction
from attomaton.base.errors import InvalidSamples
from attomaton.base.frames import Tabular
from attomaton.base.options import real_number, whole_number
from attomaton.base.printing import PRINTED_ROWS, Block, Grid
from attomaton.base.ragged import largest_of, occurs
from attomaton.base.tables import Float64, table_of
from attomaton.graphs.bags import Bags

# Probabilities whose ratio is within this of 1 count as equal: solvers resolve ties only so far.
PROBABILITY_TIE = 1e-9


@dataclass(frozen=True)
class Score(Tabular):
    """The scores of predictions on the labels of ``n_samples`` realisable samples.

    ``log_loss`` is the mean of −ln p(label) in nats, which is infinite if some label has probability 0;
    ``zero_share`` is the share of such labels. ``top1`` is the share of samples whose label is the most
    probable token; in a tie of n tokens a sample counts 1/n. ``unseen`` is the share of contexts with some
    token without evidence, and ``no_evidence`` the share of contexts with only such tokens. ``unknown`` are
    the words outside the vocabulary, in order of first appearance.
    """

    n_samples: int
    log_loss: float
    top1: float
    zero_share: float
    unseen: float
    no_evidence: float
    unknown: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def _blocks(self) -> list[Block]:
        rows = [
            ("realisable samples", f"{self.n_samples:,}"),
            ("log-loss, nats", f"{self.log_loss:.4f}"),
            ("label is the most probable token", f"{self.top1:.1%}"),
            ("labels with probability 0", f"{self.zero_share:.1%}"),
            ("contexts with a token without evidence", f"{self.unseen:.1%}"),
            ("contexts without any evidence", f"{self.no_evidence:.1%}"),
        ]
        blocks: list[Block] = [Grid("Score", ["", ""], rows)]
        if self.log_loss == float("inf"):
            blocks.append(
                "The log-loss is infinite because some labels have probability 0. Mix in uniform attention "
                "(epsilon), or use finite scores (step or shrink)."
            )
        return [*blocks, *describe_unknown(self.unknown)]

    def _table(self) -> pa.Table:
        return table_of({name: [value] for name, value in self.to_dict().items() if name != "unknown"})

    def to_dict(self) -> dict[str, Any]:
        """The scores as plain values."""
        return asdict(self)


def describe_unknown(unknown: Sequence[str]) -> list[str]:
    # a sentence that lists the first words, or nothing
    shown = " ".join(unknown[:PRINTED_ROWS])
    n_more = len(unknown) - PRINTED_ROWS
    more = f" and {n_more:,} more" if n_more > 0 else ""
    return [f"Words outside the vocabulary: {shown}{more}"] if unknown else []


def score_prediction(prediction: BatchPrediction) -> Score:
    """Score the predictions of samples, each of which must have its label in its context."""
    _check_samples(prediction)
    n_samples = prediction.n_samples
    sample = prediction.bags.sample  # of each entry
    probabilities = prediction.of_labels()
    # In each sample, tokens with at least this probability tie for the most probable one.
    least = (1 - PROBABILITY_TIE) * largest_of(sample, prediction.probabilities, n_samples)
    ties = np.bincount(sample[prediction.probabilities >= least[sample]], minlength=n_samples)
    hits = np.where(probabilities >= least, 1 / ties, 0.0)
    unseen = occurs(sample[~prediction.is_node], n_samples)
    with np.errstate(divide="ignore"):  # probability 0 has the loss infinity
        losses = -np.log(probabilities)
    return Score(
        n_samples=n_samples,
        log_loss=float(losses.mean()),
        top1=float(hits.mean()),
        zero_share=float((probabilities == 0).mean()),
        unseen=float(unseen.mean()),
        no_evidence=float(prediction.no_evidence.mean()),
    )


def mix_uniform(prediction: BatchPrediction, epsilon: float) -> BatchPrediction:
    """(1 − ε) · prediction + ε · uniform over the positions of the context: our addition to the theory."""
    epsilon = real_number(epsilon, "epsilon", least=0, most=1)
    uniform = uniform_probabilities(prediction.bags)
    return replace(prediction, probabilities=(1.0 - epsilon) * prediction.probabilities + epsilon * uniform)


def fit_epsilon(prediction: BatchPrediction, *, n_halvings: int = 60) -> float:
    """The ε between 0 and 1 at which :func:`mix_uniform` has the smallest log-loss, by bisection."""
    n_halvings = whole_number(n_halvings, "n_halvings", least=1, most=1_000)
    _check_samples(prediction)
    bags = prediction.bags
    probabilities = prediction.of_labels()
    is_label = bags.token == bags.samples.labels[bags.sample]
    uniform = uniform_probabilities(bags)[is_label]
    low, high = 0.0, 1.0
    for _ in range(n_halvings):
        middle = (low + high) / 2
        # d/dε Σ −ln((1 − ε) p + ε u), which rises with ε: the log-loss is convex
        slope = float(np.sum((probabilities - uniform) / ((1 - middle) * probabilities + middle * uniform)))
        low, high = (low, middle) if slope > 0 else (middle, high)
    return (low + high) / 2


def uniform_probabilities(bags: Bags) -> Float64:
    """The probabilities m_j / T of uniform attention over the T positions of a context."""
    return bags.multiplicity / bags.samples.lengths[bags.sample]


def _check_samples(prediction: BatchPrediction) -> None:
    # refuse samples whose label is not in their context
    bags = prediction.bags
    realisable = len(np.unique(bags.sample[bags.token == bags.samples.labels[bags.sample]]))
    if not realisable:
        raise InvalidSamples(
            "no sample has its label in its context, so attention cannot predict any label; use a longer "
            "window, or another text"
        )
    if realisable < prediction.n_samples:
        raise InvalidSamples(
            f"the labels of {prediction.n_samples - realisable} of {prediction.n_samples} samples are not in "
            "their contexts; leave these samples out, as attomaton.graphs.bags.count_tokens does"
        )
