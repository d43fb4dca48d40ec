"""What a disk holds after the power went: only what was flushed is sure to be there.

A recording layer around ``os.fsync`` notes, for every file that is flushed, its bytes at that moment, and for
every folder its entries. At each flush, three disks are built from that, of what a file system may keep:

* ``eager``: every name as it is now, but of each file only the bytes that were flushed;
* ``lazy``: of each folder only the entries at its last flush;
* ``torn``: the top folder as at its last flush, all others as they are now.
"""

import os
import shutil
import stat
from pathlib import Path


class Recorder:
    """Watches a folder; ``cuts`` are the disks at every flush, as (kind, folder)."""

    def __init__(self, root, store):
        self.root, self.store = Path(root), Path(store)
        self.bytes, self.entries, self.cuts = {}, {}, 0
        self.judge = None
        for place, _, files in os.walk(root):
            self._note_folder(Path(place))
            for name in files:
                self._note_file(Path(place, name))
        self._fsync = os.fsync
        os.fsync = self._flushed

    def close(self):
        """Stop watching."""
        os.fsync = self._fsync

    def _flushed(self, descriptor):
        self._fsync(descriptor)
        status = os.fstat(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if stat.S_ISDIR(status.st_mode):
            self._cut()  # the moment before this flush, too
            self._note_folder(path)
        elif path.exists():
            self._note_file(path)
        self._cut()

    def _note_file(self, path):
        self.bytes[path.stat().st_ino] = path.read_bytes()

    def _note_folder(self, path):
        self.entries[path.stat().st_ino] = {
            one.name: one.stat(follow_symlinks=False) for one in os.scandir(path)
        }

    def _cut(self):
        self.cuts += 1
        for kind in ("eager", "lazy", "torn"):
            disk = self.store / kind
            shutil.rmtree(disk, ignore_errors=True)
            self._build(self.root, self.root.stat().st_ino, disk, kind)
            self.judge(kind, disk)

    def _build(self, live, number, disk, kind):
        disk.mkdir(parents=True)
        flushed = kind == "lazy" or (kind == "torn" and live == self.root)
        entries = self.entries.get(number, {}) if flushed else self._now(number)
        for name, status in entries.items():
            if stat.S_ISDIR(status.st_mode):
                self._build(None, status.st_ino, disk / name, kind)
            else:
                (disk / name).write_bytes(self.bytes.get(status.st_ino, b""))

    def _now(self, number):
        for place, _, _ in os.walk(self.root):
            if Path(place).stat().st_ino == number:
                return {one.name: one.stat(follow_symlinks=False) for one in os.scandir(place)}
        return self.entries.get(number, {})  # removed since: as it was
