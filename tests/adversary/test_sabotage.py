"""The adversary is no rubber stamp: a product that is a little wrong is found out by the same trials."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import attomaton as at
from attomaton.automaton import automaton
from attomaton.automaton.automaton import Automaton
from attomaton.automaton.ov_maps.automaton import WritingAutomaton
from attomaton.choices import conditional, result as fitting
from attomaton.choices.covariance import Sandwich
from attomaton.choices.logit import centring, problem
from attomaton.choices.logit.clusters import ClusterErrors
from attomaton.choices.result import ChoiceFit
from attomaton.claims import margins as claimed
from attomaton.engines import duckdb
from attomaton.heads.audit import heads, seeking
from attomaton.heads.reading import configs
from attomaton.heads.utility import closed, measured
from attomaton.solvers.hard.placement import Placement
from attomaton.theories.decoder.features import EmbeddedLimit
from attomaton.theories.decoder.result import DecoderLimit
from attomaton.theories.scansnap.law import SnapLaw
from attomaton.training.models.losses import LogLoss
from attomaton.training.steps import Adam, GradientDescent
from attomaton.trajectory.expansion import Expansion
from attomaton.trajectory.forward import Trajectory
from attomaton_experiments.lookup.parametrisations import Dense, Factored, PerQuery, Shared
from attomaton_experiments.mixture import kneser_ney
from tests.adversary import causal, corpora, factored, generation, hard, ladder, limits, norms, scansnap
from tests.adversary.runner import attempt
from tests.sizes import some


def bend(monkeypatch, owner, name, change):
    """Let a function or method return what ``change`` makes of its answer."""
    real = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given, **named: change(real(*given, **named)))


def nudge(table, amount):
    """A table of scores, the first of them moved."""
    scores = table.column("score").to_numpy().copy()
    scores[:1] += amount
    return table.set_column(table.schema.get_field_index("score"), "score", pa.array(scores))


def bent(solution, amount):
    """A solution whose first score is wrong, built without its own checks."""
    other = object.__new__(type(solution))
    other.__dict__.update(solution.__dict__)
    other.__dict__["scores"] = nudge(solution.scores, amount)
    return other


def bound_lowered(solution):
    """A solution whose upper bound is too low by one part in 10⁹."""
    told = solution.certificate
    other = object.__new__(type(solution))
    other.__dict__.update(solution.__dict__)
    other.__dict__["certificate"] = replace(told, upper=told.upper * (1 - 1e-9))
    return other


def moved(parts):
    return tuple(part * (1 + 1e-6) for part in parts)


def with_half_the_rivals(lost):
    """Alternatives of larger sets with half their odds, as if their share were averaged."""
    return lost._replace(start=lost.start - np.log(2.0))


def with_pairs_only(lost):
    """Rows that move two components at most, as if no row moved more."""
    few = np.diff(lost.slopes.indptr) <= 2
    return lost._replace(slopes=lost.slopes[few], start=lost.start[few], situation=lost.situation[few])


def read_both(values):
    """The settings of RoPE under both names together, as they were read once."""
    both = {**(values.get("rope_scaling") or {}), **(values.get("rope_parameters") or {})}
    return type(values)(both, "rope_parameters.")


SABOTAGE = {
    "hard-orthonormal": lambda m: bend(m, at, "solve_graph_svm", lambda found: bent(found, 1e-9)),
    "hard-chains": lambda m: bend(m, at, "solve_graph_svm", lambda found: bent(found, 1e-3)),
    "hard-weights": lambda m: [
        bend(
            m,
            Placement,
            "solve_order",
            lambda found: (found[0] + np.linspace(0, 0.1, len(found[0])), found[1]),
        ),
        bend(m, hard, "certify_positions", lambda told: replace(told, gap=0.0, upper=1.0, violation=0.0)),
    ],
    "hard-embedded": lambda m: bend(m, at, "solve_graph_svm", bound_lowered),
    "hard-embedded-large": lambda m: bend(m, at, "solve_graph_svm", bound_lowered),
    "separation": lambda m: bend(
        m, limits, "separate", lambda found: replace(found, inseparable=np.zeros_like(found.inseparable))
    ),
    "separation-offsets": lambda m: m.setattr(  # columns are taken as they are
        problem, "centre_columns", lambda matrix: (matrix, centring.AS_GIVEN)
    ),
    "soft": lambda m: bend(m, at, "solve_luce", lambda soft: bent(soft, 1e-7)),
    "soft-embedded": lambda m: bend(m, at, "solve_luce", lambda soft: bent(soft, 1e-4)),
    "hard-factored": lambda m: bend(
        m,
        factored,
        "solve_factored",
        lambda told: replace(
            told, certificate=replace(told.certificate, lower=1.001 * told.certificate.lower)
        ),
    ),
    "norms": lambda m: bend(
        m,
        norms,
        "solve_normed",
        lambda told: replace(
            told, certificate=replace(told.certificate, lower=1.001 * told.certificate.lower)
        ),
    ),
    "margins": lambda m: bend(m, claimed, "find_best", lambda best: 1.01 * best),
    "choices": lambda m: m.setattr(ChoiceFit, "probability", lambda *_: 0.5, raising=True),
    "decoder-onehot": lambda m: bend(m, DecoderLimit, "excesses_at", lambda found: found * (1 + 1e-4)),
    "decoder-features": lambda m: bend(
        m,
        EmbeddedLimit,
        "predict_proba",
        lambda probabilities: 0.999 * probabilities + 0.001 / len(probabilities),
    ),
    "choices-ties": lambda m: bend(m, Sandwich, "covariance", lambda spread: spread * (1 + 1e-4)),
    "bounds": lambda m: bend(m, fitting, "lost_in_sets", with_half_the_rivals),
    "bounds-best-worst": lambda m: bend(m, conditional, "lost_in_logit", with_pairs_only),
    "clusters": lambda m: bend(m, ClusterErrors, "_weigh_rows", lambda found: (0.0 * found[0], found[1])),
    "prediction": lambda m: bend(m, Automaton, "predict_proba", lambda probabilities: probabilities[::-1]),
    "scores": lambda m: bend(m, Automaton, "score", lambda score: replace(score, top1=score.top1 + 1e-6)),
    "robustness": lambda m: bend(
        m, corpora, "measure_robustness", lambda told: replace(told, bridges=told.bridges.slice(1))
    ),
    "coverage": lambda m: bend(
        m, automaton, "measure_coverage", lambda told: replace(told, n_edges=told.n_edges + 1)
    ),
    "diff": lambda m: bend(m, at, "diff", lambda told: replace(told, rows=told.rows.slice(1))),
    "runs": lambda m: bend(
        m, duckdb, "window_edges", lambda found: [(keys, count + (keys == keys[:1])) for keys, count in found]
    ),
    "shrink": lambda m: bend(
        m,
        at,
        "shrink",
        lambda told: replace(told, background=told.background + np.linspace(0, 0.1, told.n_tokens)),
    ),
    "fast-forward": lambda m: bend(m, Trajectory, "error_at", lambda error: error / 1e6),
    "expansion": lambda m: bend(m, Expansion, "error_at", lambda error: error / 1e6),
    "gradients": lambda m: bend(m, LogLoss, "slope", lambda slope: slope * (1 + 1e-6)),
    "gradients-settled": lambda m: bend(m, LogLoss, "slope", lambda slope: slope * (1 + 1e-6)),
    "parametrisations": lambda m: [
        bend(m, kind, "pull_back", moved) for kind in (Dense, PerQuery, Shared, Factored)
    ],
    "training": lambda m: [
        bend(m, kind, "move", lambda found: (moved(found[0]), found[1])) for kind in (Adam, GradientDescent)
    ],
    "kneser-ney": lambda m: bend(m, kneser_ney, "find_discounts", lambda taken: 0.999 * taken),
    "flow": lambda m: bend(m, scansnap, "Rates", lambda rates: replace(rates, decoder=rates.decoder * 1.001)),
    "law": lambda m: bend(m, SnapLaw, "growth", lambda grown: grown * 1.001),
    "ladder": lambda m: bend(
        m,
        ladder,
        "climb",
        lambda told: replace(
            told, explained=tuple(replace(one, value=one.value + 0.001) for one in told.explained)
        ),
    ),
    "ladder-leakage": lambda m: bend(  # one document to score is fitted on too
        m, heads, "prepare", lambda plan: replace(plan, fit_on=[*plan.fit_on, *plan.score_on[:1]])
    ),
    "configurations": lambda m: [
        m.setattr(configs, "_find_rope", read_both),
        m.setattr(configs.ConfigObject, "finish", lambda *_: None),
    ],
    "causal": lambda m: bend(
        m, causal, "replace_heads", lambda told: replace(told, loss=told.loss * (1 + 1e-9))
    ),
    "utility": lambda m: bend(m, measured, "_centre", lambda gains: gains * (1 + 1e-6)),
    "utility-closed": lambda m: bend(m, closed, "_pair_products", lambda products: products * (1 + 1e-6)),
    "seeking": lambda m: m.setattr(seeking, "PSEUDO_COUNTS", 5.1),
    "survey": lambda m: bend(
        m, scansnap, "Rates", lambda rates: replace(rates, attention=rates.attention * 1.001)
    ),
    "winners": lambda m: bend(
        m,
        at,
        "winners",
        lambda found: replace(
            found, limits=tuple(replace(one, exponents=one.exponents + 1e-7) for one in found.limits)
        ),
    ),
    "loops": lambda m: bend(
        m, generation, "find_loops", lambda found: replace(found, steps=found.steps + 1e-6)
    ),
    "writing": lambda m: bend(
        m, WritingAutomaton, "predict_proba", lambda probabilities: probabilities[::-1]
    ),
    "beginning": lambda m: bend(
        m,
        at,
        "begin",
        lambda told: replace(told, statistics=replace(told.statistics, lags=told.statistics.lags + 1e-9)),
    ),
}
"""What to bend for each target; verdicts that must fail have tests of their own."""


COSTLY = {
    "bounds",
    "bounds-best-worst",
    "decoder-onehot",
    "expansion",
    "fast-forward",
    "ladder-leakage",
    "runs",
    "seeking",
}
"""Targets whose trials take seconds."""


@pytest.mark.parametrize("name", some(SABOTAGE, SABOTAGE.keys() - COSTLY))
def test_sabotage_is_found(name, monkeypatch):
    SABOTAGE[name](monkeypatch)
    findings = (attempt(name, 23, number) for number in range(20))
    broken = next(finding for finding in findings if finding.violated)
    assert "Error" not in broken.what
