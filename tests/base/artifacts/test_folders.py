"""What a writer that was killed leaves: its own files go, by the names that it listed, and nothing else."""

import contextlib

import pytest

from attomaton.base.artifacts import FolderKind, build_folder

KIND = FolderKind("notes", "notes", "nobody")
OURS = ("plain.json", "part-00012.parquet", "steps/003.bin", "work/deep/down/file", ".0123456789abcdef.draft")
OTHERS = ("plain.json.txt", "part-0001.parquet", "part-000123.parquet", "steps/03.bin", "mine/note", "work2")


def left_by_a_killed_writer(place, names):
    """A folder that is being built when its writer stops, with these files in it."""
    files = ["plain.json", "part-[0-9][0-9][0-9][0-9][0-9].parquet", "steps/[0-9][0-9][0-9].bin", "work/*"]
    with (
        contextlib.suppress(KeyboardInterrupt),
        build_folder(place, KIND, files, overwrite=True, resumable=True) as building,
    ):
        for name in names:
            (building.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (building.folder / name).write_text(name)
        raise KeyboardInterrupt
    return building.folder


def write(place):
    """Another folder of that kind, which takes up nothing."""
    with build_folder(place, KIND, ["plain.json"], overwrite=True) as building:
        (building.folder / "plain.json").write_text("new")
        building.finish({})


def test_what_was_listed_goes(tmp_path):
    left_by_a_killed_writer(tmp_path / "out", OURS)
    write(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("name", OTHERS)
def test_what_was_not_listed_stays(tmp_path, name):
    folder = left_by_a_killed_writer(tmp_path / "out", [*OURS, name])
    with pytest.warns(UserWarning, match="did not write"):
        write(tmp_path / "out")
    assert [path.read_text() for path in folder.rglob("*") if path.is_file()] == [name]
