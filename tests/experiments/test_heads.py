"""The study of heads, redrawn in small."""

import numpy as np
import pytest

from attomaton.base.progress import silent
from attomaton_experiments.heads import run_heads
from attomaton_experiments.page import write_page
from attomaton_experiments.settings import read_settings

SMALL = {
    "steps": 20,
    "window": 8,
    "n_contexts": 60,
    "n_windows": 40,
    "models": ["theory's layer", "four heads"],
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    letters = np.cumsum(rng.choice([1, 2, 5], 3000, p=[0.6, 0.3, 0.1])) % 9
    text = "".join(chr(97 + one) for one in letters)
    (folder / "one.txt").write_text(text)
    (folder / "train.txt").write_text(" ".join(text[:2500]))
    (folder / "valid.txt").write_text(" ".join(text[2500:]))
    return folder


@pytest.mark.slow  # an experiment
def test_the_study_of_characters_goes_on_where_it_was(source, tmp_path):
    settings = read_settings("heads-study", data=source / "one.txt", trials=2, work=tmp_path / "work") | SMALL
    page = run_heads(settings, silent)
    kept = sorted((tmp_path / "work").iterdir())
    assert len(kept) == 8  # a training and its numbers, for two models and two seeds
    times = [one.stat().st_mtime_ns for one in kept]
    again = run_heads(settings, silent)
    assert [one.stat().st_mtime_ns for one in kept] == times
    assert again.text == page.text
    assert {one.claim for one in page.verdicts} == {
        "heads-obeyed",
        "heads-shrink",
        "heads-plain",
        "heads-own",
    }
    assert page.numbers.num_rows == 2 * (1 + 4) + 2 * (3 + 4 * 2)
    names = {path.name for path in write_page(page, tmp_path / "out")}
    assert {"figure.png", "numbers.parquet", "summary.md"} <= names
    assert "| four heads | ." in page.text


def test_the_study_of_words_reads_two_texts(source):
    settings = read_settings("heads-study-words", data=source, trials=1) | SMALL | {"n_tokens": 9}
    page = run_heads(settings | {"models": ["values and residual"]}, silent)
    assert [one.claim for one in page.verdicts] == ["heads-plain"]
