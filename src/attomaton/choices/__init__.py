"""Choice models: Bradley–Terry, Plackett–Luce and conditional logit on any data, even if scores diverge."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.choices.arena import simulate_arena as simulate_arena
    from attomaton.choices.board import Board as Board
    from attomaton.choices.coefficients import SeparationCheck as SeparationCheck
    from attomaton.choices.estimator import LogisticRegression as LogisticRegression
    from attomaton.choices.fit import fit_choices as fit_choices
    from attomaton.choices.judges import compare_judges as compare_judges
    from attomaton.choices.logit.builders import (
        binary_logit as binary_logit,
        long_table as long_table,
        multinomial_logit as multinomial_logit,
    )
    from attomaton.choices.logit.contrasts import Contrast as Contrast, ContrastKind as ContrastKind
    from attomaton.choices.logit.fit import LogitFit as LogitFit, fit_logit as fit_logit
    from attomaton.choices.logit.problem import ChoiceProblem as ChoiceProblem
    from attomaton.choices.result import ChoiceFit as ChoiceFit
    from attomaton.choices.separation import check_separation as check_separation
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
