"""A prior that joins components: every score is normal about 0, so that all gaps are finite.

What then stands between components is the prior's word and not the data's; a fit says so.
"""

import numpy as np

from attomaton.base.options import real_number
from attomaton.graphs.components import Components, merge_components

NARROWEST, WIDEST = 1e-3, 1e3
"""Standard deviations that a prior may have: odds of two items are e to about that."""


def check_prior(prior: float | None) -> float | None:
    """The standard deviation of the prior, if it can be one."""
    if prior is None:
        return None
    return real_number(prior, "prior, the standard deviation of a score,", least=NARROWEST, most=WIDEST)


def join_components(graph: Components) -> Components:
    """All items as one component, above the query, which is the last node and no item."""
    if len(graph) < 3:
        return graph
    groups = np.zeros(len(graph), np.int64)
    groups[graph.component_of_node[-1]] = 1
    return merge_components(graph, groups)
