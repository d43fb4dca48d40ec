"""Systems that lack what Linux has: the README's commands there, and each stand-in by itself."""

import errno
import json
import os
import re
import shlex
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

import attomaton
from attomaton.base.artifacts import locks, systems
from attomaton.base.artifacts.ownership import locked
from attomaton.base.errors import UnwritablePlace
from tests.e2e.test_readme import README, blocks
from tests.faults import systems as imitated

SOURCES = str(Path(attomaton.__file__).parent)
FIRST = [shlex.split(line[2:])[1:] for line in blocks(README, "console")[1].splitlines()]
LEARN = ["learn", "story.txt", "--window", "8", "--quiet"]
COMMANDS = [  # and how each must end
    (["--version"], 0),
    *((command, 0) for command in FIRST),
    (["doctor"], 0),
    ([*LEARN, "--out", "run"], 2),
    ([*LEARN, "--out", "run", "--overwrite"], 0),
    ([*LEARN, "--out", "empty"], 0),
    ([*LEARN, "--out", "disk", "--engine", "duckdb"], 0),
    (["report", "run", "--out", "link/report.html", "--quiet"], 0),
    (["report", "run", "--out", "link/report.html", "--quiet"], 0),
]


@pytest.mark.slow  # whole sessions on imitated systems
@pytest.mark.parametrize("system", ["macos", "windows"])
def test_the_first_commands_end_as_on_linux(system, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")  # as /tmp is on macOS
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-m", "tests.faults.systems", system],
        input=json.dumps([command for command, _ in COMMANDS]).encode(),
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "cp1252"},
        check=False,
    )
    told = done.stderr.decode("cp1252")
    assert done.returncode == 0, told
    assert json.loads(told.splitlines()[-1]) == [code for _, code in COMMANDS], told
    assert not re.search(rf"^{re.escape(SOURCES)}.*EncodingWarning", told, flags=re.MULTILINE), told
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"story.txt", "run", "empty", "disk", "real", "link"}
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["report.html"]


@pytest.fixture
def by_bytes(monkeypatch):
    """Locks as Windows has them, where no file is removed while it is open."""
    monkeypatch.setattr(systems, "_fcntl", None)
    monkeypatch.setattr(systems, "_msvcrt", types.SimpleNamespace(LK_NBLCK=2, locking=imitated.lock_byte))


def leave_lock(folder, since):
    """The lock of a target in the folder, whose owner may live."""
    path = folder / ".run.attomaton-lock"
    about = {
        "kind": locks.LOCK_KIND,
        "pid": os.getpid(),
        "host": locks.socket.gethostname(),
        "since": since,
    }
    path.write_text(json.dumps({**about, "draft": f".{'0' * 16}.draft"}))
    return path


def assert_guarded(folder):
    """One writer at a time, and nothing is left behind."""
    with locked(folder / "run", folder):
        assert (folder / ".run.attomaton-lock").exists()
        with (
            pytest.raises(UnwritablePlace, match=f"is being written by process {os.getpid()}"),
            locked(folder / "run", folder),
        ):
            pass
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("by_bytes")
def test_a_byte_is_locked_where_files_cannot_be(tmp_path):
    assert_guarded(tmp_path)
    leave_lock(tmp_path, time.time())  # nobody holds it: its owner is gone
    assert_guarded(tmp_path)


@pytest.mark.usefixtures("by_bytes")
def test_a_lock_that_somebody_else_has_opened_stays_for_them(tmp_path, monkeypatch):
    path = tmp_path / "lock"

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "in use")

    with path.open("xb", buffering=0) as file, monkeypatch.context() as patched:
        patched.setattr(type(path), "unlink", refuse)
        systems.remove_locked(path, file)
        assert file.closed
    assert path.exists()


def test_without_locks_nothing_is_guarded_and_all_is_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks, "lock_file", refuse)
    leave_lock(tmp_path, time.time())
    with locked(tmp_path / "run", tmp_path), locked(tmp_path / "run", tmp_path):
        assert (tmp_path / ".run.attomaton-lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_with_the_name_of_a_lock_stays(tmp_path):
    (tmp_path / ".run.attomaton-lock").touch()
    with (
        locked(tmp_path / "run", tmp_path),
        pytest.raises(UnwritablePlace, match="is being written by"),
        locked(tmp_path / "run", tmp_path),
    ):
        pass
    assert (tmp_path / ".run.attomaton-lock").read_bytes() == b""


def test_links_are_refused_where_no_flag_does_it(tmp_path, monkeypatch):
    monkeypatch.setattr(systems, "_NO_FOLLOW", 0)
    (tmp_path / "there").write_text("text")
    (tmp_path / "link").symlink_to("there")
    os.close(systems.open_no_follow(tmp_path / "there", os.O_RDONLY))
    with pytest.raises(OSError, match="link") as refused:
        systems.open_no_follow(tmp_path / "link", os.O_RDONLY)
    assert refused.value.errno == errno.ELOOP


def test_only_files_are_flushed_where_folders_cannot_be_opened(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("text")
    monkeypatch.setattr(systems, "OPENS_FOLDERS", False)
    flushed = []
    monkeypatch.setattr(
        os, "fsync", lambda number: flushed.append(Path(f"/proc/self/fd/{number}").readlink())
    )
    systems.flush(tmp_path)
    systems.flush(tmp_path / "file")
    assert flushed == [tmp_path / "file"]
