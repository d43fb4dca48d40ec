"""Related theories: the beginning of training, the decoder, Scan and Snap."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.theories.beginning.begin import begin as begin
    from attomaton.theories.beginning.course import follow_course as follow_course
    from attomaton.theories.beginning.result import Beginning as Beginning
    from attomaton.theories.decoder.features import solve_decoder as solve_decoder
    from attomaton.theories.decoder.learn import learn_decoder as learn_decoder
    from attomaton.theories.decoder.result import DecoderLimit as DecoderLimit
    from attomaton.theories.decoder.supports import count_supports as count_supports
    from attomaton.theories.scansnap.classes import (
        CorpusClasses as CorpusClasses,
        draw_linear_classes as draw_linear_classes,
    )
    from attomaton.theories.scansnap.flow import solve_flow as solve_flow
    from attomaton.theories.scansnap.forecast import forecast_queries as forecast_queries
    from attomaton.theories.scansnap.heads import (
        LearnedHead as LearnedHead,
        MassHead as MassHead,
        TiedHead as TiedHead,
        decode_attention as decode_attention,
    )
    from attomaton.theories.scansnap.law import Rates as Rates, SnapLaw as SnapLaw
    from attomaton.theories.scansnap.survey import survey_samples as survey_samples
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
