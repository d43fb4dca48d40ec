"""Build token-priority graphs from samples: edges, components, their order, and choices inside them."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.graphs.bags import count_tokens as count_tokens
    from attomaton.graphs.choices import ChoiceTable as ChoiceTable, extract_choices as extract_choices
    from attomaton.graphs.components import Components as Components, find_components as find_components
    from attomaton.graphs.edges import EdgeTable as EdgeTable, extract_edges as extract_edges
    from attomaton.graphs.robustness import measure_robustness as measure_robustness
    from attomaton.graphs.separation import separate as separate
    from attomaton.graphs.writing import find_successors as find_successors, measure_reach as measure_reach
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
