"""``.ci/campaigns.py`` runs what fits, writes down how it ended, and goes on where it stopped."""

import importlib.util
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest


@pytest.fixture
def campaigns(tmp_path, monkeypatch):
    path = Path(__file__).parents[2] / ".ci" / "campaigns.py"
    place = importlib.util.spec_from_file_location("campaigns", path)
    module = importlib.util.module_from_spec(place)
    monkeypatch.setitem(sys.modules, "campaigns", module)
    place.loader.exec_module(module)
    monkeypatch.setattr(module, "RECORD", tmp_path / "campaigns.md")
    return module


def work(campaigns, name, code, **more):
    return campaigns.Work(name, (sys.executable, "-c", code), **more)


def test_what_ran_is_written_and_not_run_again(campaigns):
    listed = [
        work(campaigns, "good", "print('| some | a promise | 1,000 | 900 | 1e-9 of 1e-8 | 0 | 3 |')"),
        work(campaigns, "bad", "raise SystemExit(3)", size="1 test", alone=True),
        work(campaigns, "later", "pass"),
    ]
    first = campaigns.Campaigns(5, "abc", time.monotonic() + 60, {})
    first.run_all(listed[:2])
    assert first.failed == ["bad"]
    record = campaigns.read_record()
    assert record == first.record
    assert (record["good"].size, record["good"].seed) == ("1,000 trials, 900 judged, worst 1e-9 of 1e-8", 5)
    both = record | {"old": replace(record["good"], work="old", size="", code="def", day="2026-01-01")}
    campaigns.write_record(both)
    assert campaigns.read_record() == both
    assert [one.name for one in campaigns.choose_work(listed, record, "abc")] == ["later", "bad"]
    assert len(campaigns.choose_work(listed, record, "other")) == 3


def test_what_takes_longer_than_the_budget_is_cut_off_or_not_begun(campaigns):
    endless = work(campaigns, "endless", "import subprocess; subprocess.run(['sleep', '60'])")
    assert campaigns.run_work(endless, 0, 0.5)[0] == "cut off by the budget"
    done = campaigns.Done("endless", "", 0, "passed", 3600, "old", "2026-01-01")
    short = campaigns.Campaigns(0, "new", time.monotonic() + 600, {"endless": done})
    short.run(endless)
    assert short.record == {"endless": done}
    later = {"endless": replace(done, day="2026-02-01"), "other": replace(done, work="other")}
    listed = [endless, replace(endless, name="other"), replace(endless, name="never")]
    assert [one.name for one in campaigns.choose_work(listed, later, "new")] == ["never", "other", "endless"]


def test_the_record_is_no_part_of_the_code(campaigns, tmp_path, monkeypatch):
    """Else what was written after a night would make everything run again."""
    source, record = tmp_path / "src" / "a.py", tmp_path / "docs" / "campaigns.md"
    for file in (source, record):
        file.parent.mkdir()
        file.write_text("one\n")
    named = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for command in (["init", "-q"], ["add", "-A"], [*named, "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(campaigns, "ROOT", tmp_path)
    before = campaigns.code_now()
    record.write_text("two\n")
    assert campaigns.code_now() == before
    source.write_text("two\n")
    assert campaigns.code_now() != before
