"""Hostile values for every option of every command, and for every number that a public function takes.

``ATTOMATON_FAULTS`` multiplies how many of them the quick tests try; the slow ones try every pair.
"""

import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from attomaton.base.errors import AttomatonError, NothingRealisable, UnsupportedOption
from attomaton.base.options import LARGEST_WHOLE, given_path, real_number, share, whole_number
from tests.cli.inside import run_inside
from tests.faults import calls
from tests.faults.commands import BASES, command_line, fresh, options
from tests.faults.hostile import HUGE, NEVER, PERHAPS, TYPED, Hang, Watch, limited, some_of

WATCH = Watch()
GATE = {"commands": 130, "calls": 700}
"""Cases of the gate, spread over all."""

TAKES_LONG = {"synthetic.draw_cyclic", "synthetic.draw_acyclic", "synthetic.draw_ordered"}
"""A value that these accept is worked on for longer than a test should take; they get values to refuse."""


def typed_cases():
    return [(command, option, value) for command, option in options() for value in TYPED]


def try_typed(place, command, option, value):
    """What is wrong with how a command takes a value; None if nothing."""
    folder = fresh(place / "template", place / "case" / "here")
    with WATCH.only(place) as outside:
        try:
            with limited():
                ended = run_inside(*command_line(command, option, value), cwd=folder)
        except Hang:
            return "hangs"
        except Exception as error:
            return f"ends in a traceback: {error!r}"
    if outside:
        return f"writes outside its folder: {outside}"
    if ended.returncode not in (0, 1, 2):
        return f"exit code {ended.returncode}"
    if ended.returncode == 2 and not ended.stderr.strip():
        return "refuses without a word"
    return f"prints a traceback: {ended.stderr}" if "Traceback" in ended.stderr else None


def run_typed(place, cases):
    found = {case: try_typed(place, *case) for case in cases}
    wrong = {(command, option, value[:40]): what for (command, option, value), what in found.items() if what}
    assert not wrong
    return len(found)


@pytest.mark.slow  # campaign
def test_some_values_for_some_options(place):
    assert run_typed(place, some_of(typed_cases(), GATE["commands"])) >= GATE["commands"]


@pytest.mark.slow
def test_every_value_for_every_option(place):
    assert run_typed(place, typed_cases()) > 2_230  # what the first campaign tried


def test_every_command_runs_as_it_is(place):
    """Else a wrong value would be refused for another reason."""
    assert set(BASES) == {command for command, _ in options()} | {"doctor"}
    for command, arguments in BASES.items():
        folder = fresh(place / "template", place / "case" / "here")
        ended = run_inside(command, *arguments, cwd=folder)
        assert (command, ended.returncode) == (command, 0), ended.stderr


def called_cases(folder):
    return [
        (name, parameter, number)
        for name, (_, parameters) in calls.calls(folder).items()
        for parameter in parameters
        for number in range(len(NEVER) + len(PERHAPS))
    ]


def try_called(call, parameter, value, *, never):
    """What is wrong with how a function takes a value; None if nothing."""
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingRealisable)
            call(**{parameter: value})
    except AttomatonError as error:
        return None if len(str(error)) < 600 else f"repeats a long value: {str(error)[:90]}"
    except Hang:
        return "hangs"
    except Exception as error:
        return f"raises {error!r}"
    return "accepts it" if never else None


def run_called(folder, cases):
    table, wrong = calls.calls(folder), {}
    calls.learned().predict_proba([0, 1], step=10.0)  # compiles what takes longest, before the clock runs
    for name, parameter, number in cases:
        never = number < len(NEVER)
        value = NEVER[number] if never else PERHAPS[number - len(NEVER)]
        if name in TAKES_LONG and not never and not (np.ndim(value) == 0 and float(value) < 0):
            continue
        if (
            name == "learn, queries"
            and never
            and isinstance(value, list | tuple | np.ndarray)
            and np.size(value)
        ):
            continue  # a list of queries
        if name in ("parse_memory",) and isinstance(value, str):
            never = value in ("3", "nan", "")
        what = try_called(table[name][0], parameter, value, never=never)
        if what:
            wrong[name, parameter, number] = what
    assert not wrong
    return len(cases)


def test_every_public_number_has_a_call(tmp_path):
    table = calls.calls(tmp_path)
    missing = {
        (name, one)
        for name, parameters in calls.found().items()
        for one in parameters
        if one not in table.get(name, (None, ()))[1] and one not in table.get(f"{name}, {one}", (None, ()))[1]
    }
    assert not missing


@pytest.mark.slow  # campaign
def test_some_values_for_some_numbers(tmp_path):
    assert run_called(tmp_path, some_of(called_cases(tmp_path), GATE["calls"])) >= GATE["calls"]


@pytest.mark.slow
def test_every_value_for_every_number(tmp_path):
    assert run_called(tmp_path, called_cases(tmp_path)) > 6_000


NO_NUMBERS = [value for value in NEVER if not isinstance(value, int) or isinstance(value, bool)]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=range(len(NO_NUMBERS)))
def test_what_is_no_number(value):
    for check in (whole_number, real_number, share):
        with pytest.raises(UnsupportedOption, match=r"^it is "):
            check(value, "it")


@pytest.mark.parametrize(
    "value", [*HUGE, 10**400, -(10**5000), 1.5, -1, Fraction(1, 2), Decimal(3)], ids=range(10)
)
def test_what_is_no_whole_number(value):
    with pytest.raises(UnsupportedOption, match="give a whole number"):
        whole_number(value, "it")


@pytest.mark.parametrize(
    "value", [3, 3.0, np.int8(3), np.uint64(3), np.float32(3), np.array(3), np.array(3.0)]
)
def test_what_is_three(value):
    found = whole_number(value, "it"), real_number(value, "it")
    assert found == (3, 3.0)
    assert [type(one) for one in found] == [int, float]


def test_limits_are_kept_to_the_last_digit():
    assert whole_number(LARGEST_WHOLE, "it") == LARGEST_WHOLE
    assert real_number(1, "it", most=1) == 1.0
    assert real_number(math.nextafter(0, 1), "it", above=0) > 0
    for wrong in (
        {"below": 1},
        {"above": 1},
        {"most": math.nextafter(1, 0)},
        {"least": math.nextafter(1, 2)},
    ):
        with pytest.raises(UnsupportedOption):
            real_number(1, "it", **wrong)
    assert share(1, "it") == 1.0


@pytest.mark.parametrize("value", ["", " ", "\t\n", None, 3, b"run", "a\0b", "s3://bucket/run", "\udcff"])
def test_what_is_no_path(value):
    with pytest.raises(UnsupportedOption):
        given_path(value, "out")


def test_a_link_to_itself_is_no_path(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UnsupportedOption, match="a link to itself"):
        given_path(tmp_path / "loop", "out")
    assert given_path(tmp_path / "new", "out") == tmp_path / "new"
