"""Labels that several keys of a context write."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.automaton.ov_maps.maps import Writing
from attomaton.automaton.ov_maps.writers import count_writers, find_writers, pull_first
from attomaton.graphs.choices import choices_by_definition

N = 5
tables = st.lists(st.integers(0, N - 1), min_size=N, max_size=N)
lists = st.lists(
    st.tuples(st.lists(st.integers(0, N - 1), min_size=1, max_size=6), st.integers(0, N - 1)),
    min_size=1,
    max_size=12,
)


def written_edges_by_definition(
    samples: at.Samples, writing: Writing, chosen: Sequence[int]
) -> Counter[tuple[int, int, int]]:
    """Count the edges (query, winner, loser) by definition, for tests of :meth:`Writers.edges`."""
    edges: Counter[tuple[int, int, int]] = Counter()
    for (context, label), key in zip(samples, chosen, strict=True):
        for loser in set(context):
            if int(writing.write(np.array([loser]))[0]) != label:
                edges[context[-1], key, loser] += 1
    return edges


def as_samples(rows):
    return at.Samples.from_lists([context for context, _ in rows], [label for _, label in rows], n_tokens=N)


def draw_writers(rows, table, seed):
    """Reachable samples, their writers, and one writer of each by chance."""
    writing = Writing(np.array([table]))
    writers = find_writers(as_samples(rows), writing)
    rng = np.random.default_rng(seed)
    return writing, writers, writers.pick(rng.random(len(writers.writes)))


@given(lists, tables)
def test_writers_are_the_keys_that_write_the_label(rows, table):
    writing = Writing(np.array([table]))
    expected = [{token for token in context if table[token] == label} for context, label in rows]
    assert count_writers(as_samples(rows), writing).tolist() == [len(one) for one in expected]
    writers = find_writers(as_samples(rows), writing)
    bags, found = writers.bags, [set() for _ in range(len(writers))]
    for sample, token in zip(bags.sample[writers.writes], bags.token[writers.writes], strict=True):
        found[sample].add(int(token))
    assert found == [one for one in expected if one]


@given(lists, tables, st.integers(0, 9))
def test_edges_are_as_defined(rows, table, seed):
    writing, writers, chosen = draw_writers(rows, table, seed)
    edges = writers.edges(chosen)
    columns = (edges[name].tolist() for name in ("query", "winner", "loser", "support"))
    found = {(query, winner, loser): support for query, winner, loser, support in zip(*columns, strict=True)}
    assert found == written_edges_by_definition(writers.bags.samples, writing, chosen.tolist())
    assert edges.n_samples == len(writers)
    assert at.EdgeTable(edges.rows, edges.queries, edges.n_tokens).rows.equals(edges.rows)


def lose_others(samples, table, chosen):
    """Query, label and context of each sample without the other keys that write its label."""
    for (context, label), key in zip(samples, chosen, strict=True):
        yield context[-1], key, [one for one in context if table[one] != label or one == key]


@given(lists, tables, st.integers(0, 9), st.booleans())
def test_choices_are_those_of_contexts_without_the_other_writers(rows, table, seed, inside):
    _, writers, chosen = draw_writers(rows, table, seed)
    components = at.find_components(writers.edges(chosen)) if inside else None
    found = writers.choices(chosen, components)
    expected = Counter()
    nodes = [] if components is None else components.nodes.to_pylist()
    component = {(row["query"], row["token"]): row["component"] for row in nodes}
    for query, key, context in lose_others(writers.bags.samples, table, chosen.tolist()):
        if components is not None and (query, key) not in component:
            continue
        own = component.get((query, key))
        kept = Counter(one for one in context if component.get((query, one)) == own)
        if len(kept) > 1:
            expected[query, key, tuple(sorted(kept.items()))] += 1
    rows_found = {
        (row["query"], row["winner"], tuple(zip(row["tokens"], row["multiplicities"], strict=True))): row[
            "count"
        ]
        for row in found.rows.to_pylist()
    }
    assert rows_found == expected
    assert at.ChoiceTable(found.rows).rows.equals(found.rows)


@given(lists, st.permutations(range(N)), st.integers(0, 9))
def test_with_one_writer_each_everything_is_the_usual(rows, table, seed):
    _, writers, chosen = draw_writers(rows, table, seed)
    plain = writers.label(chosen)
    assert writers.edges(chosen).rows.equals(at.extract_edges(plain).rows)
    components = at.find_components(at.extract_edges(plain))
    assert writers.choices(chosen, components).rows.equals(at.extract_choices(plain, components).rows)
    assert choices_by_definition(plain, components).total() == sum(
        writers.choices(chosen, components)["count"].tolist()
    )


@given(lists, tables)
def test_the_first_pull_is_the_gradient_at_zero(rows, table):
    writers = find_writers(as_samples(rows), Writing(np.array([table])))
    pairs, pull = pull_first([writers])
    samples = list(writers.bags.samples)

    def loss(scores):
        total = 0.0
        for context, label in samples:
            mass = np.exp(scores[context[-1], list(context)])
            total -= np.log(mass[[table[one] == label for one in context]].sum() / mass.sum())
        return total

    for pair, value in zip(pairs.tolist(), pull.tolist(), strict=True):
        query, key = pair >> 21, pair & ((1 << 21) - 1)
        ends = []
        for step in (1e-4, -1e-4):
            scores = np.zeros((N, N))
            scores[query, key] = step
            ends.append(loss(scores))
        assert abs((ends[1] - ends[0]) / 2e-4 - value) < 1e-6
