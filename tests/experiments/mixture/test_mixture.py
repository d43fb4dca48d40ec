"""Every row of the table is a law over the whole vocabulary, and the rules are those that carried."""

import numpy as np
import pytest

from attomaton.automaton.shrinkage import shrink
from attomaton.graphs.writing import find_successors, replace_labels
from attomaton_experiments.mixture.experts import AttentionExpert, relabel_written
from attomaton_experiments.mixture.learn import learn_copies, learn_decoded, learn_mixture, learn_writes
from attomaton_experiments.mixture.mixture import read_experts
from attomaton_experiments.mixture.reading import MixtureText
from tests.experiments.mixture.texts import draw_readings, draw_text

PLACES = (0, 1, 2, 50, 199)


@pytest.fixture(scope="module")
def learned():
    fitted, held = draw_readings(0)
    return fitted, held, learn_mixture(fitted, held, window=8, pull=5.0)


def test_every_part_is_a_law_or_silent_and_reads_what_its_law_says(learned):
    _, held, mixture = learned
    for part in mixture.experts:
        probabilities, sure = part.read(held)
        for place in PLACES:
            law = part.law(held, place)
            assert law.shape == (held.n_tokens,)
            assert law.min() >= 0
            assert law.sum() == pytest.approx(1.0 if sure[place] else 0.0, abs=1e-12)
            assert probabilities[place] == pytest.approx(law[held.text[place]], abs=1e-12)


def test_the_mixture_is_a_law_with_a_probability_for_words_never_seen(learned):
    _, held, mixture = learned
    new = MixtureText(np.array([12, 12, 3, 12]), 0, 13)
    for reading, places in ((held, PLACES), (new, range(4))):
        for place in places:
            law = mixture.law(reading, place)
            assert law.sum() == pytest.approx(1, abs=1e-12)
            assert law.min() > 0
            assert mixture.read(reading)[0][place] == pytest.approx(law[reading.text[place]], rel=1e-9)


def test_it_predicts_the_held_back_text_better_than_each_part(learned):
    mixture = learned[2]
    judged = MixtureText(draw_text(11, 400), 0, 13)
    probabilities, sure = read_experts(mixture.experts, judged)
    together = -np.log(mixture.read(judged)[0]).mean()
    alone = [
        -np.log(one[level > 0].clip(1e-9)).mean() for one, level in zip(probabilities.T, sure.T, strict=True)
    ]
    assert together < min(alone)


def test_the_rule_is_the_part_that_carried_most(learned):
    _, held, mixture = learned
    probabilities, sure = read_experts(mixture.experts, held)
    carried = mixture.weights.of(sure) * probabilities
    assert mixture.rules(held).tolist() == carried.argmax(1).tolist()
    np.testing.assert_allclose(mixture.shares(held).sum(1), 1, atol=1e-12)
    answer = mixture.answer(held, 50, words=[f"w{one}" for one in range(13)])
    assert answer.rule == mixture.experts[int(mixture.weights.of(sure[50:51])[0].argmax())].name
    assert answer.tokens[0] == f"w{mixture.law(held, 50).argmax()}"
    assert "Weight of each rule here" in str(answer)


def test_a_head_that_writes_learns_from_the_samples_of_the_inverse_map():
    fitted, held = draw_readings(2)
    permutation = np.random.default_rng(3).permutation(fitted.n_tokens).astype(np.int32)
    samples = fitted.all_samples(6)
    assert list(relabel_written(samples, permutation)) == list(replace_labels(samples, permutation))
    head = AttentionExpert(
        "head", shrink(relabel_written(samples, permutation), strength=1.0), 6, permutation
    )
    plain = shrink(replace_labels(samples, permutation), strength=1.0)
    reads = plain.predict_proba(held.contexts(6)[40].tolist())
    assert head.law(held, 40)[permutation].max() == pytest.approx(reads.max(), abs=1e-9)


def test_successors_are_written_and_the_decoder_is_the_frequencies():
    fitted, held = draw_readings(4)
    head = learn_writes(fitted, 5)
    assert head.writes.tolist() == find_successors(fitted.stream, n_tokens=13).tolist()
    assert learn_copies(fitted, 5).writes is None
    bigram = learn_decoded(fitted, 1)
    stream = fitted.stream
    after = stream[1:][stream[:-1] == held.stream[9]]
    np.testing.assert_allclose(bigram.law(held, 9), np.bincount(after, minlength=13) / len(after), atol=1e-15)
