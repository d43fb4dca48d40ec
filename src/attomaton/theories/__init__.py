"""Related theories: the beginning of training, the decoder, Scan and Snap."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.theories.beginning.begin import REST as REST, begin as begin
    from attomaton.theories.beginning.course import (
        CourseWeights as CourseWeights,
        ForecastCourse as ForecastCourse,
        follow_course as follow_course,
    )
    from attomaton.theories.beginning.passes import Frequent as Frequent, cut_documents as cut_documents
    from attomaton.theories.beginning.result import (
        Beginning as Beginning,
        EarlyWeights as EarlyWeights,
        FirstLooks as FirstLooks,
        Lags as Lags,
    )
    from attomaton.theories.beginning.statistics import (
        Statistics as Statistics,
        find_statistics as find_statistics,
    )
    from attomaton.theories.beginning.theorem import (
        WEIGHTS as WEIGHTS,
        Coefficients as Coefficients,
        Setting as Setting,
        TheoremBounds as TheoremBounds,
    )
    from attomaton.theories.decoder.course import (
        EDGE as EDGE,
        Levels as Levels,
        Moment as Moment,
        StoppedDecoder as StoppedDecoder,
        asymptote as asymptote,
        find_levels as find_levels,
        follow as follow,
        squared_norm as squared_norm,
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
        classes_of_contexts as classes_of_contexts,
        draw_linear_classes as draw_linear_classes,
        make_star as make_star,
    )
    from attomaton.theories.scansnap.flow import (
        LayerFlow as LayerFlow,
        find_snap as find_snap,
        find_turn as find_turn,
        fit_power as fit_power,
        measure_gain as measure_gain,
        solve_flow as solve_flow,
    )
    from attomaton.theories.scansnap.forecast import (
        Clock as Clock,
        QueryForecast as QueryForecast,
        find_pulls as find_pulls,
        forecast_queries as forecast_queries,
    )
    from attomaton.theories.scansnap.heads import (
        DecoderHead as DecoderHead,
        DecoderOutput as DecoderOutput,
        LearnedHead as LearnedHead,
        MassHead as MassHead,
        TiedHead as TiedHead,
        decode as decode,
    )
    from attomaton.theories.scansnap.law import (
        Rates as Rates,
        SnapLaw as SnapLaw,
        integrate_law as integrate_law,
        solve_exponent as solve_exponent,
        star_constant as star_constant,
    )
    from attomaton.theories.scansnap.reduced import Reduced as Reduced
    from attomaton.theories.scansnap.survey import (
        KeptTokens as KeptTokens,
        Survey as Survey,
        survey_samples as survey_samples,
    )
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
