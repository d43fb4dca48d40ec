"""Sizes of memory, as people write them."""

import pytest

from attomaton.base.errors import UnsupportedOption
from attomaton.base.machine import parse_memory


@pytest.mark.parametrize("unit", ["G", "g", "GB", "gb", "Gb", " G", " gb "])
def test_two_gigabytes_by_any_name(unit):
    assert parse_memory(f"2{unit}") == 2_000_000_000


@pytest.mark.parametrize("unit", ["GiB", "gib", "GIB", " Gib"])
def test_two_gigabytes_of_powers_of_two(unit):
    assert parse_memory(f"2{unit}") == 2 << 30


@pytest.mark.parametrize("size", ["2X", "G", "2 G B", "2GG", "2Gi", "-2G", "2G0"])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(UnsupportedOption, match="give a size such as 2GB or 512MiB"):
        parse_memory(size)
