"""learn(): the whole path, its options and its coverage report."""

import numpy as np
import pytest

import attomaton as at
from attomaton.base.errors import MismatchedParts, TokenOutOfRange, UnknownToken, UnsupportedOption


def test_a_context_may_be_an_iterator():
    automaton = at.learn(["a b a b c a b a"], window=4)
    for context in (["a", "b"], [0, 1]):
        assert automaton.predict(iter(context)) == automaton.predict(context)


def test_learn_equals_the_steps_one_by_one():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 6, 300)
    samples = at.Samples.from_windows(ids, window=4)
    components = at.find_components(at.extract_edges(samples))
    steps = at.Automaton(components, at.solve_graph_svm(components), at.solve_luce(samples, components))
    whole = at.learn(ids, window=4)
    assert whole.hard.scores.equals(steps.hard.scores)
    assert whole.soft.scores.equals(steps.soft.scores)


def test_coverage_counts():
    order = at.synthetic.Blocks([3, 1, 2])
    samples = at.synthetic.corpus(order, n_samples=60, rng=np.random.default_rng(0))
    unrealisable = at.Samples.from_lists([[1, 4]], [0], n_tokens=6)
    coverage = at.learn(samples + unrealisable).coverage
    assert (coverage.n_read, coverage.n_queries, coverage.n_components) == (61, 1, 3)
    assert coverage.realisable == 60 / 61
    assert (coverage.tied_queries, coverage.ordered_queries) == (1.0, 1.0)
    assert [(part.query, part.size) for part in coverage.largest] == [(4, 3), (4, 2)]
    assert coverage.hard["status"] == coverage.soft["status"] == "certified"


def test_queries_and_min_support_filter(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a b a c a b a b\n" * 5)
    auto = at.learn(text, window=4, keep=at.Selection(queries=["a", "b"]))
    assert set(auto.components.queries.tolist()) <= set(auto.vocabulary.lookup(["a", "b"]).tolist())
    assert auto.explain("a b c").rule is at.automaton.Rule.NO_EVIDENCE
    everything, frequent = (
        at.learn(text, window=4),
        at.learn(text, window=4, keep=at.Selection(min_support=10)),
    )
    assert 0 < len(frequent.components.edges) < len(everything.components.edges)
    assert frequent.components.edges["support"].min() >= 10


def test_options_that_do_not_exist_are_refused(tmp_path):
    with pytest.raises(UnsupportedOption, match="engine is 'polars'; choose auto, memory, duckdb or spark"):
        at.learn([0, 1, 0], engine="polars")
    with pytest.raises(UnsupportedOption, match="min_support is 0"):
        at.learn([0, 1, 0], keep=at.Selection(min_support=0))
    with pytest.raises(UnsupportedOption, match="no vocabulary; give token ids"):
        at.learn([0, 1, 0], keep=at.Selection(queries=["a"]))
    with pytest.raises(TokenOutOfRange, match="query 7 is not in 0 … 1"):
        at.learn([0, 1, 0], keep=at.Selection(queries=[7]))
    with pytest.raises(UnknownToken, match="no vocabulary, so a context cannot be text; give token ids"):
        at.learn([0, 1, 0]).explain("a")
    with pytest.raises(TokenOutOfRange, match="token 5 at position 1 of the context is not in 0 … 1"):
        at.learn([0, 1, 0]).explain([0, 5])
    with pytest.raises(TokenOutOfRange, match="give one list of integers"):
        at.learn([0, 1, 0]).explain([0.5])
    with pytest.raises(UnsupportedOption, match="queries is the text 'ab'; give a list"):
        at.learn([0, 1, 0], keep=at.Selection(queries="ab"))


def test_parts_that_do_not_belong_together_are_refused():
    one, other = at.learn([0, 1, 0, 1, 2, 0], window=3), at.learn([0, 1, 0, 1, 0, 0], window=3)
    with pytest.raises(MismatchedParts, match="HardSolution was solved from other components"):
        at.Automaton(one.components, one.soft, one.hard)
    with pytest.raises(MismatchedParts, match="HardSolution was solved from other components"):
        at.Automaton(one.components, other.hard, other.soft)
    embedded = at.solve_graph_svm(one.components, embeddings=np.eye(3))
    with pytest.raises(MismatchedParts, match="only one of hard and soft was solved with embeddings"):
        at.Automaton(one.components, embedded, one.soft)
    samples = at.synthetic.corpus(at.synthetic.Blocks([3, 1]), n_samples=30, rng=np.random.default_rng(0))
    tied = at.learn(samples)
    with pytest.raises(MismatchedParts, match="come from different corpora"):
        at.solve_luce(tied.soft.choices, one.components)


def test_progress_names_the_stages():
    seen = []
    at.learn([0, 1, 0, 1], progress=seen.append)
    assert seen == [
        "reading",
        "extracting edges",
        "finding components",
        "solving the hard side",
        "extracting choices",
        "solving the soft side",
    ]


def test_contexts_as_text_tokens_or_ids_agree(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a b a c a b a b\n" * 5)
    auto = at.learn(text, window=4)
    probabilities = auto.predict_proba("b a")
    assert (
        probabilities.tobytes()
        == auto.predict_proba(["b", "a"]).tobytes()
        == auto.predict_proba([1, 0]).tobytes()
    )


def test_a_window_is_given_once():
    text = ["a", "b", "a", "c", "b", "a", "b", "c", "a", "b", "c", "b", "a", "b"]
    whole = at.learn([text], window=4)
    assert at.learn([text], keep=at.Selection(window=4)).soft.scores.equals(whole.soft.scores)
    with pytest.raises(UnsupportedOption, match="give only one of them"):
        at.learn([text], window=4, keep=at.Selection(window=3))
    short = at.learn([text], window=2)
    assert at.diff(whole, [text], keep=at.Selection(window=2)).counts == at.diff(whole, short).counts
    with pytest.raises(UnsupportedOption, match="diff does not write a run"):
        at.diff([text], [text], out="run")


def test_a_window_of_32_is_told_from_the_default():
    with pytest.raises(UnsupportedOption, match="window"):
        at.learn([0, 1, 0, 1], window=4, keep=at.Selection(window=32))
    assert at.learn([0, 1, 0, 1], window=4, keep=at.Selection(min_support=1)).window == 4
    assert at.learn([0, 1, 0, 1], keep=at.Selection(min_support=1)).window == 32
    short = at.learn([0, 1, 0, 2, 0, 1], window=2)
    apart = at.diff(short, [0, 1, 0, 2, 0, 1], keep=at.Selection(window=32))
    assert len(apart) > len(at.diff(short, [0, 1, 0, 2, 0, 1], keep=at.Selection())) == 0
