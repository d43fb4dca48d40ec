"""Claims about the decoder's limit: they hold where they should, and can fail."""

from dataclasses import replace

import numpy as np

from attomaton.theories.decoder.supports import count_supports
from attomaton_experiments.decoder_claims import train_decoder, verify_decoder
from tests.theories.decoder.draws import draw_supports


def statuses(trace):
    return {one.claim.removeprefix("decoder-"): one.status.value for one in verify_decoder(trace)}


def draw(seed, **given):
    rng = np.random.default_rng(seed)
    return draw_supports(rng, n_tokens=6, n_contexts=2, positions=1000, even=True, **given), rng


def test_one_hot_runs_hold_every_claim():
    for seed in range(3):
        supports, _ = draw(seed)
        found = statuses(train_decoder(supports, [1000, 20_000], 1.0))
        assert set(found.values()) <= {"holds", "not_applicable"}, found
        assert found["logits"] == found["loss"] == found["direction"] == "holds"


def test_runs_with_features_hold_their_claims():
    for seed in range(3):
        supports, rng = draw(seed)
        found = statuses(train_decoder(supports, [5000, 20_000], 1.0, features=rng.normal(size=(2, 3))))
        assert "fails" not in found.values(), found
        assert found["logits"] == "not_applicable"


def test_what_is_early_is_not_judged_but_its_logits_are():
    supports, _ = draw(0)
    found = statuses(train_decoder(supports, [3, 10], 1.0))
    assert found == dict.fromkeys(("loss", "rate", "direction", "finite"), "too_early") | {"logits": "holds"}


def test_a_run_that_went_elsewhere_fails():
    supports, rng = draw(1)
    trace = train_decoder(supports, [1000, 20_000], 1.0)
    bent = replace(
        trace, weights=trace.weights + rng.normal(size=trace.weights.shape), excesses=trace.excesses + 1
    )
    assert set(statuses(bent).values()) == {"fails"}


def test_records_that_are_close_do_not_make_a_run_late():
    supports = count_supports([[0, 1, 2, 0, 2, 1, 0, 1, 3, 0]], 1)
    features = np.random.default_rng(0).normal(size=(len(supports), 6))
    for steps in ([1, 100, 101], [10, 1000, 1001]):
        found = verify_decoder(train_decoder(supports, steps, 0.5, features=features))
        assert "fails" not in [one.status.value for one in found]
