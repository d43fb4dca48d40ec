"""Power loss at every flush: the old thing or the new one, whole, on every disk that may be left."""

import os

import pytest

from tests.faults.deeds import Fork, deeds, fresh, prepare, tree
from tests.faults.power import Recorder

NAMES = ["learn", "learn duckdb", "save", "train", "tokenize", "csv", "survey", "graphml", "report"]


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    folder = tmp_path_factory.mktemp("power")
    listed = {deed.name: deed for deed in deeds(prepare(folder))}
    for which in ("old", "new"):
        for deed in listed.values():
            place = folder / which / "all" / deed.name
            place.mkdir(parents=True)
            code, said = Fork(lambda d=deed, p=place, w=which: d.write(p, w), place).wait()
            assert code == 0, said
    return listed, folder / "old" / "all", folder / "new" / "all"


def watched(deed, place, store, wanted):
    """Do it under a recorder; every disk must hold one of the wanted things. Tells how many there were."""
    recorder = Recorder(place, store)
    bad = []

    def judge(kind, disk):
        found = tree(disk, deed.target)
        if _content(found) not in wanted:
            bad.append((recorder.cuts, kind))

    recorder.judge = judge
    deed.write(place, "new")
    recorder.close()
    assert not bad, bad[:5]
    os.write(2, f"cuts {recorder.cuts}\n".encode())


def _content(found):
    """Bytes only: a disk that is built again has other modes."""
    if not isinstance(found, dict):
        return found
    return {name: what for name, (_, what) in found.items() if what is not None}


@pytest.mark.slow  # campaign of power cuts
@pytest.mark.parametrize("replacing", [True, False], ids=["replacing", "new"])
@pytest.mark.parametrize("name", NAMES)
def test_old_or_new_at_every_cut(known, tmp_path, name, replacing):
    listed, old, new = known
    deed = listed[name]
    place = tmp_path / "place"
    fresh(place, deed, old if replacing else None)
    wanted = [_content(tree(new / name, deed.target))]
    wanted.append(_content(tree(place, deed.target)))
    if not replacing and name == "train":
        wanted.append(None)
    code, said = Fork(lambda: watched(deed, place, tmp_path / "disks", wanted), place).wait(120)
    assert code == 0, said
    assert int(said.split("cuts ")[1].split()[0]) >= 3
