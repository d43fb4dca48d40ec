"""The table of other packages in docs/separation.md is what its script prints with the same versions."""

import re
import runpy
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def numbers(text):
    return [float(part.replace(",", "")) for part in re.findall(r"-?\d[\d,.]*(?:e[+-]?\d+)?", text)]


def test_the_table_of_other_packages_is_what_the_script_prints():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = list(runpy.run_path(str(ROOT / "benchmarks" / "compare_separation.py"))["rows"]())
    lines = (ROOT / "docs" / "separation.md").read_text(encoding="utf-8").splitlines()
    cells = [re.split(r" \| ", line.strip("| ")) for line in lines]
    shown = {(row[0], row[1].strip("`"), row[2]): row[3:] for row in cells if len(row) == 5}
    known = {package for package, _, _ in shown}
    made = [row for row in made if row.package in known]  # not those of another version
    packages = {row.package for row in made}
    here = {key for key in shown if key[0] in packages}
    assert here == {(row.package, row.call, row.case) for row in made}
    for row in made:
        printed, said = shown[row.package, row.call, row.case]
        assert said == row.said
        assert numbers(printed) == pytest.approx(numbers(row.printed), rel=0.05)
    assert "attomaton" in packages
