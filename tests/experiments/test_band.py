"""Where next-token seeking begins: chosen on one corpus, tested on another, in small."""

import json

import numpy as np
import pytest

from attomaton.base.errors import UnreadableSource, UnsupportedOption
from attomaton.base.progress import silent
from attomaton_experiments.band import (
    Band,
    choose_split,
    find_difference,
    find_shares,
    run_band,
)
from attomaton_experiments.page import write_page
from attomaton_experiments.passages import read_passages
from attomaton_experiments.settings import read_settings
from tests.experiments.words import WORDS
from tests.heads import made

SMALL = {"n_documents": 24, "random": 1, "n_permutations": 499, "shortest": 100}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tests.heads.made_gguf import gguf, learn_tokens, write

    place, rng = tmp_path_factory.mktemp("band"), np.random.default_rng(0)
    stories = [" ".join(rng.choice(WORDS, 60)) + "." for _ in range(30)]
    (place / "tinystories_30.json").write_text(json.dumps(stories))
    lines = [" ".join(rng.choice(WORDS, 60)) + " ." for _ in range(30)]
    (place / "valid.txt").write_text(" = Head = \n" + " \n ".join(lines))
    begins = {"tokenizer__ggml__add_bos_token": (True, gguf.GGUFValueType.BOOL)}
    begins |= {"tokenizer__ggml__bos_token_id": (0, gguf.GGUFValueType.UINT32)}
    for name, extra in (("one", {}), ("two", begins)):
        model = made.make("llama", vocab_size=300, max_position_embeddings=512)
        write(place / f"{name}.gguf", "llama", model, tokenizer=learn_tokens(300), **extra)
    return place


@pytest.mark.slow  # an experiment
def test_models_of_a_folder_are_audited_on_both_corpora_once(folder, tmp_path):
    settings = read_settings("heads-smollm2", data=folder, work=tmp_path / "work") | SMALL
    page = run_band(settings, silent)
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").iterdir()}
    assert len(stored) == 4
    assert run_band(settings, silent).text == page.text
    assert {path: path.stat().st_mtime_ns for path in stored} == stored
    rows = page.numbers.to_pylist()
    assert {(row["model"], row["corpus"]) for row in rows} == {
        (model, corpus) for model in ("one", "two") for corpus in ("tinystories_30", "valid")
    }
    assert [verdict.claim.rpartition(" ")[2] for verdict in page.verdicts] == ["one", "two"]
    names = {path.name for path in write_page(page, tmp_path / "out")}
    assert {"figure.png", "numbers.parquet", "summary.md", "verdicts.json"} <= names


def test_what_is_missing_in_the_folder_is_said(folder, tmp_path):
    settings = read_settings("heads-smollm2", data=tmp_path) | SMALL
    with pytest.raises(UnreadableSource, match=r"no \.gguf file"):
        run_band(settings, silent)
    (tmp_path / "one.gguf").symlink_to(folder / "one.gguf")
    with pytest.raises(UnreadableSource, match="has 0 files tinystories"):
        run_band(settings, silent)
    with pytest.raises(UnsupportedOption, match="no passage of 10000 characters"):
        read_passages(folder / "valid.txt", shortest=10000)


def split_by_definition(shares):
    """The split with the largest difference, tried one by one."""
    best = None
    for split in range(1, len(shares)):
        difference = np.mean(shares[split:]) - np.mean(shares[:split])
        if best is None or difference > best[0] + 1e-12:
            best = difference, split
    return best[1]


def test_the_split_is_that_of_the_rule():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        shares = rng.integers(0, 5, rng.integers(2, 12)) / 4
        split = choose_split(shares)
        assert find_difference(shares, split) == pytest.approx(
            find_difference(shares, split_by_definition(shares))
        )
    rows = [{"layer": layer, "seeks": layer > 1} for layer in (0, 1, 2, 2, 0, 1)]
    assert find_shares(rows).tolist() == [0, 0, 1]


def test_a_step_is_found_and_p_of_layers_without_one_is_uniform():
    step = np.repeat([0.0, 0.75], 10)
    sure = Band("m", ["a", "b"], step, step, n_heads=4).test(999, 0)
    assert sure["permuted"] == pytest.approx(1 / 1000)
    assert sure["shifted"] == pytest.approx(1 / 20)
    assert sure["fisher"] < 1e-6
    values = []
    for seed in range(300):
        chosen, tested = np.random.default_rng(seed).random((2, 12))
        values.append(Band("m", ["a", "b"], chosen, tested, n_heads=8).test(199, seed)["permuted"])
    shares = [np.mean(np.array(values) <= p) for p in (0.05, 0.25, 0.5)]
    for share, (low, high) in zip(shares, ((0.01, 0.10), (0.17, 0.33), (0.4, 0.6)), strict=True):
        assert low <= share <= high
