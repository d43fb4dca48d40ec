"""What attention writes: the quick chain does what the definition does, in the limit and at finite scores."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.automaton.generation import generate_by_definition

SAMPLES = at.Samples.from_lists(
    [[0, 1, 3], [1, 0, 3], [1, 2, 3], [4, 5, 3], [0, 1, 3], [6, 2], [3, 0, 1], [2, 3, 0], [1, 3, 0]],
    [0, 1, 1, 4, 0, 6, 3, 2, 3],
    n_tokens=8,
)
AUTO = at.learn(SAMPLES)
KINDS = {"limit": AUTO, "at a step": AUTO.at(30), "shrunken": at.shrink(SAMPLES, strength=0.5)}
PROMPTS = st.lists(st.integers(0, 7), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", KINDS)
@given(
    prompt=PROMPTS,
    n=st.integers(0, 8),
    seed=st.integers(0, 1_000),
    window=st.none() | st.integers(1, 6),
    greedy=st.booleans(),
)
def test_the_chain_writes_what_the_definition_does(kind, prompt, n, seed, window, greedy):
    attention = KINDS[kind]
    written = attention.generate(prompt, n, seed=seed, greedy=greedy, window=window)
    rng = None if greedy else np.random.default_rng(seed)
    assert written.tokens == generate_by_definition(attention.predict_proba, prompt, n, rng, window)
    assert len(written.tokens) == n
    assert set(written.tokens) <= set(prompt)


@given(PROMPTS, st.integers(0, 10))
def test_draws_without_evidence_are_counted(prompt, n):
    written = AUTO.generate(prompt, n, seed=0)
    context, counted = list(prompt), 0
    for token in written.tokens:
        counted += AUTO.explain(context).rule is at.automaton.Rule.NO_EVIDENCE
        context.append(token)
    assert written.no_evidence == counted


def test_draws_follow_the_probabilities():
    firsts = [AUTO.generate([1, 1, 0, 3], 1, seed=seed).tokens[0] for seed in range(3_000)]
    drawn = np.bincount(firsts, minlength=8) / 3_000
    assert np.abs(drawn - AUTO.predict_proba([1, 1, 0, 3])).max() < 0.04


def test_without_a_seed_texts_differ_and_with_one_they_do_not():
    prompt = [0, 1, 3, 0, 3, 2, 3]
    shrunken = KINDS["shrunken"]
    assert shrunken.generate(prompt, 40, seed=5) == shrunken.generate(prompt, 40, seed=5)
    assert len({shrunken.generate(prompt, 40, seed=None).tokens for _ in range(5)}) > 1


def test_long_texts_take_seconds():
    assert len(AUTO.generate([0, 1, 3, 2], 20_000).tokens) == 20_000


@pytest.mark.parametrize(
    ("tokenizer", "prompt"),
    [("word", "a b\na é b"), ("character", "ab\naéb"), ("byte", "ab\naéb")],
)
def test_text_is_joined_as_its_tokenizer_splits_it(tokenizer, prompt, tmp_path):
    (tmp_path / "corpus.txt").write_text("a b a é b\na b é a\n" * 3, encoding="utf-8")
    auto = at.learn(tmp_path / "corpus.txt", tokenizer=tokenizer, window=4)
    assert str(auto.generate(prompt, 0)) == prompt
    written = auto.generate(prompt, 30, seed=2)
    assert auto.vocabulary.join(written.tokens) == written.text
    if tokenizer != "byte":  # single bytes of é may be drawn
        assert auto.vocabulary.encode(str(written)).tolist() == [*written.prompt, *written.tokens]


def test_a_run_from_disk_writes_the_same(tmp_path):
    auto = at.learn(["to be or not to be", "to be is to do"])
    loaded = at.Automaton.load(auto.save(tmp_path / "run"))
    assert str(loaded.generate("to be or", 9, seed=4)) == str(auto.generate("to be or", 9, seed=4))


def test_unknown_words_may_be_copied_where_nothing_is_known():
    auto = at.learn(["to be or not to be", "to be is to do"])
    written = auto.generate("zebra gnu", 30, seed=1)
    assert set(written.words) == {"zebra", "gnu"}
    assert written.no_evidence == 30
    assert written.unknown == ("zebra", "gnu")
