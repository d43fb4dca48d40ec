"""The counts of the theory on real text, and the fast path against the definition on slices of it."""

import numpy as np
import pytest

import attomaton as at
from attomaton.automaton.compare import Change, diff
from attomaton.corpora.readers import read_text
from attomaton.graphs.edges import edges_by_definition
from attomaton.graphs.robustness import measure_robustness
from tests.drawn import as_counter


@pytest.mark.slow  # a real corpus
def test_valid_and_test_give_the_published_counts(wikitext):
    """Theory §2.3, up to the first 31 positions: those contexts are shorter than the window."""
    text = "".join((wikitext / f"{part}.txt").read_text(encoding="utf-8") for part in ("valid", "test"))
    _, ids = at.Vocabulary.from_text(text)
    assert len(ids) == 463_215
    samples = at.Samples.from_windows(ids, window=32)
    full = at.find_components(at.extract_edges(samples.take(samples.lengths == 32)))
    assert len(full.queries) == 13_327
    assert abs(len(full.edges) - 2_300_000) < 5_000
    assert abs(full.nodes.num_rows - 1_550_000) < 5_000
    assert abs(len(full) - 1_520_000) < 5_000
    assert abs(full.order.num_rows - 1_610_000) < 5_000
    assert (full.sizes > 1).sum() == 5_026
    assert full.sizes.max() == 1_053
    assert np.bincount(full.query_of).max() == 14_013
    for window, share in ((8, 0.12), (32, 0.33), (128, 0.53)):
        edges = at.extract_edges(at.Samples.from_windows(ids, window=window))
        assert abs(edges.n_samples / (edges.n_samples + edges.n_unrealisable) - share) < 0.005


def test_most_components_hang_on_single_samples(wikitext):
    """The figures of docs/held-out.md."""
    parts = [(wikitext / f"{part}.txt").read_text(encoding="utf-8") for part in ("valid", "test")]
    _, ids = at.Vocabulary.from_text("".join(parts))
    components = at.find_components(at.extract_edges(at.Samples.from_windows(ids, window=32)))
    table = measure_robustness(components).rows
    assert table.num_rows == 5_026
    assert np.count_nonzero(table["support"].to_numpy() == 1) == 4_876
    assert round(float(np.mean(table["bridges"].to_numpy() > 0)), 2) == 0.82


@pytest.mark.slow
def test_valid_and_test_differ_by_a_few_odd_samples(wikitext):
    """The figures of docs/held-out.md."""
    valid, test = (at.learn(wikitext / f"{part}.txt") for part in ("valid", "test"))
    assert diff(valid, test).describe(Change.SPLIT, 1) == [
        (".", "<unk> and . tie, 477 to 2", "<unk> before . ×664")
    ]


@pytest.mark.slow  # a real corpus
def test_slices_of_train_equal_the_definition(wikitext):
    documents = read_text(wikitext / "train.articles-shuffled.txt")
    assert len(documents.ids) == 2_088_628
    assert len(documents.vocabulary) == 33_278
    rng = np.random.default_rng(0)
    for start in rng.integers(0, len(documents.ids) - 1_000, 200):
        ids = documents.ids[start : start + 1_000]
        samples = at.Samples.from_windows(ids, window=32, n_tokens=len(documents.vocabulary))
        assert as_counter(at.extract_edges(samples)) == dict(edges_by_definition(samples))
