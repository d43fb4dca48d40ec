"""Choice models: Bradley–Terry, Plackett–Luce and conditional logit on any data, even if scores diverge."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.choices.fit import fit_choices as fit_choices
    from attomaton.choices.given import Columns as Columns
    from attomaton.choices.order import Comparison as Comparison, OrderedItems as OrderedItems
    from attomaton.choices.rankings import unroll_rankings as unroll_rankings
    from attomaton.choices.result import ChoiceFit as ChoiceFit
    from attomaton.choices.standings import Standings as Standings
    from attomaton.choices.uncertainty import ScoreDifference as ScoreDifference
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
