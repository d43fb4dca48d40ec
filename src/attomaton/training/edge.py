"""A warning, before a run starts, that its step size is too large."""

from collections.abc import Sequence

from attomaton.base.errors import UncertifiedSolution, UnsupportedOption
from attomaton.base.tables import Float64
from attomaton.corpora.samples import Samples
from attomaton.training.models.attention import AttentionModel
from attomaton.training.models.heads import Tied, TokenId
from attomaton.training.models.losses import LogLoss
from attomaton.training.steps import GradientDescent, Step
from attomaton.trajectory.stability import find_passed


def describe_unstable(
    model: AttentionModel, step: Step, corpora: Sequence[Samples], tables: Sequence[Float64]
) -> str:
    """Which trials take plain steps beyond the edge of stability, in a sentence; empty if none is known to.

    The edge is known for log-loss, a head that reads the attention mass on the label, and W trained itself.
    """
    if not isinstance(step, GradientDescent) or step.normalized or step.momentum or step.schedule is not None:
        return ""
    mass_head = isinstance(model.head, TokenId | Tied)
    if not isinstance(model.loss, LogLoss) or not mass_head or model.rank is not None:
        return ""
    try:
        passed = list(find_passed(corpora, tables, step.step_size))
    except (UncertifiedSolution, UnsupportedOption):  # too large to tell, or no certain answer
        return ""
    if not passed:
        return ""
    trial, edge = min(passed, key=lambda one: one[1].largest)
    most = f" in {len(passed)} of {len(corpora)} trials (the lowest edge is that of trial {trial})"
    return f"{edge}{most if len(corpora) > 1 else ''}; take a step size below {edge.largest:.6g}"
