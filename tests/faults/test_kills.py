"""Killed at any change of the disk: the old thing or the new one, whole; and the next call makes it good."""

import os
import random
import re
import signal

import pytest

from tests.faults.counts import trials
from tests.faults.deeds import Fork, deeds, fresh, names, prepare, tree

SIGNS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT]


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Deeds, what each leaves undisturbed (old and new), and how many changes of the disk it makes.

    The changes are counted where nothing stood before, and where the new thing replaces the old one.
    """
    folder = tmp_path_factory.mktemp("known")
    listed = deeds(prepare(folder))
    trees, changes = {}, {}
    for deed in listed:
        for which, replacing in (("old", False), ("new", False), ("new", True)):
            place = folder / f"all-{which}" / deed.name
            fresh(place, deed, folder / "all-old" if replacing else None)
            code, said = Fork(lambda d=deed, p=place, w=which: d.write(p, w), place).wait(240)  # may compile
            assert code == 0, said
            found = tree(place, deed.target)
            assert trees.setdefault((deed.name, which), found) == found
            changes[deed.name, replacing] = int(re.search(r"changes (\d+)", said)[1])
            assert names(place) == {"out"}
    return listed, trees, changes, folder / "all-old"


def ended_by(sign, code, said):
    """Whether a process ended as this signal ends one: Python makes an exception of an interrupt.

    An interrupt that falls into a finalizer is dropped by Python, and the process ends as if none had come.
    """
    interrupted = sign == signal.SIGINT and (code == 0 or (code == 99 and "KeyboardInterrupt" in said))
    return code == -sign or interrupted


@pytest.mark.costly("the gate's campaign of kills")
def test_killed_at_every_kind_of_moment(known, tmp_path):
    listed, trees, changes, old_place = known
    rng = random.Random(int(os.environ.get("ATTOMATON_SEED", "0")))  # noqa: S311
    seen, missed = {"old": 0, "new": 0, "nothing": 0}, []
    place = tmp_path / "place"
    for number in range(trials(18)):
        deed = listed[number % len(listed)]
        replacing = rng.random() < 0.7
        fresh(place, deed, old_place if replacing else None)
        before = tree(place, deed.target)
        assert before == (trees[deed.name, "old"] if replacing else None)
        at_change, sign = rng.randint(1, changes[deed.name, replacing]), rng.choice(SIGNS)
        code, said = Fork(lambda d=deed: d.write(place, "new"), place, at_change=at_change, sign=sign).wait()
        if f"signal at change {at_change}" in said:
            assert ended_by(sign, code, said), (number, deed.name, at_change, sign, code, said)
        else:  # it made fewer changes than it was seen to make
            assert code == 0, said
            missed.append((number, deed.name, at_change))
        found = tree(place, deed.target)
        assert found in (before, trees[deed.name, "new"]), (number, deed.name, at_change, sign, replacing)
        seen["nothing" if found is None else "old" if found == before else "new"] += 1
        code, said = Fork(lambda d=deed: d.write(place, "new"), place).wait()
        assert code == 0, said
        assert tree(place, deed.target) == trees[deed.name, "new"], (number, deed.name, at_change, sign)
        assert names(place) == {"out"}, (number, deed.name, at_change, sign, names(place))
    assert all(seen.values()), seen
    assert len(missed) <= number / 10, missed


@pytest.mark.slow  # campaign of writers
def test_two_writers_leave_one_of_the_two_and_the_other_says_why(known, tmp_path):
    listed, trees, _, old_place = known
    rng = random.Random(int(os.environ.get("ATTOMATON_SEED", "0")))  # noqa: S311
    refused = 0
    place = tmp_path / "place"
    for number in range(trials(18)):
        deed = listed[number % len(listed)]
        fresh(place, deed, old_place if rng.random() < 0.5 else None)
        before = tree(place, deed.target)
        writers = {}
        for which in ("old", "new"):
            log = tmp_path / f"{which}.log"
            act, delay = (lambda d=deed, w=which: d.write(place, w)), rng.uniform(0, 0.05)
            writers[which] = Fork(act, place, delay=delay, log=log)
        codes = {}
        for which, writer in writers.items():
            codes[which], said = writer.wait()
            assert codes[which] == 0 or (codes[which] == 2 and "is being written by process" in said), said
            refused += codes[which] == 2
        found = tree(place, deed.target)
        done = [trees[deed.name, which] for which, code in codes.items() if code == 0]
        assert done, codes
        assert found in done, (number, deed.name, codes, before is None)
        assert names(place) == {"out"}, (number, deed.name, names(place))
    assert refused
