"""diff(): the relations of two corpora, against plain reachability."""

import networkx as nx
import pytest
from hypothesis import given, strategies as st

import attomaton as at
from attomaton.automaton.compare import Change, diff
from attomaton.base.errors import MismatchedParts
from tests.drawn import learn_parts, networkx_graph
from tests.relabelling import relabel
from tests.strategies import sample_sets

WORDS = ("ant", "bee", "cat", "dog", "elk", "fox")


def relation_by_definition(graph, query, one, other):
    """What ``one`` does to ``other``, from paths between them."""
    if (query, one) not in graph or (query, other) not in graph:
        return "unseen"
    down = nx.has_path(graph, (query, one), (query, other))
    up = nx.has_path(graph, (query, other), (query, one))
    return {(True, True): "ties", (True, False): "precedes", (False, True): "follows"}.get(
        (down, up), "unordered"
    )


def change_by_definition(in_a, in_b):
    related_a, related_b = (relation in ("precedes", "follows", "ties") for relation in (in_a, in_b))
    if not related_b:
        return "lost"
    if not related_a:
        return "gained"
    if in_a == "ties":
        return "split"
    return "merged" if in_b == "ties" else "reversed"


def differences_by_definition(a, b):
    """{(query, one, other): (change, in_a, in_b, supports)} over all pairs with an edge in either corpus."""
    edges = [at.extract_edges(samples) for samples in (a, b)]
    graphs = [networkx_graph(table) for table in edges]
    supports = [
        {(row["query"], row["winner"], row["loser"]): row["support"] for row in table.rows.to_pylist()}
        for table in edges
    ]
    pairs = {(query, min(i, j), max(i, j)) for table in supports for query, i, j in table}
    found = {}
    for query, one, other in pairs:
        in_a, in_b = (relation_by_definition(graph, query, one, other) for graph in graphs)
        if in_a != in_b:
            shown = [
                table.get(edge, 0)
                for table in supports
                for edge in ((query, one, other), (query, other, one))
            ]
            found[query, one, other] = (change_by_definition(in_a, in_b), in_a, in_b, *shown)
    return found, len(pairs)


def rows_of(difference):
    names = ("change", "in_a", "in_b", "wins_a", "losses_a", "wins_b", "losses_b")
    return {
        (row["query"], row["token"], row["rival"]): tuple(row[name] for name in names)
        for row in difference.rows.to_pylist()
    }


SETS = sample_sets(max_samples=25)


@given(SETS, SETS)
def test_differences_equal_the_definition(one, other):
    difference = diff(at.Automaton(*learn_parts(one)), at.Automaton(*learn_parts(other)))
    expected, n_pairs = differences_by_definition(one, other)
    assert rows_of(difference) == expected
    assert (len(difference), difference.n_pairs) == (len(expected), n_pairs)
    keys = list(rows_of(difference))
    assert keys == sorted(keys)
    for change, count in difference.counts.items():
        assert count == sum(row[0] == change.name.lower() for row in expected.values())


@given(SETS, SETS, st.permutations(range(6)))
def test_tokens_are_matched_by_their_text(one, other, shuffled):
    """Renumbering the words of one corpus changes nothing that is said in words."""
    automata = [at.Automaton(*learn_parts(samples), at.Vocabulary(WORDS)) for samples in widen(one, other)]
    moved = relabel(widen(one, other)[1], shuffled)
    names = [""] * 6
    for old, new in enumerate(shuffled):
        names[new] = WORDS[old]
    renamed = at.Automaton(*learn_parts(moved), at.Vocabulary(tuple(names)))
    assert diff(automata[0], renamed).rows.equals(diff(*automata).rows)


def widen(*sets):
    return [at.Samples(s.values, s.starts, s.stops, s.labels, 6) for s in sets]


@given(SETS)
def test_a_corpus_does_not_differ_from_itself_and_swapping_swaps(samples):
    auto = at.Automaton(*learn_parts(samples))
    assert len(diff(auto, auto)) == 0
    nothing = at.learn(at.Samples.from_lists([], []))
    assert diff(auto, nothing).counts[Change.LOST] == diff(nothing, auto).counts[Change.GAINED]
    assert len(diff(auto, nothing)) == diff(auto, nothing).n_pairs


def test_words_that_only_one_corpus_has_are_unseen_in_the_other(tmp_path):
    (tmp_path / "a.txt").write_text("x y x z x y\n")
    (tmp_path / "b.txt").write_text("w y w z w y\n")
    a, b = (at.learn(tmp_path / name, window=4) for name in ("a.txt", "b.txt"))
    difference = diff(a, b)
    assert set(difference.tokens) == {"x", "y", "z", "w", "<eos>"}
    assert {row["change"] for row in difference.rows.to_pylist()} == {"lost", "gained"}


def test_the_text_names_the_strongest_differences():
    contexts = [[0, 1, 2]] * 5 + [[3, 1, 2]] * 2 + [[4, 3, 2]] * 3
    a = at.learn(at.Samples.from_lists(contexts, [0] * 5 + [3] * 2 + [4, 3, 4]))
    b = at.learn(at.Samples.from_lists(contexts, [1] * 5 + [1] * 2 + [4, 4, 4]))
    text = str(diff(a, b))
    lines = [" ".join(line.strip("│").split()) for line in text.splitlines()]
    assert lines[0] == "6 of 7 pairs of tokens are related differently in a and b."
    assert "reversed │ 2 │ each corpus puts the other token first" in lines
    start = lines.index("Strongest reversed")
    assert lines[start + 4] == "2 │ 0 before 1 ×5 │ 1 before 0 ×5"
    assert lines[start + 5] == "2 │ 3 before 1 ×2 │ 1 before 3 ×2"
    assert "2 │ 3 and 4 tie, 1 to 2 │ 4 before 3 ×3" in lines
    assert repr(diff(a, b)) == "Difference(6 of 7 pairs)"


def test_one_vocabulary_is_refused():
    plain = at.learn([0, 1, 0, 1], window=2)
    named = at.Automaton(plain.components, plain.hard, plain.soft, at.Vocabulary(("a", "b")))
    with pytest.raises(MismatchedParts, match="only one of the two automata has a vocabulary"):
        diff(plain, named)


def test_paths_are_followed_where_there_is_no_edge():
    a = at.learn(at.Samples.from_lists([[0, 1, 9], [1, 2, 9]], [0, 1]))
    b = at.learn(at.Samples.from_lists([[0, 2, 9]], [0]))
    rows = rows_of(diff(a, b))
    assert (9, 0, 2) not in rows  # a path in a, an edge in b: the same priority
    assert rows[9, 0, 1][:3] == ("lost", "precedes", "unseen")
