"""Laws of edges, components, order, reduction and choices."""

from collections import Counter
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import attomaton as at
from attomaton.graphs import choices, edges
from attomaton.graphs.choices import choices_by_definition
from attomaton.graphs.components import count_strong_components, find_ties, reduce_order
from attomaton.graphs.edges import edges_by_definition
from tests.drawn import as_counter, components_of, networkx_graph, parts_of
from tests.relabelling import relabel
from tests.strategies import arcs, edge_tables, many, orderings, sample_sets, seeds, tied_sets

pytestmark = pytest.mark.costly("200 examples each")


@st.composite
def block_orders(draw, max_blocks, largest):
    """Blocks of one to ``largest`` tokens, and any arcs between them."""
    sizes = draw(many(st.integers(1, largest), max_blocks, fewest=1))
    pairs = np.column_stack(draw(arcs(len(sizes), len(sizes) * (len(sizes) - 1) // 2))).tolist()
    return at.synthetic.BlockOrder(tuple(sizes), tuple((above, below) for above, below in pairs))


@given(sample_sets())
@example(at.Samples.from_lists([], []))
@example(at.Samples.from_lists([[0]], [0]))
@example(at.Samples.from_lists([[0, 1]], [2]))
def test_fast_edges_equal_the_definition(samples):
    found = at.extract_edges(samples)
    assert as_counter(found) == dict(edges_by_definition(samples))
    realisable = sum(label in context for context, label in samples)
    assert (found.n_samples, found.n_unrealisable) == (realisable, len(samples) - realisable)


@given(sample_sets(max_samples=20), st.integers(1, 12))
def test_chunks_change_nothing(samples, chunk):
    with pytest.MonkeyPatch.context() as patch:
        whole = at.extract_edges(samples)
        components = at.find_components(whole)
        all_choices, contexts = at.extract_choices(samples, components), at.extract_choices(samples)
        patch.setattr(edges, "CHUNK_VALUES", chunk)
        patch.setattr(choices, "CHUNK_VALUES", chunk)
        assert at.extract_edges(samples).rows.equals(whole.rows)
        assert at.extract_choices(samples, components).rows.equals(all_choices.rows)
        assert at.extract_choices(samples).rows.equals(contexts.rows)


@given(sample_sets(), st.integers(0, 25))
def test_a_corpus_cut_in_two_adds_up_to_the_whole(samples, cut):
    first, second = samples.take(slice(0, cut)), samples.take(slice(cut, None))
    whole, summed = at.extract_edges(samples), at.extract_edges(first) + at.extract_edges(second)
    assert summed.rows.equals(whole.rows)
    assert summed.queries.equals(whole.queries)
    components = at.find_components(whole)
    added = at.extract_choices(first, components) + at.extract_choices(second, components)
    assert added.rows.equals(at.extract_choices(samples, components).rows)
    whole_contexts = at.extract_choices(first) + at.extract_choices(second)
    assert whole_contexts.rows.equals(at.extract_choices(samples).rows)


@given(sample_sets(), sample_sets())
def test_adding_edge_tables_is_extracting_from_both_corpora(one, other):
    summed = at.extract_edges(one) + at.extract_edges(other)
    both = at.extract_edges(one + other)
    assert summed.rows.equals(both.rows)
    assert summed.queries.equals(both.queries)
    assert summed.n_tokens == both.n_tokens


@given(tied_sets(), st.integers(2, 4))
def test_duplicating_all_samples_changes_support_only(samples, times):
    once, repeated = at.extract_edges(samples), samples
    for _ in range(times - 1):
        repeated = repeated + samples
    more = at.extract_edges(repeated)
    assert as_counter(more) == {key: times * support for key, support in as_counter(once).items()}
    components, again = at.find_components(once), at.find_components(more)
    hard, soft = at.solve_graph_svm(components), at.solve_luce(samples, components)
    assert at.solve_graph_svm(again).scores.equals(hard.scores)
    np.testing.assert_allclose(
        at.solve_luce(repeated, again).scores.column("score"), soft.scores.column("score"), atol=1e-7
    )
    assert again.nodes.equals(components.nodes)
    assert again.order.select(["above", "below", "edges"]).equals(
        components.order.select(["above", "below", "edges"])
    )


@given(edge_tables())
def test_components_equal_networkx(table):
    components, graph = at.find_components(table), networkx_graph(table)
    expected = {
        (next(iter(part))[0], frozenset(token for _, token in part))
        for part in nx.strongly_connected_components(graph)
    }
    assert parts_of(components) == expected
    first = [(int(components.query_of[c]), int(components.tokens(c)[0])) for c in range(len(components))]
    assert first == sorted(first)


@given(tied_sets().filter(lambda samples: components_of(samples).order.num_rows > 0))
def test_the_condensation_is_acyclic_and_carries_every_edge(samples):
    components = at.find_components(at.extract_edges(samples))
    order = nx.DiGraph()
    order.add_nodes_from(range(len(components)))
    order.add_edges_from((row["above"], row["below"]) for row in components.order.to_pylist())
    assert nx.is_directed_acyclic_graph(order)
    edges, support = Counter(), Counter()
    for row in components.edges.rows.to_pylist():
        above = components.component(row["query"], row["winner"])
        below = components.component(row["query"], row["loser"])
        if above != below:
            edges[above, below] += 1
            support[above, below] += row["support"]
    rows = components.order.to_pylist()
    assert {(row["above"], row["below"]): row["edges"] for row in rows} == edges
    assert {(row["above"], row["below"]): row["support"] for row in rows} == support
    assert [(r["above"], r["below"]) for r in rows] == sorted(edges)


@given(st.lists(block_orders(max_blocks=14, largest=3), min_size=1, max_size=3), seeds, st.data())
def test_reduction_keeps_reachability_and_nothing_more(orders, seed, data):
    """Up to three queries with blocks of one to three tokens, the tokens renamed in any way."""
    rng = np.random.default_rng(seed)
    samples = at.Samples.from_lists([], [])
    for order in orders:
        drawn = at.synthetic.corpus(order, n_samples=200, rng=rng)
        samples = samples + relabel(drawn, data.draw(orderings(drawn.n_tokens)))
    components = at.find_components(at.extract_edges(samples))
    full = nx.DiGraph((row["above"], row["below"]) for row in components.order.to_pylist())
    reduced = nx.DiGraph((row["above"], row["below"]) for row in reduce_order(components).to_pylist())
    assert set(reduced.edges) == set(nx.transitive_reduction(full).edges)
    assert set(nx.transitive_closure(reduced).edges) == set(nx.transitive_closure(full).edges)


@given(tied_sets())
def test_ties_span_each_component_and_no_more(samples):
    components = at.find_components(at.extract_edges(samples))
    ties = nx.Graph()
    ties.add_nodes_from(range(components.nodes.num_rows))
    ties.add_edges_from(zip(*(side.tolist() for side in find_ties(components)), strict=True))
    assert not ties or nx.is_forest(ties)
    found = {
        frozenset(components.component_of_node[list(part)].tolist()) for part in nx.connected_components(ties)
    }
    assert found == {frozenset([number]) for number in range(len(components))}


@given(sample_sets(max_samples=40))
def test_heights_are_longest_paths(samples):
    components = at.find_components(at.extract_edges(samples))
    order = nx.DiGraph()
    order.add_nodes_from(range(len(components)))
    order.add_edges_from((row["above"], row["below"]) for row in components.order.to_pylist())
    for number in nx.topological_sort(order.reverse()):
        below = [components.heights[child] for child in order.successors(number)]
        assert components.heights[number] == (max(below) + 1 if below else 0)
    for query, ordered in zip(components.queries, components.totally_ordered, strict=True):
        part = order.subgraph(np.flatnonzero(components.query_of == query).tolist())
        line = list(nx.topological_sort(part))
        assert ordered == all(part.has_edge(a, b) for a, b in pairwise(line))


@given(tied_sets(max_tokens=4, max_samples=60), st.booleans())
def test_fast_choices_equal_the_definition(samples, whole):
    components = None if whole else at.find_components(at.extract_edges(samples))
    rows = at.extract_choices(samples, components).rows.to_pylist()
    found = {
        (row["query"], row["winner"], tuple(zip(row["tokens"], row["multiplicities"], strict=True))): row[
            "count"
        ]
        for row in rows
    }
    assert found == dict(choices_by_definition(samples, components))
    assert list(found) == sorted(found)


@given(block_orders(max_blocks=6, largest=4), seeds)
def test_synthetic_corpora_have_the_answer_they_promise(order, seed):
    sizes = order.sizes
    samples = at.synthetic.corpus(order, n_samples=100, rng=np.random.default_rng(seed))
    components = at.find_components(at.extract_edges(samples))
    expected = {frozenset(np.flatnonzero(order.block_of == block).tolist()) for block in range(len(sizes))}
    assert parts_of(components) == {(order.query, tokens) for tokens in expected}
    full = nx.DiGraph((row["above"], row["below"]) for row in components.order.to_pylist())
    number = {block: components.component(order.query, sum(sizes[:block])) for block in range(len(sizes))}
    reach = nx.transitive_closure(full)
    for above in range(len(sizes)):
        for below in range(len(sizes)):
            assert order.precedes[above, below] == reach.has_edge(number[above], number[below])


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=40), st.randoms())
def test_strong_components_of_edges_that_repeat_in_any_order(pairs, shuffled):
    repeated = [*pairs, *pairs]
    shuffled.shuffle(repeated)
    winner, loser = np.array(repeated, np.int64).reshape(-1, 2).T
    graph = nx.DiGraph(pairs)
    graph.add_nodes_from(range(8))
    expected = nx.number_strongly_connected_components(graph)
    assert count_strong_components(winner, loser, 8) == expected
