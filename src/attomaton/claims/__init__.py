"""Test training runs against the claims of theorems, and measure the runs."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.claims.agreement import (
        begin_from as begin_from,
        compare_beginning as compare_beginning,
        compare_course as compare_course,
    )
    from attomaton.claims.beginning import verify_beginning as verify_beginning
    from attomaton.claims.components import count_components as count_components
    from attomaton.claims.diagnosis import diagnose as diagnose
    from attomaton.claims.ends import compare_ends as compare_ends
    from attomaton.claims.limits import solve_trials as solve_trials
    from attomaton.claims.local import solve_local as solve_local
    from attomaton.claims.margins import measure_margins as measure_margins, own_norm as own_norm
    from attomaton.claims.measures import measure_trace as measure_trace
    from attomaton.claims.mechanics import verify as verify
    from attomaton.claims.scansnap import judge_rates as judge_rates, verify_flow as verify_flow
    from attomaton.claims.verdicts import Verdict as Verdict, VerdictStatus as VerdictStatus
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
