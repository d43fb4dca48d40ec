"""The meeting of the two theories: what is kept, which switch makes the difference, and the page."""

from collections import defaultdict

import pytest

from attomaton_experiments.page import write_page
from attomaton_experiments.scansnap.meeting import run_meeting
from attomaton_experiments.settings import read_settings


@pytest.fixture(scope="module")
def page():
    return run_meeting(read_settings("scan-snap-meeting"))


@pytest.mark.slow  # an experiment
def test_tied_decoders_keep_the_label_and_learned_ones_what_tells_labels_apart(page):
    assert [verdict.status.value for verdict in page.verdicts] == ["holds", "holds"]
    table = page.record["tables"][0]
    rows = [dict(zip(table["headers"], row, strict=True)) for row in table["rows"]]
    for row in rows:
        label = row["sample"].split()[-1]
        assert row["first theory keeps"] == label
        for layer in ("first paper", "softmax of a tied decoder"):
            assert row[layer].split()[0] == label
        for layer in ("learned decoder", "second paper (learned, query masked)"):
            assert row[layer].split()[0] == row["second theory keeps"]
    differ = [row["sample"] for row in rows if row["second theory keeps"] != row["first theory keeps"]]
    assert differ == ["a m m x q → a", "b n n x q → b", "b c q → b", "a x q → q"]


def test_only_the_mass_of_a_masked_query_cannot_be_learned(page):
    table = page.record["tables"][0]
    column = table["headers"].index("first paper, query masked")
    missing = [row[1] for row in table["rows"] if row[column] == "cannot learn it"]
    assert missing == ["a x q → q"]


def test_in_the_story_the_mask_keeps_a_learned_decoder_from_the_query(page):
    story = defaultdict(dict)
    for row in page.numbers.to_pylist():
        if row["part"] == "story":
            story[row["layer"]][row["measure"]] = row["value"]
    assert story["first paper"]["retrieved"] > 0.95
    assert story["learned decoder"]["is_query"] > 0.2
    masked = story["second paper (learned, query masked)"]
    assert masked["is_query"] == 0
    assert story["learned decoder"]["retrieved"] < masked["retrieved"] < story["first paper"]["retrieved"]


@pytest.mark.slow  # an experiment
def test_the_page_is_written(page, tmp_path):
    written = {path.name for path in write_page(page, tmp_path)}
    assert written == {"figure.png", "figure.pdf", "numbers.parquet", "verdicts.json", "summary.md"}
    assert "second theory keeps" in (tmp_path / "summary.md").read_text()
