"""AttentionLimit: scikit-learn's own checks, and that it is the automaton."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import attomaton as at
from attomaton.automaton.estimator import AttentionLimit
from attomaton.base.errors import EmptyContext, InvalidSamples, TokenOutOfRange
from tests.strategies import embedded, sample_sets


def expected_failures(estimator):
    if estimator.padding is None:
        return {}
    return {"check_fit_non_negative": "it feeds -1, which is padding by default; padding=None passes it"}


@parametrize_with_checks(
    [AttentionLimit(), AttentionLimit(padding=None)], expected_failed_checks=expected_failures
)
@pytest.mark.filterwarnings("ignore:none of the:UserWarning")  # some checks give names as labels
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def as_rows(samples, padding=-1, window=8):
    """Contexts as rows, padded on the left."""
    rows = np.full((len(samples), window), padding)
    for row, (context, _) in zip(rows, samples, strict=True):
        row[window - len(context) :] = context
    return rows


SETS = sample_sets(max_samples=25, min_samples=1)


@given(embedded(SETS, perhaps=True), SETS)
@pytest.mark.filterwarnings("ignore:none of the:UserWarning")
@pytest.mark.filterwarnings("ignore::attomaton.base.errors.NothingRealisable")
def test_the_estimator_is_the_automaton_given_that_the_label_is_a_class(drawn, asked):
    samples, embeddings = drawn
    model = AttentionLimit(embeddings=embeddings).fit(as_rows(samples), samples.labels)
    auto = at.learn(samples, embeddings=embeddings)
    contexts = [[token % samples.n_tokens for token in context] for context, _ in [*samples, *asked]]
    asked = at.Samples.from_lists(contexts, [0] * len(contexts), n_tokens=samples.n_tokens)
    probabilities = model.predict_proba(as_rows(asked))
    classes = model.classes_.tolist()
    assert classes == sorted(set(samples.labels.tolist()))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
    for context, row in zip(contexts, probabilities, strict=True):
        whole = auto.predict_proba(context)[classes]
        inside = [label in context for label in classes]
        if whole.sum() > 0:
            np.testing.assert_allclose(row, whole / whole.sum(), atol=1e-12)
        elif any(inside):
            assert row[~np.array(inside)].sum() == 0
        else:
            np.testing.assert_allclose(row, [np.mean(samples.labels == label) for label in classes])
    assert model.predict(as_rows(asked)).tolist() == model.classes_[probabilities.argmax(axis=1)].tolist()
    assert model.n_unrealisable_ == auto.components.edges.n_unrealisable


@given(SETS, st.integers(6, 20), st.lists(st.permutations(range(8)), min_size=1, max_size=25))
@pytest.mark.filterwarnings("ignore:none of the:UserWarning")
def test_padding_may_be_a_value_or_a_mask_and_stand_anywhere(samples, padding, places):
    rows = as_rows(samples)
    expected = AttentionLimit().fit(rows, samples.labels).predict_proba(rows)
    scattered = np.full_like(rows, padding)
    for number, (context, _) in enumerate(samples):
        scattered[number, sorted(places[number % len(places)][: len(context)])] = context
    other = AttentionLimit(padding=padding).fit(scattered, samples.labels)
    assert other.automaton_.n_tokens <= 6
    assert other.predict_proba(scattered).tobytes() == expected.tobytes()
    hidden = np.ma.masked_array(scattered, scattered == padding, fill_value=3)
    for value in (None, -1):
        model = AttentionLimit(padding=value).fit(hidden, samples.labels)
        assert model.predict_proba(hidden).tobytes() == expected.tobytes()


ROWS, LABELS = [[0, 1, 2], [1, 0, 2], [-1, 1, 2], [3, 1, 4]], [0, 1, 1, 3]


def test_tokens_and_queries_that_were_never_seen():
    model = AttentionLimit().fit(ROWS, LABELS)
    probabilities = model.predict_proba([[0, 900, 2], [0, 0, 3], [0, 1, 2**40], [900, 901, 902], [4, 2, 0]])
    np.testing.assert_allclose(probabilities[0], [1, 0, 0])  # 900 was never a label, so it has no column
    np.testing.assert_allclose(probabilities[1], [2 / 3, 0, 1 / 3])  # no sample has the query 3
    np.testing.assert_allclose(probabilities[2], [0.5, 0.5, 0])
    np.testing.assert_allclose(probabilities[3], model.class_frequencies_)  # nothing that could be chosen
    np.testing.assert_allclose(probabilities[4], [1, 0, 0])  # 4 and 2 were never labels
    assert model.predict([[0, 900, 2], [900, 901, 902]]).tolist() == [0, 1]


def test_labels_that_are_in_no_context_are_counted_and_an_empty_lesson_is_said():
    model = AttentionLimit().fit([*ROWS, [0, 1, 2]], [*LABELS, 77])
    assert (model.n_unrealisable_, model.classes_.tolist()) == (1, [0, 1, 3, 77])
    assert model.predict_proba([[0, 1, 2]])[0, 3] == 0
    assert AttentionLimit().fit(np.array(ROWS, float), np.array(LABELS, float)).n_unrealisable_ == 0
    with pytest.warns(UserWarning, match="none of the 4 samples has its label in its context"):
        model = AttentionLimit().fit(ROWS, ["a", "b", "b", "c"])
    assert model.predict(ROWS).tolist() == ["b"] * 4
    assert model.n_unrealisable_ == 4
    with pytest.warns(UserWarning, match="nothing to learn"):
        AttentionLimit().fit(ROWS, [-5, -5, 9, 9])


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (
            [[0, 1], [-100, 1]],
            TokenOutOfRange,
            r"-100 in row 1, column 0 of X, .*padding=-100",
        ),
        (
            [[0.5, 1], [0, 1]],
            InvalidSamples,
            "0.5 in row 0, column 0 of X is not a token id; number",
        ),
        ([[0, 1], [-1, -1]], EmptyContext, "row 1 of X has only padding"),
        ([[0, 1], [2**21, 1]], InvalidSamples, "the largest token id is 2097152, .*; number the"),
    ],
)
def test_what_is_no_context_is_refused(rows, error, message):
    with pytest.raises(error, match=message):
        AttentionLimit().fit(rows, [1, 1])


def test_an_uncertified_answer_warns():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 5, (200, 6))
    labels = [rng.choice(row) for row in rows]
    with pytest.warns(ConvergenceWarning, match="before its answer could be certified"):
        AttentionLimit(atol=1e-300).fit(rows, labels)


def test_it_can_be_searched_over_and_scored():
    samples = at.synthetic.corpus(at.synthetic.Blocks([2, 1, 2]), n_samples=120, rng=np.random.default_rng(0))
    rows = as_rows(samples)
    search = GridSearchCV(AttentionLimit(), {"min_support": [1, 2, 3]}, cv=3).fit(rows, samples.labels)
    assert search.best_score_ > 0.5
    model = search.best_estimator_
    assert model.score(rows, samples.labels) == np.mean(model.predict(rows) == samples.labels)
    with pytest.raises(at.AttomatonError, match="min_support is 0"):
        AttentionLimit(min_support=0).fit(rows, samples.labels)


def test_without_scikit_learn_the_rest_works_and_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import attomaton\n"
        "try: import attomaton.automaton.estimator\n"
        "except attomaton.AttomatonError as error: print(isinstance(error, ImportError), error)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("True AttentionLimit needs scikit-learn")
    assert "pip install 'attomaton[sklearn]'" in result.stdout


@pytest.mark.parametrize(
    ("kind", "largest", "label"), [(np.uint8, 255, 255), (np.int8, 100, 200), (np.uint64, 300, 300)]
)
def test_contexts_of_small_integers(kind, largest, label):
    rows = np.array([[0, largest], [largest, 1], [largest, 0]])
    y = [0, largest, label]
    model = AttentionLimit(padding=None).fit(rows.astype(kind), y)
    asked = np.array([[0, 1], [largest, 0]])
    expected = AttentionLimit(padding=None).fit(rows, y).predict_proba(asked)
    np.testing.assert_array_equal(model.predict_proba(asked.astype(kind)), expected)


def test_ids_beyond_any_vocabulary_are_unknown_tokens():
    model = AttentionLimit().fit([[0, 1], [1, 0]], [0, 1])
    for huge in (np.array([[2**63 + 5, 0]], np.uint64), np.array([[1e300, 0.0]])):
        np.testing.assert_array_equal(model.predict_proba(huge), model.predict_proba([[7, 0]]))


def test_too_few_embeddings():
    with pytest.raises(
        TokenOutOfRange, match="largest token id is 4, but embeddings have only 3 rows; give one row"
    ):
        AttentionLimit(embeddings=np.eye(3)).fit([[0, 4], [4, 0]], [0, 4])
