"""Related theories: the beginning of training, the decoder, Scan and Snap."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.theories.beginning.begin import begin as begin
    from attomaton.theories.beginning.course import (
        CourseWeights as CourseWeights,
        ForecastCourse as ForecastCourse,
        follow_course as follow_course,
    )
    from attomaton.theories.beginning.result import (
        Beginning as Beginning,
        EarlyWeights as EarlyWeights,
        FirstLooks as FirstLooks,
        Lags as Lags,
    )
    from attomaton.theories.beginning.statistics import Statistics as Statistics
    from attomaton.theories.beginning.theorem import (
        Coefficients as Coefficients,
        Setting as Setting,
        TheoremBounds as TheoremBounds,
    )
    from attomaton.theories.decoder.course import (
        Levels as Levels,
        Moment as Moment,
        StoppedDecoder as StoppedDecoder,
    )
    from attomaton.theories.decoder.features import (
        Compatibility as Compatibility,
        EmbeddedLimit as EmbeddedLimit,
        SolvedDecoder as SolvedDecoder,
        solve_decoder as solve_decoder,
    )
    from attomaton.theories.decoder.learn import (
        DecoderOptions as DecoderOptions,
        learn_decoder as learn_decoder,
    )
    from attomaton.theories.decoder.result import DecoderLimit as DecoderLimit
    from attomaton.theories.decoder.supports import (
        Read as Read,
        Supports as Supports,
        count_supports as count_supports,
    )
    from attomaton.theories.decoder.telling import DecoderExplanation as DecoderExplanation
    from attomaton.theories.scansnap.assumptions import (
        Assumption as Assumption,
        check_assumptions as check_assumptions,
    )
    from attomaton.theories.scansnap.classes import (
        CorpusClasses as CorpusClasses,
        draw_linear_classes as draw_linear_classes,
    )
    from attomaton.theories.scansnap.flow import LayerFlow as LayerFlow, solve_flow as solve_flow
    from attomaton.theories.scansnap.forecast import (
        QueryForecast as QueryForecast,
        forecast_queries as forecast_queries,
    )
    from attomaton.theories.scansnap.heads import (
        DecoderOutput as DecoderOutput,
        LearnedHead as LearnedHead,
        MassHead as MassHead,
        TiedHead as TiedHead,
        decode as decode,
    )
    from attomaton.theories.scansnap.law import Rates as Rates, SnapLaw as SnapLaw
    from attomaton.theories.scansnap.reduced import Reduced as Reduced
    from attomaton.theories.scansnap.survey import (
        FollowedQuery as FollowedQuery,
        Survey as Survey,
        survey_samples as survey_samples,
    )
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
