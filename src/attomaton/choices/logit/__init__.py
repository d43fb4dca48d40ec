"""Conditional logit with features: every contrast finite, infinite, undecided or not identified, with proof.

``problem`` has the data, and ``fit`` the path from them to the answer. Its steps are ``newton``, ``face``,
``spans``, ``cone`` and ``bounds``; ``certificate`` and ``exact`` prove it.
"""

from attomaton.choices.logit.certificate import LogitState as LogitState
from attomaton.choices.logit.contrasts import ContrastKind as ContrastKind
from attomaton.choices.logit.fit import fit_logit as fit_logit
from attomaton.choices.logit.problem import ChoiceProblem as ChoiceProblem
