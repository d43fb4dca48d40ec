"""Every public callable with numeric parameters, found by looking, and a call to try each in."""

import inspect
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import attomaton as at
from attomaton.automaton.scoring import fit_epsilon
from attomaton.automaton.shrinkage import choose_strength
from attomaton.base.machine import parse_memory
from attomaton.corpora.readers.corpus import read_corpus
from attomaton.engines.choose import Engine
from attomaton.engines.selection import Selection
from attomaton.graphs.robustness import measure_robustness
from attomaton.heads import AuditSettings
from attomaton.heads.arrays import example_audit
from attomaton.solvers.norms.solve import solve_factored, solve_normed
from attomaton.theories.scansnap.classes import draw_linear_classes
from attomaton.theories.scansnap.flow import solve_flow
from attomaton.theories.scansnap.followed import follow_attention
from attomaton.theories.scansnap.forecast import forecast_queries
from attomaton.theories.scansnap.law import Rates, SnapLaw
from attomaton.theories.scansnap.survey import survey_samples
from attomaton.training.models.embeddings import Equicorrelated, Orthonormal, RandomUnit
from attomaton.training.models.heads import Untied
from attomaton.training.path import trace_path
from attomaton.training.steps import Adam, Decay, Muon, SignDescent, SpectralDescent
from attomaton_experiments.lookup.parametrisations import Factored, PerQuery, Shared
from attomaton_experiments.lookup.training import AtSeconds, AtSteps, LookupTraining
from attomaton_experiments.scansnap.star import make_star, star_constant
from attomaton_experiments.scansnap_model.language_model import LanguageModel
from attomaton_experiments.scansnap_model.language_training import LanguageTraining, cut_windows
from attomaton_experiments.scansnap_model.train import Setup
from attomaton_experiments.settings import read_settings

NUMERIC = re.compile(r"^(<class '(int|float)'>|(str \| )?(int|float)( \| None)?)$")
"""Annotations of parameters that are numbers; lists of numbers are data."""

RESULTS = {"ChoiceFit", "EdgeTable", "HeadAudit", "Samples", "SoftSolution", "Winners"}
RESULTS |= {"errors.SkippedDocuments"}
"""Classes that attomaton makes itself; what reads them from files checks them."""

DEEP = {f"DeepModel.{name}" for name in ("draw_start", "shapes", "unpack")}
METHODS = {"AttentionModel.draw_start", "GradientDescent.move", "Selection.selected", *DEEP}
"""What only the training loop and the engines call."""


WINNERS = at.winners([[0.2, 1.0], [1.0, 0.1]], [0, 1, 1])


def _at_step(method: Callable[..., Any], first: tuple[Any, ...], step: Any = 3, **more: Any) -> Any:
    return method(*first, step, **more)


@cache
def samples() -> at.Samples:
    contexts = [[0, 1, 2], [1, 0, 2], [0, 2], [2, 1, 0]] * 4
    return at.Samples.from_lists(contexts, [0, 1, 0, 1] * 4)


@cache
def learned() -> at.Automaton:
    return at.learn(samples())


def draws() -> np.random.Generator:
    return np.random.default_rng(0)


def found() -> dict[str, list[str]]:
    """The names of public callables with the names of their numeric parameters."""
    every: dict[str, list[str]] = {}
    for name in at.__all__:
        thing = getattr(at, name)
        named = {name: thing} if callable(thing) else {}
        if inspect.isclass(thing) or inspect.ismodule(thing):
            inner = {one: getattr(thing, one) for one in dir(thing) if not one.startswith("_")}
            ours = {one: part for one, part in inner.items() if callable(part) and _is_ours(part, thing)}
            named |= {f"{name}.{one}": part for one, part in ours.items()}
        for label, part in named.items():
            numeric = _numeric(part)
            if numeric and label not in RESULTS | METHODS:
                every[label] = numeric
    return every


def _is_ours(part: Any, owner: Any) -> bool:
    return not inspect.ismodule(owner) or part.__module__ == owner.__name__


def _numeric(part: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(part).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in parameters if NUMERIC.match(str(one.annotation))]


def calls(folder: Any) -> dict[str, tuple[Callable[..., Any], tuple[str, ...]]]:
    """A call for each, to be given one more keyword; and further ones that are not in ``__all__``."""
    auto, data = learned(), samples()
    corpus = folder / "words.txt"
    corpus.write_text("a b a c a b")
    graph, fit = auto.components, partial(at.fit_choices, ["a", "b"], [["a", "b"], ["a", "b"]])
    trained = partial(at.train, data, at.AttentionModel(Orthonormal()), at.GradientDescent(1.0))
    path, rates = at.fast_forward(data, to=10.0), Rates(1.0, 0.1)
    series = at.expand(auto, data)
    classes = draw_linear_classes(2)
    decoder = at.learn_decoder([[0, 1, 2, 0, 1, 2, 0]])
    begun = at.begin([[0, 1, 2, 0, 1, 2, 0]], window=3)
    table = {
        "begin": (
            partial(at.begin, [[0, 1, 2, 0, 1, 2, 0]]),
            ("window", "most_frequent"),
        ),
        "winners": (partial(at.winners, [[0.2, 1.0], [1.0, 0.1]], [0, 1, 1]), ("starts",)),
        "audit_heads": (
            partial(at.audit_heads, *example_audit(), random=0, settings=AuditSettings(window=8)),
            ("limit",),
        ),
        "learn_decoder": (
            partial(at.learn_decoder, [[0, 1, 2, 0, 1, 2, 0]]),
            ("most_frequent",),
        ),
        "DecoderLimit.loss_at": (lambda step=3, **more: decoder.loss_at(step, **more), ("step", "step_size")),
        "DecoderLimit.logits_at": (
            lambda step=3, **more: decoder.logits_at([0], step, **more),
            ("step", "step_size"),
        ),
        **{
            f"DecoderLimit.{name}": (partial(_at_step, getattr(decoder, name), first), ("step", "step_size"))
            for name, first in {"asymptote_at": ([0],), "at": (), "weights_at": ()}.items()
        },
        "DecoderLimit.excesses_at": (partial(decoder.excesses_at, [3]), ("step_size",)),
        "DecoderLimit.losses_at": (partial(decoder.losses_at, [3]), ("step_size",)),
        "Reading": (at.Reading, ("max_bytes", "n_tokens", "separator")),
        "Winners.slopes_between": (
            lambda first=10, last=100: WINNERS.slopes_between(first, last),
            ("first", "last"),
        ),
        "DecoderLimit.predict_proba": (partial(decoder.predict_proba, [0]), ("step", "step_size")),
        "Beginning.weights_at": (
            lambda step=3, step_size=0.1, **more: str(begun.weights_at(step, step_size, **more)),
            ("step", "step_size", "n_layers"),
        ),
        "Beginning.bounds_at": (
            lambda step=3, step_size=0.1, **more: str(begun.bounds_at(step, step_size, **more)),
            ("step", "step_size", "n_layers"),
        ),
        "Beginning.valid_until": (
            lambda step_size=0.1, **more: begun.valid_until(step_size, **more),
            ("step_size", "n_layers"),
        ),
        "Beginning.to_dict": (begun.to_dict, ("shown",)),
        "read_corpus": (partial(read_corpus, ["a b a", "b a b"]), ("limit",)),
        "Automaton": (partial(at.Automaton, graph, auto.hard, auto.soft), ("window",)),
        "ChoiceFit.board": (fit().board, ("centre", "level")),
        "ChoiceFit.probability_interval": (
            partial(fit().probability_interval, *fit().items[:2]),
            ("level",),
        ),
        "ChoiceFit.goodness_of_fit": (fit().goodness_of_fit, ("n_draws", "seed")),
        "ChoiceFit.cross_validate": (fit().cross_validate, ("n_folds", "seed")),
        "ChoiceFit.intransitivity": (fit().intransitivity, ("n_draws", "seed")),
        "ChoiceFit.describe": (fit().describe, ("limit",)),
        "ChoiceFit.plot": (partial(fit().plot, ax=Figure().subplots()), ("limit",)),
        "Automaton.at": (partial(auto.at, 3.0), ("step_size",)),
        "Automaton.generate": (lambda n=3, **more: auto.generate([0, 2], n, **more), ("n", "window")),
        "Automaton.plot": (partial(auto.plot, ax=Figure().subplots()), ("query",)),
        "Automaton.name": (auto.name, ("token",)),
        "Automaton.predict_proba": (partial(auto.predict_proba, [0, 2]), ("step",)),
        "Automaton.score": (partial(auto.score, data), ("epsilon",)),
        "Components.component": (lambda query=2, token=0: graph.component(query, token), ("query", "token")),
        "Components.bridges_of": (graph.bridges_of, ("component",)),
        "Components.tokens": (graph.tokens, ("component",)),
        "EdgeTable.filter": (graph.edges.filter, ("min_support",)),
        "Samples.chunks": (lambda max_values: list(data.chunks(max_values)), ("max_values",)),
        "Samples.from_arrays": (partial(at.Samples.from_arrays, [0, 1], [0, 1, 2], [0, 1]), ("n_tokens",)),
        "Samples.from_lists": (partial(at.Samples.from_lists, [[0], [1]], [0, 1]), ("n_tokens",)),
        "Samples.from_windows": (
            lambda window=2, **more: at.Samples.from_windows([0, 1, 0], window=window, **more),
            ("window", "n_tokens"),
        ),
        "expand": (partial(at.expand, auto, data), ("step_size",)),
        "extract_choices": (partial(at.extract_choices, data), ("threads",)),
        "extract_edges": (partial(at.extract_edges, data), ("threads",)),
        "find_components": (partial(at.find_components, at.extract_edges(data)), ("threads",)),
        "Automaton.graph_of": (auto.graph_of, ("query",)),
        "fast_forward": (
            lambda **more: at.fast_forward(data, **{"to": 10.0, **more}),
            ("step_size", "to", "rtol"),
        ),
        "fit_choices": (fit, ("ridge", "prior")),
        "learn": (
            partial(at.learn, [0, 1, 0, 2, 0, 1, 0]),
            ("window", "min_support", "sample_queries", "max_window", "memory", "threads"),
        ),
        "shrink": (lambda **more: at.shrink(data, **{"strength": 1.0, **more}), ("strength", "ridge")),
        "solve_graph_svm": (partial(at.solve_graph_svm, graph), ("rtol", "threads")),
        "solve_luce": (partial(at.solve_luce, data, graph), ("atol", "ridge", "threads")),
        "synthetic.Chain": (at.synthetic.Chain, ("n_tokens",)),
        "synthetic.RandomBlocks": (partial(at.synthetic.RandomBlocks, [2, 1], rng=draws()), ("density",)),
        "synthetic.corpus": (
            partial(at.synthetic.corpus, at.synthetic.Blocks([2, 1]), rng=draws()),
            ("n_samples",),
        ),
        "tokenize_corpus": (
            partial(at.tokenize_corpus, str(corpus), folder / "shards"),
            ("workers", "shard_tokens"),
        ),
        "AttentionLimit": (lambda **more: _fitted(**more), ("padding", "min_support", "atol")),
        "AttentionModel": (at.AttentionModel, ("rank", "start")),
        "GradientDescent": (
            lambda **more: at.GradientDescent(**{"step_size": 1.0, **more}),
            ("step_size", "momentum"),
        ),
        "Watch": (at.training.Watch, ("every",)),
        "DeepModel": (at.DeepModel, ("n_layers", "n_heads", "hidden", "start")),
        "train_deep": (
            lambda **more: at.train_deep(np.array([[0, 1, 0, 2], [1, 0, 2, 1]]), **{"steps": 2, **more}),
            ("steps", "n_tokens", "seed"),
        ),
        "train": (
            lambda **more: trained(**{"steps": 2, **more}),
            ("steps", "trials", "seed"),
        ),
    }
    for name in ("draw_random", "draw_cyclic", "draw_acyclic"):
        table[f"synthetic.{name}"] = (
            partial(getattr(at.synthetic, name), draws()),
            ("n_tokens", "n_samples", "window"),
        )
    further = {
        "Selection": (Selection, ("window", "max_window", "min_support", "queries", "sample_queries")),
        "Selection, a query": (lambda query: Selection(queries=(query,)), ("query",)),
        "parse_memory": (parse_memory, ("memory",)),
        "Engine": (Engine, ("memory", "threads")),
        "Trajectory.scores_at": (path.scores_at, ("step",)),
        "Trajectory.error_at": (path.error_at, ("step",)),
        "Expansion.weights_at": (series.weights_at, ("step",)),
        "Expansion.error_at": (series.error_at, ("step",)),
        "Expansion.weights_along": (series.weights_along, ("level",)),
        "Automaton.at, step": (auto.at, ("step",)),
        "measure_robustness": (lambda number: measure_robustness(graph, [number]), ("number",)),
        "solve_factored": (partial(solve_factored, graph), ("rtol",)),
        "choose_strength": (
            lambda strength=1.0, **more: choose_strength(data, data, strengths=(strength,), **more),
            ("strength", "ridge"),
        ),
        "fit_epsilon": (partial(fit_epsilon, auto.predict_samples(data)), ("n_halvings",)),
        "Orthonormal": (Orthonormal, ("dim",)),
        "RandomUnit": (RandomUnit, ("dim",)),
        "Equicorrelated": (
            lambda **more: Equicorrelated(**{"dim": 4, "correlation": 0.5, **more}),
            ("dim", "correlation"),
        ),
        "Untied": (Untied, ("temperature",)),
        "LanguageModel": (
            lambda **more: LanguageModel(**{"n_tokens": 3, **more}),
            ("n_tokens", "width", "hidden", "dropout", "window"),
        ),
        "Shared": (Shared, ("scale",)),
        "Factored": (lambda **more: Factored(**{"rank": 2, **more}), ("rank", "start")),
        "Adam": (lambda **more: Adam(**{"step_size": 1.0, **more}), ("step_size", "epsilon")),
        "Adam, a beta": (lambda beta: Adam(1.0, betas=(beta, 0.5)), ("beta",)),
        **{
            kind.__name__: (
                lambda kind=kind, **more: kind(**{"step_size": 1.0, **more}),
                ("step_size", "momentum"),
            )
            for kind in (SignDescent, SpectralDescent, Muon)
        },
        "Decay": (Decay, ("power",)),
        "solve_normed": (partial(solve_normed, graph, norm="spectral"), ("rtol",)),
        "synthetic.draw_ordered": (
            partial(at.synthetic.draw_ordered, draws()),
            ("n_tokens", "n_samples", "window", "n_queries"),
        ),
        "AtSteps": (lambda step: AtSteps((step,)), ("step",)),
        "AtSeconds": (lambda second: AtSeconds((second,)), ("second",)),
        "LookupTraining": (partial(LookupTraining, PerQuery(), Adam(0.1)), ("batch_size", "seed")),
        "LanguageTraining": (
            partial(LanguageTraining, LanguageModel(3)),
            ("rate", "fast_rate", "batch_size", "clip", "seed"),
        ),
        "cut_windows": (
            lambda window=2, number=2: cut_windows(np.arange(20), window, number),
            ("window", "number"),
        ),
        "trace_path": (
            partial(trace_path, [data], at.AttentionModel(Orthonormal()), [np.eye(3)], radii=[1.0]),
            ("rtol", "max_steps"),
        ),
        "Rates": (
            lambda **more: Rates(**{"decoder": 1.0, "attention": 0.1, **more}),
            ("decoder", "attention"),
        ),
        "Rates.with_momentum": (lambda momentum: Rates.with_momentum(1.0, 0.1, momentum), ("momentum",)),
        "SnapLaw": (
            lambda **more: SnapLaw(**{"n_classes": 3, "n_tokens": 9, "rates": rates, **more}),
            ("n_classes", "n_tokens", "start"),
        ),
        "star_constant": (
            lambda **more: star_constant(**{"n_classes": 3, "n_tokens": 20, "common": 0.1, **more}),
            ("n_classes", "n_tokens", "common"),
        ),
        "make_star": (
            lambda **more: make_star(**{"n_classes": 3, "n_tokens": 20, "common": 0.1, **more}),
            ("n_classes", "n_tokens", "common"),
        ),
        "draw_linear_classes": (
            lambda **more: draw_linear_classes(**{"n_queries": 2, **more}),
            ("n_queries", "classes_per_query", "n_common", "n_distinct", "common_weight"),
        ),
        "forecast_queries": (partial(forecast_queries, classes, rates), ("n_queries", "tolerance")),
        "survey_samples": (partial(survey_samples, data, rates), ("n_queries", "tolerance", "min_samples")),
        "follow_attention": (partial(follow_attention, classes, rates, most_slopes=1000), ("until",)),
        "solve_flow": (partial(solve_flow, classes, rates, [1.0]), ("rtol", "atol")),
        "Setup": (Setup, ("n_steps", "batch_size", "length", "every")),
        "read_settings": (partial(read_settings, "mechanics-global"), ("trials", "seed")),
    }
    return table | further


def _fitted(**more: Any) -> Any:
    """An estimator is checked when it is fitted, as scikit-learn wants."""
    return at.AttentionLimit(**more).fit([[0, 1, 2], [1, 0, 2]], [0, 1])
