"""Solve the Graph-SVM in every norm (hard) and the Luce model (soft), each with a certificate."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.solvers.hard.joint import Joint as Joint
    from attomaton.solvers.hard.placement import Placement as Placement
    from attomaton.solvers.hard.reference import Clarabel as Clarabel
    from attomaton.solvers.hard.solve import (
        HardSolution as HardSolution,
        Kind as Kind,
        solve_graph_svm as solve_graph_svm,
    )
    from attomaton.solvers.norms.interior import (
        InteriorPoint as InteriorPoint,
        SpectralInterior as SpectralInterior,
    )
    from attomaton.solvers.norms.solve import (
        FactoredSolution as FactoredSolution,
        NormedSolution as NormedSolution,
        solve_factored as solve_factored,
        solve_normed as solve_normed,
    )
    from attomaton.solvers.soft.newton import Newton as Newton
    from attomaton.solvers.soft.solve import SoftSolution as SoftSolution, solve_luce as solve_luce
    from attomaton.solvers.solved import solve_edges as solve_edges
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
