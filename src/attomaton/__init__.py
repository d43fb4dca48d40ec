"""attomaton: what gradient descent makes of a self-attention layer, computed from token sequences alone.

The path of the data::

    Document → Samples → EdgeTable → Components → HardSolution, SoftSolution → Automaton, Expansion

:func:`learn` walks it in one call.
"""

from attomaton import startup as _startup  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Startup comes before any other module is looked for.
# isort: split
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from attomaton.automaton.automaton import Automaton
from attomaton.automaton.explanation import Explanation as Explanation
from attomaton.automaton.explanation import Rule
from attomaton.automaton.shrinkage import shrink
from attomaton.choices.fit import fit_choices
from attomaton.choices.result import ChoiceFit
from attomaton.corpora import synthetic
from attomaton.corpora.samples import Sample, Samples
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import AttomatonError, needing
from attomaton.graphs.choices import ChoiceTable, extract_choices
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EdgeTable, extract_edges
from attomaton.hard.solve import HardSolution, solve_graph_svm
from attomaton.pipeline import diff, learn
from attomaton.readers import read_corpus
from attomaton.readers.tokenize import tokenize_corpus
from attomaton.runs.coverage import Coverage
from attomaton.soft.solve import SoftSolution, solve_luce
from attomaton.solutions import Status
from attomaton.trajectory.expansion import expand
from attomaton.trajectory.fast_forward import fast_forward

if TYPE_CHECKING:
    from attomaton.automaton.estimator import AttentionLimit
    from attomaton.beginning.begin import begin
    from attomaton.beginning.result import Beginning
    from attomaton.claims.mechanics import verify
    from attomaton.decoder.learn import learn_decoder
    from attomaton.generation.winners import winners
    from attomaton.models.attention import AttentionModel
    from attomaton.models.deep import DeepModel
    from attomaton.training.deep import train_deep
    from attomaton.training.loop import Watch, train
    from attomaton.training.steps import GradientDescent

__version__ = "0.1.0"

__all__ = [
    "AttentionLimit",
    "AttentionModel",
    "AttomatonError",
    "Automaton",
    "Beginning",
    "ChoiceFit",
    "ChoiceTable",
    "Components",
    "Coverage",
    "DeepModel",
    "EdgeTable",
    "GradientDescent",
    "HardSolution",
    "Rule",
    "Sample",
    "Samples",
    "SoftSolution",
    "Status",
    "Vocabulary",
    "Watch",
    "begin",
    "diff",
    "expand",
    "extract_choices",
    "extract_edges",
    "fast_forward",
    "find_components",
    "fit_choices",
    "learn",
    "learn_decoder",
    "read_corpus",
    "shrink",
    "solve_graph_svm",
    "solve_luce",
    "synthetic",
    "tokenize_corpus",
    "train",
    "train_deep",
    "verify",
    "winners",
]


_LAZY = {
    "AttentionLimit": "attomaton.automaton.estimator",
    "AttentionModel": "attomaton.models.attention",
    "DeepModel": "attomaton.models.deep",
    "GradientDescent": "attomaton.training.steps",
    "Watch": "attomaton.training.loop",
    "train": "attomaton.training.loop",
    "train_deep": "attomaton.training.deep",
    "verify": "attomaton.claims.mechanics",
}
"""Names that need scikit-learn or PyTorch (the extras ``sklearn`` and ``train``), loaded when asked for."""

_LATER = {
    "Beginning": "attomaton.beginning.result",
    "begin": "attomaton.beginning.begin",
    "learn_decoder": "attomaton.decoder.learn",
    "winners": "attomaton.generation.winners",
}
"""Names that need nothing more and are loaded when asked for, so that all others come sooner."""

for _name in _LAZY:  # so that a plain install can still ``from attomaton import *``
    if find_spec("sklearn" if _name == "AttentionLimit" else "torch") is None:
        __all__.remove(_name)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name) or _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'attomaton' has no attribute {name!r}")
    from importlib import import_module

    with needing(name):
        return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LATER})
