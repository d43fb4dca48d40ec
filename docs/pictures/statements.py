"""Write docs/statements.md from docs/statements.toml.

python docs/pictures/statements.py
"""

import tomllib
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).parents[1]
TABLE, PAGE = DOCS / "statements.toml", DOCS / "statements.md"
VERDICTS = {
    "exact": "exact",
    "differs": "differs",
    "text": "text only",
    "open": "not in attomaton",
    "unreadable": "could not be read",
}

OPENING = """# The papers, statement by statement

Which statements of the two papers does attomaton contain, and where? The column *where* names the function,
the claim that judges the statement in `attomaton verify` or `attomaton reproduce`, the command, and the test
that fails if attomaton is wrong. The [glossary](glossary.md) explains the words. This table counts the rows
by verdict:

{counts}

- **Exact**: attomaton computes or tests what the statement says. A remark may add how.
- **Differs**: attomaton computes or tests something close. The remark says what differs.
- **Text only**: the statement contains nothing to compute.
- **Not in attomaton**: the remark says what is missing.
- **Could not be read**: the sources that we found end before the statement.

A number in brackets, as in *distinct tokens grow (2)*, is part of the name of the claim;
[the theory page](theory.md#the-claims-numbered) lists the numbers. Functions are in `src/attomaton/`
unless the path names another package. Tests are in `tests/`. A command without a blank is the name of an
experiment: `mechanics-global` means `attomaton reproduce mechanics-global --out DIR`.
[Theory to code](theory-to-code.md) lists the measured values.
This page is written by `python docs/pictures/statements.py`, and a test compares every path, name and
command on it with the source.

<style>
.md-typeset .statements td code {{ word-break: normal; overflow-wrap: anywhere; }}
.md-typeset .statements table:not([class]) td {{ min-width: 0; padding: 0.5em; }}
.md-typeset .statements table:not([class]) td:nth-child(3) {{ min-width: 17rem; }}
</style>
"""


def render() -> str:
    """The page."""
    sections = tomllib.loads(TABLE.read_text(encoding="utf-8"))["section"]
    blocks = [OPENING.format(counts=count(sections))]
    for section in sections:
        lines = [
            "| place | statement | where | verdict and remark |",
            "|---|---|---|---|",
        ]
        lines += [row_of(row) for row in section["rows"]]
        table = "\n".join(lines)
        boxed = f'<div class="statements" markdown="1">\n\n{table}\n\n</div>\n'
        blocks.append(f"## {section['title']}\n\n{section['source']}\n\n{boxed}")
    return "\n".join(blocks)


def count(sections: list[dict]) -> str:
    """One row of numbers per section, and their sum."""
    lines = [f"| source | {' | '.join(VERDICTS.values())} |", "|---" * (len(VERDICTS) + 1) + "|"]
    total: Counter[str] = Counter()
    for section in sections:
        found = Counter(row[6] for row in section["rows"])
        total += found
        lines.append(f"| {section['title']} | {' | '.join(str(found[name]) for name in VERDICTS)} |")
    lines.append(f"| all | {' | '.join(str(total[name]) for name in VERDICTS)} |")
    return "\n".join(lines)


def row_of(row: list[str]) -> str:
    """One row of the table."""
    place, statement, function, claim, command, test, verdict, remark = (
        cell.replace("|", "\\|") for cell in row
    )
    verdict = VERDICTS[verdict] + (f": {remark}" if remark else "")
    where = [
        *codes(function),
        *([f"claim: {claim}"] if claim else []),
        *codes(command, "attomaton "),
        *codes(test),
    ]
    return f"| {place} | {statement} | {'<br>'.join(where)} | {verdict} |"


def codes(cell: str, whole: str = "\0") -> list[str]:
    """Names separated by spaces as code; a command that begins with ``whole`` is one name."""
    names = [cell] if cell.startswith(whole) else cell.split()
    return [f"`{name}`" for name in names if name]


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
