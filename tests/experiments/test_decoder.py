"""Experiments on the decoder's limit, at a size for tests."""

import pytest

from attomaton.base.progress import silent
from attomaton_experiments.decoder import run_concepts, run_decoder, run_text
from attomaton_experiments.page import write_page
from attomaton_experiments.settings import read_settings

FILES = {"figure.png", "figure.pdf", "numbers.parquet", "summary.md", "verdicts.json"}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    path = tmp_path_factory.mktemp("story") / "story.txt"
    sentence = "the lamp is on the table and the cat is under the table but a lamp was off and a dog saw it "
    path.write_text(sentence * 5 + "the dog and the cat saw a lamp on a table " * 3, encoding="utf-8")
    return path


@pytest.mark.slow  # an experiment
def test_random_contexts_are_trained_and_judged(tmp_path):
    settings = read_settings("decoder", trials=2) | {"steps": 4000, "n_tokens": 6, "n_contexts": 2}
    page = run_decoder(settings, silent)
    assert {one.status.value for one in page.verdicts} <= {"holds", "not_applicable"}
    assert len(page.record["tables"][0]["rows"]) == 2
    assert {path.name for path in write_page(page, tmp_path)} == FILES


def test_the_loss_of_a_text_is_predicted(story, tmp_path):
    settings = read_settings("decoder-text", data=story) | {"n_tokens": 8}
    page = run_text(settings, silent)
    assert [one.status.value for one in page.verdicts] == ["holds"]
    assert {path.name for path in write_page(page, tmp_path)} == FILES


@pytest.mark.slow  # an experiment
def test_concepts_of_a_text_are_listed_and_drawn(story, tmp_path):
    settings = read_settings("decoder-concepts", data=story) | {"count": 4}
    page = run_concepts(settings, silent)
    assert len(page.record["tables"][0]["rows"]) == 8
    assert {path.name for path in write_page(page, tmp_path)} == FILES
