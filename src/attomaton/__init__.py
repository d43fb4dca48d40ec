"""attomaton: what gradient descent makes of a self-attention layer, computed from token sequences alone.

The path of the data::

    Document → Samples → EdgeTable → Components → HardSolution, SoftSolution → Automaton, Expansion

:func:`learn` walks it in one call.
"""

# The first line of base takes the working directory off the path of `python -m attomaton`.
import attomaton.base as _base  # noqa: F401  # pyright: ignore[reportUnusedImport]

# isort: split
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING

from attomaton.base.doors import open_door as _open_door

__version__ = "0.1.0"

if TYPE_CHECKING:
    from attomaton.automaton import (
        AttentionLimit as AttentionLimit,
        Automaton as Automaton,
        Winners as Winners,
        diff as diff,
        learn as learn,
        shrink as shrink,
        winners as winners,
    )
    from attomaton.base import AttomatonError as AttomatonError, errors as errors
    from attomaton.choices import (
        ChoiceFit as ChoiceFit,
        check_separation as check_separation,
        fit_choices as fit_choices,
    )
    from attomaton.claims import verify as verify
    from attomaton.corpora import (
        Reading as Reading,
        Samples as Samples,
        Vocabulary as Vocabulary,
        read_corpus as read_corpus,
        synthetic as synthetic,
        tokenize_corpus as tokenize_corpus,
    )
    from attomaton.engines import Engine as Engine, Selection as Selection
    from attomaton.graphs import (
        ChoiceTable as ChoiceTable,
        Components as Components,
        EdgeTable as EdgeTable,
        extract_choices as extract_choices,
        extract_edges as extract_edges,
        find_components as find_components,
    )
    from attomaton.heads import HeadAudit as HeadAudit, audit_heads as audit_heads, open_model as open_model
    from attomaton.solvers import (
        HardSolution as HardSolution,
        SoftSolution as SoftSolution,
        solve_graph_svm as solve_graph_svm,
        solve_luce as solve_luce,
    )
    from attomaton.theories import (
        Beginning as Beginning,
        DecoderLimit as DecoderLimit,
        begin as begin,
        learn_decoder as learn_decoder,
    )
    from attomaton.training import (
        AttentionModel as AttentionModel,
        DeepModel as DeepModel,
        GradientDescent as GradientDescent,
        train as train,
        train_deep as train_deep,
    )
    from attomaton.trajectory import expand as expand, fast_forward as fast_forward
else:
    __getattr__, __dir__, _public = _open_door(__name__)
    _torch = ["AttentionModel", "DeepModel", "GradientDescent", "HeadAudit", "audit_heads", "open_model"]
    _torch += ["train", "train_deep", "verify"]
    _missing = [*_torch] if _find_spec("torch") is None else []
    _missing += ["AttentionLimit"] if _find_spec("sklearn") is None else []
    __all__ = [name for name in _public if name not in _missing]  # a plain install can import all it has
