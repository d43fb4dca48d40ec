"""Files of sorted choices and their merge: the same rows as counting all choices at once."""

import numpy as np
import pyarrow as pa
import pytest

import attomaton as at
from attomaton.engines import sorted_choices
from attomaton.engines.sorted_choices import SortedChoices, cut_batches, merge_part
from attomaton.engines.work import write_part
from attomaton.graphs.choices import count_choices, extract_choices


def draw_choices(rng, n_tokens):
    """Choices of a few whole contexts over few tokens, so that many occur in several files."""
    contexts = [rng.integers(0, n_tokens, rng.integers(1, 5)).tolist() for _ in range(rng.integers(0, 60))]
    samples = at.Samples.from_lists(contexts, [int(rng.choice(one)) for one in contexts], n_tokens=n_tokens)
    return extract_choices(samples)


@pytest.mark.parametrize("size", [1, 2, 5, 1024])
@pytest.mark.parametrize("seed", range(12))
def test_merged_files_equal_counting_at_once(tmp_path, monkeypatch, size, seed):
    monkeypatch.setattr(sorted_choices, "BATCH_ROWS", size)
    rng = np.random.default_rng(seed)
    n_tokens = int(rng.integers(2, 5))
    borders = np.unique([0, *rng.integers(0, n_tokens, 2), n_tokens])
    tables = [draw_choices(rng, n_tokens) for _ in range(rng.integers(1, 7))]
    files = []
    for number, table in enumerate(tables):
        write_part(tmp_path / f"{number}.arrow", cut_batches(table, borders))
        files.append(SortedChoices(tmp_path / f"{number}.arrow"))
    merged = [list(merge_part(files, part)) for part in range(len(borders) - 1)]
    expected = count_choices(tables).rows
    joined = pa.concat_tables([expected.slice(0, 0), *(piece for pieces in merged for piece in pieces)])
    assert joined.combine_chunks().equals(expected)
    assert sum(file.rows.sum() for file in files) == sum(map(len, tables))
    for part, pieces in enumerate(merged):
        queries = np.concatenate([[borders[part]], *(piece.column("query").to_numpy() for piece in pieces)])
        assert (queries >= borders[part]).all()
        assert (queries < borders[part + 1]).all()


def test_a_merge_holds_about_a_batch_of_each_file(tmp_path, monkeypatch):
    """Pieces stay small although a part has hundreds of times as many rows."""
    monkeypatch.setattr(sorted_choices, "BATCH_ROWS", 8)
    rng = np.random.default_rng(0)
    files = []
    for number in range(5):
        contexts = [[*rng.integers(0, 40, 6).tolist(), 0] for _ in range(2000)]
        samples = at.Samples.from_lists(contexts, [one[0] for one in contexts], n_tokens=40)
        write_part(tmp_path / f"{number}.arrow", cut_batches(extract_choices(samples), np.array([0, 40])))
        files.append(SortedChoices(tmp_path / f"{number}.arrow"))
    pieces = list(merge_part(files, 0))
    assert sum(piece.num_rows for piece in pieces) > 9000
    assert max(piece.num_rows for piece in pieces) <= 5 * 12
    assert len(pieces) < 3 * 2000 / 8  # not a piece for each batch of each file
