"""One protocol of progress: its two halves, and the forms in which a user may give it."""

import pytest

import attomaton as at
from attomaton.base.progress import Stages, as_stages


class Noted(list):
    """Notes stages, and how much of them is done."""

    def __call__(self, stage):
        self.append(stage)

    def advance(self, done, total):
        assert 0 <= done <= total
        self.append((done, total))


def test_a_stage_begins_without_a_total_and_advances_with_one():
    noted = Noted()
    tell = Stages(noted.append, noted.advance)
    tell("reading")
    tell("reading", 0, 0)
    tell("reading", 0, 3)
    tell("reading", 3, 3)
    assert noted == ["reading", "reading", (0, 3), (3, 3)]


@pytest.mark.parametrize(("given", "written"), [(True, "reading\n"), (False, "")])
def test_yes_and_no(capsys, given, written):
    as_stages(given)("reading")
    as_stages(given)("reading", 1, 2)
    assert capsys.readouterr().err == written


def test_what_learn_tells_is_the_same_on_disk_and_in_memory_but_for_how_much_is_done(tmp_path):
    source = tmp_path / "text.txt"
    source.write_text("a b a c a b a b\n" * 50)
    in_memory, on_disk, named = Noted(), Noted(), []
    at.learn(source, window=4, progress=in_memory)
    at.learn(source, window=4, engine=at.engines.Engine("duckdb", memory="1GB", threads=1), progress=on_disk)
    at.learn(
        source, window=4, engine=at.engines.Engine("duckdb", memory="1GB", threads=1), progress=named.append
    )
    stages = [one for one in on_disk if isinstance(one, str)]
    together = [stage for stage in in_memory if stage != "finding components"]  # on disk, with the hard side
    assert stages == named == together
    assert len(on_disk) > len(stages)
