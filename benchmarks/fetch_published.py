"""Fetch data whose published figures tests/choices/test_published.py compares, as CSV files.

    pip install rdata
    python benchmarks/fetch_published.py FOLDER
    ATTOMATON_PUBLISHED=FOLDER pytest tests/choices/test_published.py

baseball (Agresti 2002) and icehockey are in the R package BradleyTerry2, nascar (Hunter 2004) is in
PlackettLuce. Both packages are under the GPL, so their data are not in this repository. A file that is in
FOLDER already is not fetched again.
"""

import re
import sys
import urllib.request
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

SOURCES = {
    "baseball.RData": "https://raw.githubusercontent.com/hturner/BradleyTerry2/HEAD/data/baseball.RData",
    "icehockey.R": "https://raw.githubusercontent.com/hturner/BradleyTerry2/HEAD/data/icehockey.R",
    "nascar.rda": "https://raw.githubusercontent.com/hturner/PlackettLuce/HEAD/data/nascar.rda",
}


def read_table(path: Path) -> pd.DataFrame:
    """One table of R: binary, or as the text of a structure."""
    if path.suffix == ".R":
        return pd.DataFrame({name: read_vector(path.read_text(), name) for name in HOCKEY})
    table: Any = next(iter(import_module("rdata").read_rda(path).values()))
    if not isinstance(table, pd.DataFrame):
        table = pd.DataFrame(table.values.astype(int), columns=[str(name) for name in table["dim_1"].values])
    return table


HOCKEY = ("visitor", "opponent", "result", "home.ice")


def read_vector(text: str, name: str) -> list[Any]:
    """One column of the text of a data frame: a factor, numbers, or truth values."""
    start = text.index(f"{name} = ") + len(name) + 3
    if text.startswith("structure(", start):
        codes, levels = re.split(r"\.Label =|levels =", text[start : text.index('class = "factor")', start)])
        labels = re.findall(r'"([^"]*)"', levels)
        return [labels[int(code) - 1] for code in re.findall(r"(\d+)L", codes)]
    cells = re.findall(r"TRUE|FALSE|[\d.]+", text[start : text.index(")", start)])
    return [cell == "TRUE" if cell in ("TRUE", "FALSE") else float(cell) for cell in cells]


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        path = folder / name
        if not path.exists():
            with urllib.request.urlopen(source, timeout=60) as answer:  # noqa: S310  of SOURCES
                path.write_bytes(answer.read())
        target = path.with_suffix(".csv")
        read_table(path).to_csv(target, index=False)
        print(target)


if __name__ == "__main__":
    main()
