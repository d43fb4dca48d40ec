"""``learn(..., writes=...)``: what is learned, answered, stored and refused."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.automaton.ov_maps.automaton import WritingAutomaton
from attomaton.automaton.ov_maps.learning import learn_writing
from attomaton.automaton.ov_maps.load import load_attention
from attomaton.base.errors import AttomatonError, InvalidSamples, NothingRealisable, UnsupportedOption
from attomaton.base.tables import column
from attomaton.graphs.writing import find_successors, measure_reach, replace_labels

TEXTS = [
    "the cat sat on the mat and the dog sat on the log",
    "a dog and a cat sat and the cat ran to the dog",
]
streams = st.lists(st.integers(0, 5), min_size=2, max_size=40)


@given(streams, st.permutations(range(6)), st.integers(1, 5))
def test_an_injective_map_is_learned_as_if_its_preimages_were_the_labels(stream, table, window):
    samples = at.Samples.from_windows(stream, window=window, n_tokens=6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingRealisable)
        auto, plain = (
            at.automaton.learn_writing(samples, writes=table),
            at.learn(replace_labels(samples, table)),
        )
    for side in ("hard", "soft"):
        assert getattr(auto.reads, side).scores.equals(getattr(plain, side).scores)
        assert getattr(auto.reads, side).certificate == getattr(plain, side).certificate
    assert auto.reads.components.edges.rows.equals(plain.components.edges.rows)
    for context in ([0, 1, 2], [5, 5, 3], [4]):
        assert auto.attention(context).tolist() == plain.attention(context).tolist()
        assert auto.retrieve(context).tolist() == plain.retrieve(context).tolist()
        written = auto.predict_proba(context)
        assert written[table].tolist() == plain.predict_proba(context).tolist()
    assert auto.coverage.n_read == len(samples)


def test_the_identity_reads_as_a_head_that_copies():
    plain = at.learn(TEXTS)
    for writes in ("identity", {"cat": "cat"}):
        same = at.automaton.learn_writing(TEXTS, writes)
        assert same.reads.hard.scores.equals(plain.hard.scores)
        assert same.predict("the cat saw") == plain.predict("the cat saw")


@pytest.mark.parametrize("writes", ["successor", "identity+successor"])
def test_answers_agree_with_each_other(writes):
    auto = at.automaton.learn_writing(TEXTS, window=6, writes=writes)
    samples = auto.read(TEXTS)
    predicted = auto.predict_samples(samples)
    for number, (context, _) in enumerate(samples):
        probabilities = auto.predict_proba(context)
        told = auto.explain(context)
        mine = predicted.bags.sample == number
        assert abs(probabilities.sum() - 1) < 1e-12
        assert np.allclose(probabilities[predicted.bags.token[mine]], predicted.probabilities[mine])
        assert {
            token: pytest.approx(probabilities[token]) for token in np.flatnonzero(probabilities)
        } == told.written
        read = {auto.writing.token_of(np.array([key]))[0] for key in told.probabilities}
        assert auto.retrieve(context).tolist() == sorted(read)
        assert auto.attention(context).sum() == pytest.approx(1)
        by_token = {}
        for key, probability in told.probabilities.items():
            token = told.writes[key]
            by_token[token] = by_token.get(token, 0.0) + probability
        assert by_token == {token: pytest.approx(probability) for token, probability in told.written.items()}


@pytest.mark.parametrize("writes", ["successor", "identity+successor"])
def test_scores_are_of_the_labels_that_can_be_written(writes):
    auto = at.automaton.learn_writing(TEXTS, window=6, writes=writes)
    samples = auto.read(TEXTS)
    reach = measure_reach(samples, auto.writing.table[-1])
    share = reach.written if writes == "successor" else reach.either
    score = auto.score(TEXTS)
    assert score.n_samples == round(share * len(samples))
    assert auto.coverage.realisable == pytest.approx(share)
    assert auto.reach.identity == reach.identity
    losses = []
    for context, label in samples:
        probabilities = auto.predict_proba(context)
        offered = {int(row[token]) for token in context for row in auto.writing.table}
        if label in offered:
            losses.append(-np.log(probabilities[label]))
    assert len(losses) == score.n_samples
    assert score.log_loss == pytest.approx(np.mean(losses))


def test_uniform_attention_is_mixed_in_over_keys():
    samples = at.Samples.from_lists([[0, 1, 2], [1, 0, 2]], [0, 0])
    auto = at.automaton.learn_writing(
        samples, writes=[[0, 1, 2], [1, 0, 2]]
    )  # five keys: 2 writes 2 in both ways
    score = auto.score(samples.take(slice(1)), epsilon=1.0)
    assert score.log_loss == pytest.approx(-np.log(2 / 5))


def test_successors_are_those_of_the_corpus():
    auto = at.automaton.learn_writing(TEXTS, window=4, writes="successor")
    read = at.read_corpus(TEXTS)
    assert auto.writing.table[0].tolist() == find_successors(read.ids, read.offsets).tolist()


def test_text_can_hold_what_the_prompt_does_not():
    auto = at.automaton.learn_writing(TEXTS, window=6, writes="successor")
    written = auto.generate("a dog", 6, greedy=True)
    assert set(written.words) - {"a", "dog"}
    context = list(written.prompt)
    for token in written.tokens:
        assert int(np.argmax(auto.predict_proba(context).round(9))) == token
        context.append(token)
    assert auto.generate("a dog", 6, seed=1).tokens == auto.generate("a dog", 6, seed=1).tokens


def test_unknown_words_write_themselves():
    auto = at.automaton.learn_writing(TEXTS, window=6, writes="identity+successor")
    assert auto.predict("zebra") == {"zebra": 1.0}
    told = auto.explain("zebra the cat sat on the")
    assert told.unknown == ("zebra",)
    assert "zebra" in str(told)
    score = auto.score(["the cat saw the zebra and the cat saw"])
    assert score.unknown == ("saw", "zebra")


@pytest.mark.parametrize("writes", ["successor", "identity+successor", {"cat": "dog"}])
def test_a_run_keeps_the_map(tmp_path, writes):
    auto = at.automaton.learn_writing(TEXTS, window=6, writes=writes, out=tmp_path / "run")
    again = load_attention(auto.save(tmp_path / "saved"))
    for other in (WritingAutomaton.load(tmp_path / "run"), again):
        assert isinstance(other, WritingAutomaton)
        assert repr(other) == repr(auto)
        assert other.writing.table.tolist() == auto.writing.table.tolist()
        assert other.coverage == auto.coverage
        assert other.window == 6
        assert str(other.explain("a dog and a")) == str(auto.explain("a dog and a"))
        assert other.predict("a dog and a") == auto.predict("a dog and a")
    with pytest.raises(UnsupportedOption, match="load_attention"):
        at.Automaton.load(tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["config"]["writes"] == auto.writing.name


def test_a_run_that_copies_is_no_head_that_writes(tmp_path):
    at.learn(TEXTS, out=tmp_path / "run")
    assert type(load_attention(tmp_path / "run")) is at.Automaton
    with pytest.raises(UnsupportedOption, match=r"Automaton\.load"):
        WritingAutomaton.load(tmp_path / "run")


def test_selections_keep_what_they_keep():
    samples = at.Samples.from_windows([0, 1, 2, 0, 1, 3, 2, 0, 3, 1, 0, 2], window=4, n_tokens=4)
    whole = at.automaton.learn_writing(samples, writes="successor")
    for options in ({"queries": [0, 2]}, {"queries": 2}, {"max_window": 2}, {"min_support": 2}):
        keep = at.Selection(**options)
        some = at.automaton.learn_writing(samples, writes=whole.writing.table, keep=keep)
        assert some.coverage.n_read <= whole.coverage.n_read
        if options.get("queries") == [0, 2]:
            for side in ("hard", "soft"):
                rows = np.isin(column(getattr(whole.reads, side).scores, "query"), [0, 2])
                expected = column(getattr(whole.reads, side).scores, "score")[rows]
                assert column(getattr(some.reads, side).scores, "score") == pytest.approx(expected)


def test_what_cannot_be_done_is_refused(tmp_path):
    at.tokenize_corpus(TEXTS, tmp_path / "shards")
    with pytest.raises(UnsupportedOption, match="shards"):
        at.automaton.learn_writing(tmp_path / "shards", writes="successor")
    auto = at.automaton.learn_writing(TEXTS, writes="successor")
    with pytest.raises(AttributeError, match=r"\.reads\.components"):
        _ = auto.components
    with pytest.raises(AttributeError, match=r"\.reads\.at"):
        auto.at(10)
    with pytest.raises(UnsupportedOption, match="reads"):
        at.diff(auto, auto)
    with pytest.raises(UnsupportedOption, match="reads"):
        auto.plot("the")
    with pytest.raises(InvalidSamples, match="write the label"):
        at.automaton.learn_writing(TEXTS, writes={"cat": "dog"}).score(["cat ran"])
    with pytest.raises(AttomatonError):
        at.automaton.learn_writing(TEXTS, writes="successor", embeddings=np.eye(3))


def test_a_map_that_reaches_nothing_warns():
    samples = at.Samples.from_lists([[0, 1], [1, 0]], [2, 2], n_tokens=3)
    with pytest.warns(NothingRealisable, match="can learn nothing"):
        auto = at.automaton.learn_writing(samples, writes=[1, 0, 2])
    assert auto.predict([0, 1]) == {0: 0.5, 1: 0.5}


def test_embeddings_join_queries():
    samples = at.Samples.from_windows([0, 1, 2, 0, 1, 3, 2, 0, 3, 1, 0, 2], window=4, n_tokens=4)
    plain, given_ids = (
        at.automaton.learn_writing(samples, writes="successor"),
        at.automaton.learn_writing(samples, writes="successor", embeddings=np.eye(4)),
    )
    for context, _ in samples:
        assert given_ids.predict_proba(context) == pytest.approx(plain.predict_proba(context), abs=1e-5)


def test_what_is_written_is_shown_and_in_tables():
    for writes in ("successor", "identity+successor"):
        auto = learn_writing(["a b c a b d a b", "c d a b c"], writes)
        frame, told = auto.to_pandas(), auto.explain("d c a")
        keys = np.array(auto.reads.components.token_of_node)
        assert frame["writes"].tolist() == [auto.name(int(token)) for token in auto.writing.write(keys)]
        assert set(told.to_pandas()["writes"]) - {""} == {auto.name(token) for token in told.written}
        for token, probability in told.written.items():
            assert f"writes {auto.name(token)} with probability {probability:.6f}" in str(auto.show("d c a"))
