"""Runs of earlier versions are written anew with the same answers; what stands beside them stays."""

import json
import shutil

import pytest
from typer.testing import CliRunner

import attomaton as at
from attomaton.cli import app
from attomaton.errors import CorruptRun, UnwritablePlace
from attomaton.runs.upgrade import upgrade_run
from attomaton.training.checkpoints import Store, read_trace
from tests.automaton.olden import save_olden
from tests.automaton.test_stored import tables_of
from tests.faults.strangers import look

TEXT = "a b a c a b c a b b a c d a b\n" * 6


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An automaton with its manifest, and a run of it as an earlier version wrote it, with a training."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text(TEXT)
    auto = at.learn(folder / "text.txt", window=5, out=folder / "new")
    manifest = json.loads((folder / "new" / "manifest.json").read_text())
    about = {name: manifest[name] for name in ("config", "input", "samples")}
    save_olden(auto, folder / "old", about)
    model, step = at.AttentionModel(), at.GradientDescent(1.0)
    at.train(auto.samples, model, step, steps=6, out=Store(folder / "old", every=2))
    done = CliRunner().invoke(app, ["verify", str(folder / "old"), "--quiet"])
    assert (folder / "old" / "verdicts.json").exists(), done.output
    return folder, auto, about


def test_an_upgraded_run_has_the_same_answers_and_files_beside_it(made, tmp_path):
    folder, auto, about = made
    place = tmp_path / "run"
    shutil.copytree(folder / "old", place)
    beside = {name: one for name, one in look(place).items() if name.startswith(("training/", "verdicts"))}
    trace = read_trace(place).weights.tobytes()
    assert upgrade_run(place)
    assert tables_of(at.Automaton.load(place)) == tables_of(auto)
    assert at.Automaton.load(place).coverage == auto.coverage
    manifest = json.loads((place / "manifest.json").read_text())
    assert {name: manifest[name] for name in about} == about
    found = look(place)
    assert {name: found[name] for name in beside} == beside
    assert len(beside) > 4
    assert read_trace(place).weights.tobytes() == trace
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    tables = {name for name in found if name.endswith(".parquet")}
    assert tables == {path.name for path in (folder / "new").glob("*.parquet")}
    for name in tables:  # nothing tells it from a run that was learned now
        assert (place / name).read_bytes() == (folder / "new" / name).read_bytes()
    before = look(place)
    assert not upgrade_run(place)
    assert look(place) == before


def test_the_command(made, tmp_path):
    folder, auto, _ = made
    shutil.copytree(folder / "old", tmp_path / "run")
    for words, told in (([], "was written anew."), ([], "there is nothing to do.")):
        done = CliRunner().invoke(app, ["upgrade", str(tmp_path / "run"), *words])
        assert (done.exit_code, told in " ".join(done.output.split())) == (0, True), done.output
    done = CliRunner().invoke(app, ["upgrade", str(tmp_path / "run"), "--json"])
    assert json.loads(done.output) == {"run": str(tmp_path / "run"), "upgraded": False}
    assert repr(at.Automaton.load(tmp_path / "run")) == repr(auto)


def test_what_cannot_be_upgraded_stays_as_it_is(made, tmp_path):
    folder, _, _ = made
    place = tmp_path / "run"
    shutil.copytree(folder / "old", place)
    (place / "notes.txt").write_text("mine")
    before = look(tmp_path)
    with pytest.raises(UnwritablePlace, match=r"did not write \('notes\.txt'\)"):
        upgrade_run(place)
    assert look(tmp_path) == before
    (place / "notes.txt").unlink()
    blob = (place / "soft.parquet").read_bytes()
    (place / "soft.parquet").write_bytes(blob[:-1] + bytes([blob[-1] ^ 1]))
    before = look(tmp_path)
    with pytest.raises(CorruptRun, match=r"soft\.parquet was altered"):
        upgrade_run(place)
    assert look(tmp_path) == before


def test_a_training_that_is_not_finished_is_not_lost(made, tmp_path):
    _, auto, about = made
    place = save_olden(auto, tmp_path / "run", about)

    def interrupt(step, _):
        if step >= 4:
            raise KeyboardInterrupt

    from attomaton.training.loop import Watch

    model, step = at.AttentionModel(), at.GradientDescent(1.0)
    store, watch = Store(place, every=2), Watch([interrupt], every=2)
    with pytest.raises(KeyboardInterrupt):
        at.train(auto.samples, model, step, steps=8, out=store, watch=watch)
    before = look(place)
    with pytest.raises(UnwritablePlace, match="holds work that is not finished"):
        upgrade_run(place)
    assert look(place) == before
