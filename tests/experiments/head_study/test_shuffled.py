"""Edges obeyed on a shuffled corpus."""

import numpy as np
import pytest

from attomaton.base.errors import InvalidSamples
from attomaton.heads.trained import watch_layer
from attomaton_experiments.head_study.shuffled import compare_shuffled, shuffle_documents

N = 24


def draw_chains(n=60, length=60):
    """Documents in which each token is followed by one of two others, whatever their frequency."""
    rng = np.random.default_rng(0)
    follow = np.stack([rng.permutation(N), rng.permutation(N)])
    documents = []
    for _ in range(n):
        ids = [int(rng.integers(N))]
        while len(ids) < length:
            ids.append(int(follow[int(rng.random() < 0.2), ids[-1]]))
        documents.append(ids)
    return documents


def test_shuffling_keeps_the_first_token_and_the_counts_of_every_document():
    documents = draw_chains(5)
    shuffled = shuffle_documents(documents, seed=3)
    assert [ids[0] for ids in shuffled] == [ids[0] for ids in documents]
    assert [sorted(ids.tolist()) for ids in shuffled] == [sorted(ids) for ids in documents]
    assert shuffled[0].tolist() != documents[0]
    again = shuffle_documents(documents, seed=3)
    assert [one.tolist() for one in again] == [one.tolist() for one in shuffled]
    assert shuffle_documents([[], [4]])[1].tolist() == [4]


def test_a_head_by_frequency_obeys_a_shuffled_corpus_and_one_by_followers_its_own():
    rng = np.random.default_rng(1)
    probabilities = 1.0 / np.arange(1, N + 1)
    plain = [
        rng.choice(N, 60, p=probabilities / probabilities.sum()) for _ in range(60)
    ]  # order says nothing
    likes_frequent = np.tile(np.linspace(1, 0, N)[:, None], N)
    likes_frequent = watch_layer(np.eye(N), likes_frequent)
    found = compare_shuffled(likes_frequent, plain, window=8)
    assert found.of_text.frequency > 0.8
    assert found.shuffled.frequency > 0.8
    assert found.of_text.obeyed[0] > 0.8 < found.shuffled.obeyed[0]

    chains = draw_chains()
    follows = np.zeros((N, N))
    for ids in chains:
        np.add.at(follows, (ids[1:], ids[:-1]), 1.0)  # score of a token for a query: column the query
    found = compare_shuffled(watch_layer(np.eye(N), follows), chains, window=8)
    assert found.of_text.obeyed[0] > 0.95
    assert found.shuffled.obeyed[0] < 0.7
    assert found.shuffled.frequency > found.of_text.frequency


def test_the_table_has_both_graphs_side_by_side():
    model = watch_layer(np.eye(N), np.eye(N))
    table = compare_shuffled(model, draw_chains(10), window=8, against=model).table()
    assert table.column_names == [
        "head",
        *(
            f"{kind}{name}"
            for kind in ("", "shuffled_")
            for name in ("obeyed", "random", "frequency", "bigram")
        ),
    ]
    assert table["random"].to_pylist() == table["obeyed"].to_pylist()
    assert table["shuffled_random"].to_pylist() == table["shuffled_obeyed"].to_pylist()


def test_documents_of_one_token_are_refused():
    with pytest.raises(InvalidSamples, match="two tokens"):
        compare_shuffled(watch_layer(np.eye(3), np.eye(3)), [[1], []])
