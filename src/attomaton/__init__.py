"""attomaton: what gradient descent makes of a self-attention layer, computed from token sequences alone.

The path of the data::

    Document → Samples → EdgeTable → Components → HardSolution, SoftSolution → Automaton, Expansion

:func:`learn` walks it in one call.
"""

from attomaton import startup as _startup  # noqa: F401  # pyright: ignore[reportUnusedImport]

# Startup comes before any other module is looked for.
# isort: split
from typing import TYPE_CHECKING, Any

from attomaton.corpora import synthetic
from attomaton.corpora.readers import read_corpus
from attomaton.corpora.samples import Sample, Samples
from attomaton.corpora.tokenize import tokenize_corpus
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import AttomatonError, needing_torch
from attomaton.graphs.choices import ChoiceTable, extract_choices
from attomaton.graphs.components import Components, find_components
from attomaton.graphs.edges import EdgeTable, extract_edges
from attomaton.hard.solve import HardSolution, solve_graph_svm
from attomaton.limit.automaton import Automaton
from attomaton.limit.choices import fit_choices
from attomaton.limit.compare import diff
from attomaton.limit.coverage import Coverage
from attomaton.limit.expansion import expand
from attomaton.limit.explanation import Explanation, Rule
from attomaton.limit.fast_forward import fast_forward
from attomaton.limit.shrinkage import shrink
from attomaton.pipeline import learn
from attomaton.soft.solve import SoftSolution, solve_luce
from attomaton.solutions import Status

if TYPE_CHECKING:
    from attomaton.verify.claims import verify
else:
    from attomaton import verify

__version__ = "0.1.0"

__all__ = [
    "AttomatonError",
    "Automaton",
    "ChoiceTable",
    "Components",
    "Coverage",
    "EdgeTable",
    "Explanation",
    "HardSolution",
    "Rule",
    "Sample",
    "Samples",
    "SoftSolution",
    "Status",
    "Vocabulary",
    "diff",
    "expand",
    "extract_choices",
    "extract_edges",
    "fast_forward",
    "find_components",
    "fit_choices",
    "learn",
    "read_corpus",
    "shrink",
    "solve_graph_svm",
    "solve_luce",
    "synthetic",
    "tokenize_corpus",
    "verify",
]


_LAZY = {
    "AttentionLimit": "attomaton.limit.estimator",
    "AttentionModel": "attomaton.models.attention",
    "GradientDescent": "attomaton.training.steps",
    "train": "attomaton.training.loop",
}
"""Names that need scikit-learn or PyTorch (the extras ``sklearn`` and ``train``), loaded when asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'attomaton' has no attribute {name!r}")
    from importlib import import_module

    with needing_torch(name):
        return getattr(import_module(_LAZY[name]), name)
