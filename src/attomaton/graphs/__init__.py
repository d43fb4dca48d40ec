"""Token-priority graphs of samples: edges, components, their order, and the choices inside them."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.graphs.bags import (
        Bags as Bags,
        count_all_tokens as count_all_tokens,
        count_tokens as count_tokens,
        find_realisable as find_realisable,
    )
    from attomaton.graphs.choices import ChoiceTable as ChoiceTable, extract_choices as extract_choices
    from attomaton.graphs.components import Components as Components, find_components as find_components
    from attomaton.graphs.edges import EdgeTable as EdgeTable, extract_edges as extract_edges
    from attomaton.graphs.paths import Edge as Edge, QueryGraph as QueryGraph
    from attomaton.graphs.robustness import (
        Grouped as Grouped,
        Robustness as Robustness,
        measure_robustness as measure_robustness,
    )
    from attomaton.graphs.separation import Separation as Separation, separate as separate
    from attomaton.graphs.writing import (
        Reach as Reach,
        find_successors as find_successors,
        measure_reach as measure_reach,
        replace_labels as replace_labels,
    )
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
