"""Choice models: Bradley–Terry, Plackett–Luce and conditional logit on any data, even if scores diverge."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.choices.arena import simulate_arena as simulate_arena
    from attomaton.choices.assessment import (
        AssessedItems as AssessedItems,
        LikelihoodRatio as LikelihoodRatio,
        Outcomes as Outcomes,
    )
    from attomaton.choices.board import Board as Board, NextComparison as NextComparison, Ratings as Ratings
    from attomaton.choices.checks import GoodnessOfFit as GoodnessOfFit, Intransitivity as Intransitivity
    from attomaton.choices.coefficients import SeparationCheck as SeparationCheck
    from attomaton.choices.estimator import LogisticRegression as LogisticRegression
    from attomaton.choices.fit import fit_choices as fit_choices
    from attomaton.choices.gaps import Gaps as Gaps
    from attomaton.choices.given import Columns as Columns
    from attomaton.choices.logit.builders import (
        binary_logit as binary_logit,
        long_table as long_table,
        multinomial_logit as multinomial_logit,
    )
    from attomaton.choices.logit.centring import Centring as Centring
    from attomaton.choices.logit.certificate import (
        LogitCertificate as LogitCertificate,
        LogitEvidence as LogitEvidence,
        LogitState as LogitState,
    )
    from attomaton.choices.logit.contrasts import Contrast as Contrast, ContrastKind as ContrastKind
    from attomaton.choices.logit.direction import HardDirection as HardDirection
    from attomaton.choices.logit.firth import FirthContrast as FirthContrast, FirthFit as FirthFit
    from attomaton.choices.logit.fit import LogitFit as LogitFit, fit_logit as fit_logit
    from attomaton.choices.logit.problem import ChoiceProblem as ChoiceProblem
    from attomaton.choices.logit.rows import ChoiceRows as ChoiceRows, Situations as Situations
    from attomaton.choices.logit.spans import Span as Span
    from attomaton.choices.logit.summary import LogitSummary as LogitSummary
    from attomaton.choices.order import Comparison as Comparison, OrderedItems as OrderedItems
    from attomaton.choices.rankings import unroll_rankings as unroll_rankings
    from attomaton.choices.result import ChoiceFit as ChoiceFit
    from attomaton.choices.separation import check_separation as check_separation
    from attomaton.choices.uncertainty import BoardErrors as BoardErrors, ScoreDifference as ScoreDifference
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
