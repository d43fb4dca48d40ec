"""How well utility and attention during training predict where heads look at the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.report.figures import Line, LinePanel, draw_line_panels

NAMES = ("utility", "pattern")
"""The curves; a pattern is the attention of heads at the step."""


def draw_study(records: Sequence[Mapping[str, Any]], path: Path, *, caption: str) -> list[Path]:
    """One panel per model: the share of the last pattern explained by utility and pattern at each step.

    ``records`` have ``variant``, ``step``, ``utility`` and ``pattern``, one per head, seed and step.
    """
    panels: list[LinePanel] = []
    for variant in dict.fromkeys(record["variant"] for record in records):
        chosen = [record for record in records if record["variant"] == variant]
        steps = sorted({record["step"] for record in chosen})
        lines = [
            Line(
                name,
                [max(step, 1) for step in steps],
                [
                    float(np.mean([record[name] for record in chosen if record["step"] == step]))
                    for step in steps
                ],
                colour,
                colour,
            )
            for colour, name in enumerate(NAMES)
        ]
        panels.append(LinePanel(variant, lines))
    return draw_line_panels(panels, path, caption=caption, n_columns=3)
