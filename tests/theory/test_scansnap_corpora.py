"""The second theory on real corpora, and the first where it does not apply."""

import json

import pytest

import attomaton as at
from attomaton.base.errors import NothingRealisable
from tests.cli.test_commands import attomaton


@pytest.mark.slow
def test_text(wikitext, tmp_path):
    printed = attomaton("scan-snap", wikitext / "valid.txt", "--json", cwd=tmp_path)
    record = json.loads(printed.stdout)
    assert len(record["forecasts"]) == 20
    assert all(one["first_to_fade"] and one["last_to_stay"] for one in record["forecasts"])
    assert all(0 < one["turn"] < one["snap"] for one in record["forecasts"])
    met = {one["name"]: one["met"] for one in record["assumptions"]}
    assert met["fast decoder"]
    assert sum(met.values()) == 1


@pytest.mark.slow
def test_visits_without_repeats(clickstream, tmp_path):
    """No label is in its context: the first theory says so, the second has an answer for every page."""
    printed = attomaton("scan-snap", clickstream, "--documents", "line", "--json", cwd=tmp_path)
    record = json.loads(printed.stdout)
    assert (record["samples"], record["counted"]) == (709_485, 321_051)
    assert (record["queries"], record["classes"]) == (17, 235)
    assert len(record["followed"]) == 17
    assert all(one["lowered"] and one["raised"] for one in record["followed"])
    assert record["followed"][0]["query"] == "1"
    best = {one["query"]: one["raised"][0]["token"] for one in record["followed"]}
    assert (best["1"], best["6"], best["4"]) == ("4", "1", "1")
    with pytest.warns(NothingRealisable, match="none of the 709,485 samples"):
        assert at.learn(clickstream, reading=at.Reading(documents="line")).coverage.n_edges == 0
