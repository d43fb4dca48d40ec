"""Where names cannot be exchanged at once: the next writer mends what a kill between two renames left."""

import pytest

import attomaton as at
from attomaton.base.artifacts import systems


@pytest.fixture
def old_system(monkeypatch):
    """A system without ``renameat2``."""
    monkeypatch.setattr(systems, "_find_renameat2", lambda: None)


@pytest.fixture
def autos():
    return [at.learn([0, 1, 0, 2, 0, 1, 0, 1][:size], window=3) for size in (8, 6)]


def test_a_run_is_replaced_by_three_renames(old_system, autos, tmp_path):
    autos[0].save(tmp_path / "run")
    with pytest.raises(at.AttomatonError, match="already contains a run"):
        autos[1].save(tmp_path / "run")
    autos[1].save(tmp_path / "run", overwrite=True)
    assert at.Automaton.load(tmp_path / "run").coverage.to_dict() == autos[1].coverage.to_dict()
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("renames", [1, 2])
def test_a_kill_between_the_renames_is_mended(old_system, autos, tmp_path, monkeypatch, renames):
    autos[0].save(tmp_path / "run")
    done = []
    rename = type(tmp_path).rename

    def cut(path, target):
        if ".old" in str(target) or ".old" in str(path) or done:
            if len(done) == renames:
                raise SystemExit
            done.append(target)
        return rename(path, target)

    monkeypatch.setattr(type(tmp_path), "rename", cut)
    with pytest.raises(SystemExit):
        autos[1].save(tmp_path / "run", overwrite=True)
    monkeypatch.setattr(type(tmp_path), "rename", rename)
    with pytest.raises(at.AttomatonError, match="already contains a run"):
        autos[1].save(tmp_path / "run")
    found = at.Automaton.load(tmp_path / "run").coverage.to_dict()
    assert found in [one.coverage.to_dict() for one in autos]
    autos[1].save(tmp_path / "run", overwrite=True)
    assert at.Automaton.load(tmp_path / "run").coverage.to_dict() == autos[1].coverage.to_dict()
    assert {path.name for path in tmp_path.iterdir() if ".partial-" not in path.name} == {"run"}


def test_two_folders_exchange_their_names(old_system, tmp_path):
    for name in ("draft", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    systems.exchange_folders(tmp_path / "draft", tmp_path / "there", tmp_path / "spare")
    assert {path.name: (path / "file").read_text() for path in tmp_path.iterdir()} == {
        "draft": "there",
        "there": "draft",
    }
