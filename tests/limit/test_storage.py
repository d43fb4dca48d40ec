"""Run folders: what is incomplete or altered does not load."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import attomaton as at
from attomaton import artifacts
from attomaton.errors import CorruptRun, UnwritablePlace

FILES = {
    "manifest.json", "vocabulary.json", "coverage.json", "arrays.safetensors",
    "edges.parquet", "components.parquet", "order.parquet", "hard.parquet", "soft.parquet", "choices.parquet",
}  # fmt: skip


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("a b a c a b\n" * 20)
    return file


@pytest.fixture
def run(text, tmp_path):
    at.learn(text, window=4, out=tmp_path / "run")
    return tmp_path / "run"


def test_a_run_folder_has_its_files_and_no_leftovers(run):
    assert {path.name for path in run.iterdir()} == FILES
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["files"].keys() == FILES - {"manifest.json"}
    assert manifest["input"]["kind"] == "text"
    assert len(manifest["input"]["sha256"]) == 64


@pytest.mark.parametrize("name", sorted(FILES - {"manifest.json"}))
@pytest.mark.parametrize("damage", ["altered", "truncated", "missing"])
def test_a_damaged_file_is_refused_by_name(run, name, damage):
    path, blob = run / name, (run / name).read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(blob[:-5] if damage == "truncated" else blob[:-1] + bytes([blob[-1] ^ 1]))
    with pytest.raises(CorruptRun, match=name.replace(".", r"\.")):
        at.Automaton.load(run)


def test_a_damaged_manifest_is_refused(run):
    (run / "manifest.json").write_text("{")
    with pytest.raises(CorruptRun, match=r"manifest\.json cannot be read"):
        at.Automaton.load(run)
    (run / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(CorruptRun, match="format 99"):
        at.Automaton.load(run)
    (run / "manifest.json").write_text("[]")
    with pytest.raises(CorruptRun, match="holds no manifest"):
        at.Automaton.load(run)
    (run / "manifest.json").write_text('{"format": 1, "files": []}')
    with pytest.raises(CorruptRun, match="lists its files wrongly"):
        at.Automaton.load(run)
    (run / "manifest.json").write_text('{"format": 1, "files": {"../text.txt": {"sha256": ""}}}')
    with pytest.raises(CorruptRun, match="not in the folder; do not trust"):
        at.Automaton.load(run)
    with pytest.raises(CorruptRun, match="is a file; give the folder"):
        at.Automaton.load(run / "manifest.json")
    (run / "manifest.json").unlink()
    with pytest.raises(CorruptRun, match=r"no manifest\.json.*attomaton learn"):
        at.Automaton.load(run)


def test_a_write_that_is_cut_short_leaves_nothing_that_loads(run, text, monkeypatch):
    written = []
    original = artifacts.write_file

    def stop_after_three(path, write):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(path)
        return original(path, write)

    monkeypatch.setattr(artifacts, "write_file", stop_after_three)
    with pytest.raises(KeyboardInterrupt):
        at.learn(text, window=2, out=run)
    monkeypatch.undo()
    with pytest.raises(CorruptRun, match=r"no manifest\.json"):
        at.Automaton.load(run)
    at.learn(text, window=2, out=run)
    assert at.Automaton.load(run).n_tokens == 4


def test_two_runs_of_the_same_input_are_the_same_bytes(text, tmp_path):
    for name in ("one", "two"):
        at.learn(text, window=4, out=tmp_path / name)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_program_that_loads_and_ends_at_once_ends_well(run):
    """Arrow's scanner threads used to abort the interpreter here, in most runs (docs/log.md)."""
    code = (
        "from pathlib import Path; from attomaton.tables import read_parquet;"
        "[read_parquet(path.read_bytes()) for path in sorted(Path('.').glob('*.parquet'))]"
    )
    for _ in range(10):
        subprocess.run([sys.executable, "-c", code], cwd=run, check=True)


def test_a_file_in_the_way_is_named(text):
    stages = []
    with pytest.raises(UnwritablePlace, match=r"text\.txt is a file; give the path of a folder"):
        at.learn(text, out=text, progress=stages.append)
    with pytest.raises(UnwritablePlace, match=r"cannot be written: .*choose another folder"):
        at.learn(text, out="/proc/nowhere", progress=stages.append)
    with pytest.raises(UnwritablePlace, match=r"holds other files \('text\.txt'\); give a new folder"):
        at.learn(text, out=text.parent, progress=stages.append)
    assert stages == []  # said before the work, not after


def test_a_foreign_run_is_refused(tmp_path):
    artifacts.write_run(Path(tmp_path), tables={}, arrays={}, records={}, about={})
    with pytest.raises(CorruptRun, match="holds no whole automaton"):
        at.Automaton.load(tmp_path)


def test_the_report_of_a_run_may_stand_in_its_folder_and_goes_with_it(run, text):
    (run / "report.html").write_text("a page of the earlier run")
    at.learn(text, window=3, out=run)
    assert {path.name for path in run.iterdir()} == FILES
