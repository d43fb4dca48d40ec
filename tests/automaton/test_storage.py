"""Run folders: what is incomplete or altered does not load."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import attomaton as at
from attomaton.automaton.runs import stored
from attomaton.base.artifacts import Run, parted, runs, write_run
from attomaton.base.artifacts.manifests import seal
from attomaton.base.errors import CorruptRun, UnsupportedOption, UnwritablePlace

FILES = {
    "manifest.json", "vocabulary.json", "coverage.json", "queries.parquet",
    "edges-00000.parquet", "nodes-00000.parquet", "order-00000.parquet", "choices-00000.parquet",
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
@pytest.mark.parametrize("small", [stored.SMALL_RUN_BYTES, 0], ids=["read", "opened"])
def test_a_damaged_file_is_refused_by_name(run, name, damage, small, monkeypatch):
    monkeypatch.setattr(stored, "SMALL_RUN_BYTES", small)
    path, blob = run / name, (run / name).read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(blob[:-5] if damage == "truncated" else blob[:-1] + bytes([blob[-1] ^ 1]))
    with pytest.raises(CorruptRun, match=name.replace(".", r"\.")):
        _ = at.Automaton.load(run).components


def test_a_damaged_manifest_is_refused(run):
    (run / "manifest.json").write_text("{")
    with pytest.raises(CorruptRun, match=r"manifest\.json cannot be read"):
        at.Automaton.load(run)
    (run / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(CorruptRun, match="format 99"):
        at.Automaton.load(run)
    (run / "manifest.json").write_text("[]")
    with pytest.raises(CorruptRun, match="is not a manifest"):
        at.Automaton.load(run)
    ours = {"format": 2, "kind": "run"}
    (run / "manifest.json").write_text(json.dumps({**ours, "files": {}}))
    with pytest.raises(CorruptRun, match="was altered after it was written"):
        at.Automaton.load(run)
    (run / "manifest.json").write_text(json.dumps(seal({**ours, "files": []})))
    with pytest.raises(CorruptRun, match="has an invalid list of files"):
        at.Automaton.load(run)
    (run / "manifest.json").write_text(json.dumps(seal({**ours, "files": {"../text.txt": {"sha256": ""}}})))
    with pytest.raises(CorruptRun, match="outside of this folder; do not trust"):
        at.Automaton.load(run)
    (run / "manifest.json").write_text(json.dumps(seal({"format": 2, "kind": "tokens", "files": {}})))
    with pytest.raises(CorruptRun, match="of the kind 'tokens', not 'run'"):
        at.Automaton.load(run)
    with pytest.raises(CorruptRun, match="is a file; give a folder"):
        at.Automaton.load(run / "manifest.json")
    (run / "manifest.json").unlink()
    with pytest.raises(CorruptRun, match=r"no manifest\.json.*attomaton learn"):
        at.Automaton.load(run)


def test_a_write_that_is_cut_short_leaves_the_old_run(run, text, monkeypatch):
    written = []
    original = runs.write_file
    before = {path.name: path.read_bytes() for path in run.iterdir()}

    def stop_after_three(path, write, **how):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(path)
        return original(path, write, **how)

    for room in (runs, parted):
        monkeypatch.setattr(room, "write_file", stop_after_three)
    with pytest.raises(KeyboardInterrupt):
        at.learn(text, window=2, out=run, overwrite=True)
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert {path.name for path in run.parent.iterdir()} == {"run", "text.txt"}
    at.learn(text, window=2, out=run, overwrite=True)
    assert json.loads((run / "manifest.json").read_text())["config"]["window"] == 2


def test_a_run_is_replaced_only_if_that_is_asked_for(run, text):
    before = (run / "manifest.json").read_bytes()
    with pytest.raises(UnwritablePlace, match=r"already contains a run; .* --overwrite"):
        at.learn(text, window=2, out=run)
    with pytest.raises(UnwritablePlace, match="already contains a run"):
        at.learn(text, window=2).save(run)
    assert (run / "manifest.json").read_bytes() == before
    at.learn(text, window=2).save(run, overwrite=True)
    assert (run / "manifest.json").read_bytes() != before


def test_two_runs_of_the_same_input_are_the_same_bytes(text, tmp_path):
    for name in ("one", "two"):
        at.learn(text, window=4, out=tmp_path / name)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.slow  # twenty processes
def test_a_program_that_loads_and_ends_at_once_ends_well(run):
    """Arrow's scanner threads used to abort the interpreter here, in most runs (docs/log.md)."""
    code = (
        "from pathlib import Path; from attomaton.base.tables import read_parquet;"
        "[read_parquet(path.read_bytes()) for path in sorted(Path('.').glob('*.parquet'))]"
    )
    for _ in range(10):
        subprocess.run([sys.executable, "-c", code], cwd=run, check=True)


def test_a_file_in_the_way_is_named(text):
    stages = []
    with pytest.raises(UnwritablePlace, match=r"text\.txt is a file; give the path of a folder"):
        at.learn(text, out=text, progress=stages.append)
    with pytest.raises(UnwritablePlace, match=r"cannot be written: .*write elsewhere"):
        at.learn(text, out="/proc/nowhere", progress=stages.append)
    with pytest.raises(UnwritablePlace, match=r"contains the corpus .*; give another folder"):
        at.learn(text, out=text.parent, progress=stages.append)
    (text.parent / "full").mkdir()
    (text.parent / "full" / "notes.txt").touch()
    with pytest.raises(UnwritablePlace, match=r"contains files \('notes\.txt'\); give a new folder"):
        at.learn(text, out=text.parent / "full", progress=stages.append)
    assert stages == []  # said before the work, not after


def test_a_foreign_run_is_refused(tmp_path):
    write_run(Path(tmp_path), Run(tables={}, arrays={}, records={}, manifest={}))
    with pytest.raises(CorruptRun, match="has no automaton; run `attomaton learn"):
        at.Automaton.load(tmp_path)


def test_what_is_not_ours_in_a_run_folder_keeps_it_from_being_replaced(run, text):
    (run / "report.html").write_text("a page that somebody wrote")
    with pytest.raises(UnwritablePlace, match=r"did not write \('report\.html'\)"):
        at.learn(text, window=3, out=run, overwrite=True)
    assert (run / "report.html").read_text() == "a page that somebody wrote"
    assert at.Automaton.load(run).n_tokens == 4


@pytest.mark.parametrize("nothing", ["", " "])
def test_an_empty_path_is_not_the_working_directory(nothing):
    for load in (at.Automaton.load, at.ChoiceFit.load):
        with pytest.raises(UnsupportedOption, match="give a path"):
            load(nothing)
