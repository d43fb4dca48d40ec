"""Laws of counting classes in samples."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import attomaton as at
from attomaton.base.errors import InvalidSamples
from attomaton.theories.scansnap import classes as module
from attomaton.theories.scansnap.classes import CorpusClasses, classes_of_contexts, draw_linear_classes
from tests.relabelling import relabel
from tests.strategies import orderings, sample_sets
from tests.theories.scansnap.definitions import entries_of


def counted_sets(**limits):
    """Sample sets of several tokens in which some token stands before a query."""
    return sample_sets(min_samples=1, **limits).filter(
        lambda samples: (samples.lengths > 1).any() and samples.n_tokens > 1
    )


def as_dict(classes):
    """(query, label) → share, mean length, law as a dictionary."""
    found = {}
    for n in range(len(classes)):
        tokens, probabilities = entries_of(classes, n)
        key = int(classes.queries[n]), int(classes.labels[n])
        found[key] = (
            classes.shares[n],
            classes.lengths[n],
            dict(zip(tokens.tolist(), probabilities, strict=True)),
        )
    return found


def define_classes(samples, min_samples=1):
    """The definition: count what stands before the last position of every context."""
    seen, keys = Counter(), defaultdict(Counter)
    for context, label in samples:
        if len(context) > 1:
            seen[context[-1], label] += 1
            keys[context[-1], label].update(context[:-1])
    kept = {key: count for key, count in seen.items() if count >= min_samples}
    return {
        key: (
            count / sum(kept.values()),
            keys[key].total() / count,
            {token: number / keys[key].total() for token, number in keys[key].items()},
        )
        for key, count in kept.items()
    }


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for key, (share, length, law) in wanted.items():
        assert found[key][:2] == pytest.approx((share, length))
        assert found[key][2] == pytest.approx(law)


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(counted_sets(), st.integers(2, 4))
def test_classes_of_too_few_samples_are_refused(samples, min_samples):
    assume(not define_classes(samples, min_samples))
    with pytest.raises(InvalidSamples, match="lower min_samples"):
        CorpusClasses.from_samples(samples, min_samples=min_samples)


@given(counted_sets(), st.integers(1, 3), st.integers(1, 40))
def test_classes_are_what_the_definition_says(samples, min_samples, at_once):
    wanted = define_classes(samples, min_samples)
    assume(wanted)
    whole, module.TOKENS_AT_ONCE = module.TOKENS_AT_ONCE, at_once  # in pieces of any size
    try:
        found = CorpusClasses.from_samples(samples, min_samples=min_samples)
    finally:
        module.TOKENS_AT_ONCE = whole
    assert_same(as_dict(found), wanted)
    assert found.n_samples == round(sum(share for share, _, _ in wanted.values()) * found.n_samples)


@given(counted_sets())
def test_shares_and_laws_add_up_to_one(samples):
    classes = CorpusClasses.from_samples(samples)
    assert classes.shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(np.add.reduceat(classes.probabilities, classes.offsets[:-1]), 1)
    np.testing.assert_allclose(np.add.reduceat(classes.features**2, classes.offsets[:-1]), 1)
    for n in range(len(classes)):
        assert (np.diff(entries_of(classes, n)[0]) > 0).all()


@given(counted_sets(), orderings(6))
def test_permuting_token_ids_permutes_the_answer(samples, order):
    new = order[order < samples.n_tokens]
    before = CorpusClasses.from_samples(samples)
    after = CorpusClasses.from_samples(relabel(samples, new))
    renamed = {
        (int(new[query]), int(new[label])): (share, length, {int(new[token]): p for token, p in law.items()})
        for (query, label), (share, length, law) in as_dict(before).items()
    }
    assert_same(as_dict(after), renamed)
    assert sorted(new[before.distinct(0.2)].tolist()) == after.distinct(0.2).tolist()
    np.testing.assert_allclose(after.concentration[new], before.concentration)


@given(counted_sets(), st.integers(2, 4))
def test_repeating_every_sample_changes_nothing(samples, times):
    repeated = samples
    for _ in range(times - 1):
        repeated = repeated + samples
    assert_same(as_dict(CorpusClasses.from_samples(repeated)), as_dict(CorpusClasses.from_samples(samples)))


@given(counted_sets(max_samples=20), counted_sets(max_samples=20))
def test_a_corpus_in_two_parts_is_their_mixture(one, other):
    """Laws mix by the number of keys, shares by the number of samples."""
    parts = [as_dict(CorpusClasses.from_samples(part)) for part in (one, other)]
    sizes = [CorpusClasses.from_samples(part).n_samples for part in (one, other)]
    together = as_dict(CorpusClasses.from_samples(one + other))
    assert together.keys() == parts[0].keys() | parts[1].keys()
    for key, (share, length, law) in together.items():
        held = [
            (size * part[key][0], *part[key][1:])
            for size, part in zip(sizes, parts, strict=True)
            if key in part
        ]
        n_samples, n_keys = sum(n for n, _, _ in held), sum(n * mean for n, mean, _ in held)
        assert share == pytest.approx(n_samples / sum(sizes))
        assert length == pytest.approx(n_keys / n_samples)
        for token, probability in law.items():
            mixed = sum(n * mean * part.get(token, 0.0) for n, mean, part in held)
            assert probability == pytest.approx(mixed / n_keys)


@given(counted_sets())
def test_merging_two_labels_gives_the_mixture_by_their_number_of_keys(samples):
    merged = at.Samples(
        samples.values,
        samples.starts,
        samples.stops,
        np.where(samples.labels == 1, 0, samples.labels).astype(np.int32),
        samples.n_tokens,
    )
    apart, joined = (as_dict(CorpusClasses.from_samples(one)) for one in (samples, merged))
    for (query, label), (share, _, law) in joined.items():
        parts = [apart[query, old] for old in ((0, 1) if label == 0 else (label,)) if (query, old) in apart]
        n_keys = sum(part[0] * part[1] for part in parts)
        assert share == pytest.approx(sum(part[0] for part in parts))
        for token, probability in law.items():
            mixed = sum(part[0] * part[1] * part[2].get(token, 0.0) for part in parts) / n_keys
            assert probability == pytest.approx(mixed)


def test_the_query_is_no_key_but_its_earlier_occurrences_are():
    classes = CorpusClasses.from_samples(
        at.Samples.from_lists([[2, 0, 2], [1, 2], [2]], [1, 1, 1], n_tokens=3)
    )
    assert as_dict(classes) == {(2, 1): (1.0, 1.5, pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3}))}


@given(counted_sets(max_samples=20), st.booleans())
def test_contexts_as_classes_are_the_distinct_bags(samples, query_is_key):
    wanted = Counter()
    for context, label in samples:
        keys = context if query_is_key else context[:-1]
        if keys:
            wanted[context[-1], label, tuple(sorted(keys))] += 1
    classes = classes_of_contexts(samples, query_is_key=query_is_key)
    found = {}
    for n in range(len(classes)):
        tokens, probabilities = entries_of(classes, n)
        bag = np.repeat(tokens, np.rint(probabilities * classes.lengths[n]).astype(int))
        found[int(classes.queries[n]), int(classes.labels[n]), tuple(bag.tolist())] = classes.shares[n]
    assert found == pytest.approx({key: count / wanted.total() for key, count in wanted.items()})


def test_contexts_of_one_pair_average_to_its_class():
    samples = at.Samples.from_lists([[0, 1, 3], [1, 1, 3], [2, 0, 3]], [1, 1, 0], n_tokens=4)
    contexts, classes = classes_of_contexts(samples), CorpusClasses.from_samples(samples)
    own = contexts.take(np.flatnonzero(contexts.labels == 1))
    np.testing.assert_allclose(own.dense.mean(axis=0), classes.dense[classes.labels == 1][0])


def test_taking_classes_keeps_their_shares_and_a_query_alone_has_them_all():
    classes = draw_linear_classes(2, classes_per_query=2)
    some = classes.take(np.array([3, 0]))
    assert some.shares.tolist() == [0.25, 0.25]
    np.testing.assert_array_equal(some.dense, classes.dense[[3, 0]])
    assert classes.of_queries(classes.queries[:1]).shares.tolist() == [0.5, 0.5]


@given(counted_sets())
def test_queries_apart_hold_all_samples_together(samples):
    classes = CorpusClasses.from_samples(samples)
    apart = [classes.of_queries([query]) for query in np.unique(classes.queries)]
    assert sum(one.n_samples for one in apart) == classes.n_samples == (samples.lengths > 1).sum()
    assert sum(len(one) for one in apart) == len(classes)
