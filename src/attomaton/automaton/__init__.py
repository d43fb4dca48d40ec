"""Predictions for a context: the automaton of the limit, and attention with finite scores."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.automaton.automaton import Automaton as Automaton
    from attomaton.automaton.compare import Change as Change, diff as diff
    from attomaton.automaton.estimator import AttentionLimit as AttentionLimit
    from attomaton.automaton.explanation import Explanation as Explanation, Rule as Rule
    from attomaton.automaton.learning import learn as learn
    from attomaton.automaton.ov_maps.learning import learn_writing as learn_writing
    from attomaton.automaton.ov_maps.load import load_attention as load_attention
    from attomaton.automaton.repetition.counts import draw_counts as draw_counts
    from attomaton.automaton.repetition.loops import find_loops as find_loops
    from attomaton.automaton.repetition.winners import Winners as Winners, winners as winners
    from attomaton.automaton.rules import RULES as RULES, answer_bags as answer_bags
    from attomaton.automaton.shrinkage import shrink as shrink
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
