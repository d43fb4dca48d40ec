"""Theorems as claims with their assumptions, and measurements of a training run to judge them."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.claims.beginning import (
        Agreement as Agreement,
        Near as Near,
        begin_from as begin_from,
        compare_beginning as compare_beginning,
        compare_course as compare_course,
        find_crossings as find_crossings,
        judge_course as judge_course,
        verify_beginning as verify_beginning,
    )
    from attomaton.claims.diagnosis import diagnose as diagnose
    from attomaton.claims.ends import Ends as Ends, compare_ends as compare_ends
    from attomaton.claims.evidence import Evidence as Evidence
    from attomaton.claims.local import LocalSolutions as LocalSolutions, solve_local as solve_local
    from attomaton.claims.margins import (
        MARGIN_CLAIMS as MARGIN_CLAIMS,
        NORMS as NORMS,
        OWN as OWN,
        Margins as Margins,
        Norm as Norm,
        measure_margins as measure_margins,
        own_norm as own_norm,
    )
    from attomaton.claims.measures import (
        Curves as Curves,
        Target as Target,
        TrialContexts as TrialContexts,
        aim_at as aim_at,
        dense as dense,
        measure_against as measure_against,
        measure_trace as measure_trace,
        read_contexts as read_contexts,
        solve_trials as solve_trials,
    )
    from attomaton.claims.mechanics import (
        expand_trial as expand_trial,
        find_levels as find_levels,
        predict_trace as predict_trace,
        verify as verify,
    )
    from attomaton.claims.scansnap import verify_flow as verify_flow
    from attomaton.claims.verdicts import (
        Judgement as Judgement,
        Verdict as Verdict,
        Verdicts as Verdicts,
        VerdictStatus as VerdictStatus,
        as_record as as_record,
    )
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
