"""attomaton: what gradient descent makes of a self-attention layer, computed from token sequences alone.

The path of the data::

    Document → Samples → EdgeTable → Components → HardSolution, SoftSolution → Automaton, Expansion

:func:`learn` walks it in one call.
"""

from attomaton.base import startup as _startup  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Startup comes before any other module is looked for.
# isort: split
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from attomaton.base.errors import needing

if TYPE_CHECKING:
    from attomaton.automaton.automaton import Automaton as Automaton
    from attomaton.automaton.estimator import AttentionLimit as AttentionLimit
    from attomaton.automaton.explanation import Explanation as Explanation
    from attomaton.automaton.explanation import Rule as Rule
    from attomaton.automaton.learn import diff as diff
    from attomaton.automaton.learn import learn as learn
    from attomaton.automaton.repetition.winners import winners as winners
    from attomaton.automaton.runs.coverage import Coverage as Coverage
    from attomaton.automaton.shrinkage import shrink as shrink
    from attomaton.base.errors import AttomatonError as AttomatonError
    from attomaton.base.solutions import Status as Status
    from attomaton.choices.fit import fit_choices as fit_choices
    from attomaton.choices.result import ChoiceFit as ChoiceFit
    from attomaton.claims.mechanics import verify as verify
    from attomaton.corpora import synthetic as synthetic
    from attomaton.corpora.readers import read_corpus as read_corpus
    from attomaton.corpora.readers.tokenize import tokenize_corpus as tokenize_corpus
    from attomaton.corpora.samples import Sample as Sample
    from attomaton.corpora.samples import Samples as Samples
    from attomaton.corpora.tokenizers import Vocabulary as Vocabulary
    from attomaton.graphs.choices import ChoiceTable as ChoiceTable
    from attomaton.graphs.choices import extract_choices as extract_choices
    from attomaton.graphs.components import Components as Components
    from attomaton.graphs.components import find_components as find_components
    from attomaton.graphs.edges import EdgeTable as EdgeTable
    from attomaton.graphs.edges import extract_edges as extract_edges
    from attomaton.solvers.hard.solve import HardSolution as HardSolution
    from attomaton.solvers.hard.solve import solve_graph_svm as solve_graph_svm
    from attomaton.solvers.soft.solve import SoftSolution as SoftSolution
    from attomaton.solvers.soft.solve import solve_luce as solve_luce
    from attomaton.theories.beginning.begin import begin as begin
    from attomaton.theories.beginning.result import Beginning as Beginning
    from attomaton.theories.decoder.learn import learn_decoder as learn_decoder
    from attomaton.training.deep import train_deep as train_deep
    from attomaton.training.loop import Watch as Watch
    from attomaton.training.loop import train as train
    from attomaton.training.models.attention import AttentionModel as AttentionModel
    from attomaton.training.models.deep import DeepModel as DeepModel
    from attomaton.training.steps import GradientDescent as GradientDescent
    from attomaton.trajectory.expansion import expand as expand
    from attomaton.trajectory.fast_forward import fast_forward as fast_forward

__version__ = "0.1.0"

_HOMES = {
    "AttentionLimit": "automaton.estimator",
    "AttentionModel": "training.models.attention",
    "AttomatonError": "base.errors",
    "Automaton": "automaton.automaton",
    "Beginning": "theories.beginning.result",
    "ChoiceFit": "choices.result",
    "ChoiceTable": "graphs.choices",
    "Components": "graphs.components",
    "Coverage": "automaton.runs.coverage",
    "DeepModel": "training.models.deep",
    "EdgeTable": "graphs.edges",
    "Explanation": "automaton.explanation",
    "GradientDescent": "training.steps",
    "HardSolution": "solvers.hard.solve",
    "Rule": "automaton.explanation",
    "Sample": "corpora.samples",
    "Samples": "corpora.samples",
    "SoftSolution": "solvers.soft.solve",
    "Status": "base.solutions",
    "Vocabulary": "corpora.tokenizers",
    "Watch": "training.loop",
    "begin": "theories.beginning.begin",
    "diff": "automaton.learn",
    "expand": "trajectory.expansion",
    "extract_choices": "graphs.choices",
    "extract_edges": "graphs.edges",
    "fast_forward": "trajectory.fast_forward",
    "find_components": "graphs.components",
    "fit_choices": "choices.fit",
    "learn": "automaton.learn",
    "learn_decoder": "theories.decoder.learn",
    "read_corpus": "corpora.readers",
    "shrink": "automaton.shrinkage",
    "solve_graph_svm": "solvers.hard.solve",
    "solve_luce": "solvers.soft.solve",
    "synthetic": "corpora.synthetic",
    "tokenize_corpus": "corpora.readers.tokenize",
    "train": "training.loop",
    "train_deep": "training.deep",
    "verify": "claims.mechanics",
    "winners": "automaton.repetition.winners",
}
"""Public names and where they stand: they are loaded when asked for, with what they need."""

_NEEDING = {
    "AttentionLimit": "sklearn",
    **dict.fromkeys(
        ["AttentionModel", "DeepModel", "GradientDescent", "Watch", "train", "train_deep", "verify"], "torch"
    ),
}
"""Names that need a package of an extra; a plain install can still ``from attomaton import *``."""

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    name
    for name in _HOMES
    if name != "Explanation" and (name not in _NEEDING or find_spec(_NEEDING[name]) is not None)
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None and ("." in name or find_spec(f"attomaton.{name}") is None):
        raise AttributeError(f"module 'attomaton' has no attribute {name!r}")
    with needing(name):
        module = import_module(f"attomaton.{home or name}")
    value = globals()[name] = getattr(module, name, module) if home else module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
