"""Predictions for a context: the automaton of the limit, and attention with finite scores."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.automaton.attention import Attention as Attention
    from attomaton.automaton.automaton import Automaton as Automaton
    from attomaton.automaton.compare import Change as Change, Difference as Difference, diff as diff
    from attomaton.automaton.estimator import AttentionLimit as AttentionLimit
    from attomaton.automaton.explanation import (
        Beaten as Beaten,
        ContextView as ContextView,
        Explanation as Explanation,
        Rule as Rule,
    )
    from attomaton.automaton.finite import FiniteAttention as FiniteAttention
    from attomaton.automaton.generation import Generation as Generation
    from attomaton.automaton.learning import learn as learn
    from attomaton.automaton.ov_maps.automaton import (
        WritingAutomaton as WritingAutomaton,
        WritingCoverage as WritingCoverage,
        WritingExplanation as WritingExplanation,
    )
    from attomaton.automaton.ov_maps.learning import learn_writing as learn_writing
    from attomaton.automaton.ov_maps.load import load_attention as load_attention
    from attomaton.automaton.ov_maps.maps import Writing as Writing, find_writing as find_writing
    from attomaton.automaton.ov_maps.settle import Settling as Settling
    from attomaton.automaton.prediction import BatchPrediction as BatchPrediction
    from attomaton.automaton.repetition.limits import Limit as Limit
    from attomaton.automaton.repetition.loops import Loops as Loops, find_loops as find_loops
    from attomaton.automaton.repetition.odds import (
        Odds as Odds,
        TextCounts as TextCounts,
        draw_counts as draw_counts,
    )
    from attomaton.automaton.repetition.winners import Winners as Winners, winners as winners
    from attomaton.automaton.rules import RULES as RULES, answer_bags as answer_bags, find_rules as find_rules
    from attomaton.automaton.runs.coverage import Coverage as Coverage, LargeComponent as LargeComponent
    from attomaton.automaton.runs.nodes import Known as Known, Outline as Outline
    from attomaton.automaton.scoring import (
        Score as Score,
        fit_epsilon as fit_epsilon,
        mix_uniform as mix_uniform,
        score_prediction as score_prediction,
        uniform_probabilities as uniform_probabilities,
    )
    from attomaton.automaton.shrinkage import (
        Tuning as Tuning,
        choose_strength as choose_strength,
        shrink as shrink,
    )
    from attomaton.corpora.prompts import Names as Names
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
