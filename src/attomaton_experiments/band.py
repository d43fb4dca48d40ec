"""Where next-token seeking begins: a split of the layers, chosen on one corpus and tested on another.

Settings: ``chosen_on`` and ``tested_on`` (globs of the corpora in the folder), ``n_documents``, ``shortest``
(the fewest characters of a document), ``random`` (draws of random heads), ``n_permutations`` and ``bound``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.artifacts.arrays import digest_arrays
from attomaton.base.errors import UnreadableSource
from attomaton.base.printing import Grid
from attomaton.base.progress import Progress, Stages
from attomaton.base.tables import Float64
from attomaton.claims import Verdict, VerdictStatus
from attomaton.claims.verdicts import Judgement
from attomaton.heads import AuditSettings, Position, audit_heads
from attomaton.report.figures import Line, LinePanel, draw_line_panels
from attomaton_experiments.finished import FinishedResults
from attomaton_experiments.page import Page
from attomaton_experiments.passages import read_passages
from attomaton_experiments.scansnap.figure import render_figure
from attomaton_experiments.settings import Settings

FEW = 200
"""Rows for ladder and ceiling, which are not used here: next-token seeking uses all."""

OF_SEEKING = [f"seeking_{name}" for name in ("mass", "excess", "z", "z_documents")]
COLUMNS = ["head", "layer", "number", *OF_SEEKING, "seeks"]
"""The columns of an audit that concern next-token seeking."""

Row = dict[str, Any]
"""The audit of one head, with its model and corpus."""


def run_band(settings: Settings, progress: Progress) -> Page:
    """Audit every model of the folder on both corpora, choose the split on the first, and test it."""
    folder: Path = settings["source"]
    models = sorted(folder.glob("*.gguf"))
    if not models:
        raise UnreadableSource(f"{folder} has no .gguf file; give a folder with one or more models")
    corpora = [_find_one(folder, settings[name]) for name in ("chosen_on", "tested_on")]
    finished, rows = FinishedResults(settings["work"]), list[Row]()
    bands = list[Band]()
    for model in models:
        by_corpus = list[list[Row]]()
        for number, corpus in enumerate(corpora):
            sizes = {name: settings[name] for name in ("n_documents", "shortest", "random")}
            options = {**sizes, "seed": settings["seed"] + number} | {
                "model": _digest(model),
                "corpus": _digest(corpus),
            }
            make = partial(_audit, model, corpus, options, progress)
            by_corpus.append(finished.take(f"{model.stem} {corpus.stem}", options, make)["heads"])
        rows += [row for heads in by_corpus for row in heads]
        chosen, tested = (find_shares(heads) for heads in by_corpus)
        names = [corpus.stem for corpus in corpora]
        bands.append(Band(model.stem, names, chosen, tested, n_heads=len(by_corpus[0]) // len(chosen)))
    tests = [band.test(settings["n_permutations"], settings["seed"]) for band in bands]
    caption = (
        f"{', '.join(band.model for band in bands)}: {settings['n_documents']} documents of each corpus; "
        "share of the heads of each layer that seek the next token, and the bands chosen on the first corpus"
    )
    return render_figure(
        settings,
        caption,
        (_tell_bands(bands), _tell_tests(bands, tests)),
        pa.Table.from_pylist(rows),
        partial(draw_line_panels, [panel for band in bands for panel in _panels(band)]),
        verdicts=[_judge(band, test, settings["bound"]) for band, test in zip(bands, tests, strict=True)],
        notes=settings["remarks"],
        options="--data FOLDER",
    )


def _find_one(folder: Path, pattern: str) -> Path:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise UnreadableSource(f"{folder} has {len(files)} files {pattern}; give a folder with one")
    return files[0]


def _digest(file: Path) -> str:
    return digest_arrays(np.fromfile(file, np.uint8))


def _audit(model: Path, corpus: Path, options: dict[str, Any], progress: Progress) -> dict[str, list[Row]]:
    """The table of the audit, row by row; what is not finite is None."""
    named = f"{model.stem} on {corpus.stem}"
    progress(f"reading {named}", 0, 0)
    audit = audit_heads(
        model,
        read_passages(corpus, shortest=options["shortest"])[: options["n_documents"]],
        rungs=(Position(),),
        random=options["random"],
        settings=AuditSettings(rows=FEW, seed=options["seed"]),
        progress=Stages(lambda stage: progress(f"{named}: {stage}", 0, 0)),
    )
    about = {"model": model.stem, "corpus": corpus.stem}
    table: Any = audit.table()
    rows = table.select(COLUMNS).to_pylist()
    return {"heads": [about | {name: _plain(value) for name, value in row.items()} for row in rows]}


def _plain(cell: Any) -> Any:
    return None if isinstance(cell, float) and not isfinite(cell) else cell


def find_shares(rows: Sequence[Row]) -> Float64:
    """The share of the heads of each layer that seek the next token, shape (n_layers,).

    Examples
    --------
    >>> find_shares([{"layer": 0, "seeks": False}, {"layer": 1, "seeks": True}]).tolist()
    [0.0, 1.0]
    """
    layers, seeks = (np.array([row[name] for row in rows]) for name in ("layer", "seeks"))
    return np.array([seeks[layers == layer].mean() for layer in np.unique(layers)], np.float64)


def find_difference(shares: Float64, split: int) -> Float64:
    """The mean share above a split minus that below, for shares of shape (..., n_layers)."""
    return shares[..., split:].mean(-1) - shares[..., :split].mean(-1)


def choose_split(shares: Float64) -> int:
    """The first of the upper layers, where the difference is largest; the lowest of equals.

    Examples
    --------
    >>> choose_split(np.array([0.0, 0.25, 0.0, 0.75, 1.0, 0.75]))
    3
    """
    differences = [float(find_difference(shares, split)) for split in range(1, len(shares))]
    return 1 + int(np.argmax(differences))


@dataclass(frozen=True, eq=False)
class Band:
    """The shares of seeking heads by layer on both corpora, and the split chosen on the first.

    Attributes
    ----------
    corpora : list of str
        Names of the corpus to choose on and of the one to test on.
    chosen, tested : float64 arrays, shape (n_layers,)
        The share of each layer's heads that seek the next token, on each.
    n_heads : int
        Heads per layer.

    Examples
    --------
    >>> shares = np.array([0.0, 0.0, 0.0, 1.0, 0.5, 1.0])
    >>> band = Band("model", ["stories", "wiki"], shares, shares, n_heads=4)
    >>> band.split, round(band.test(999, 0)["shifted"], 3), band.count(shares)
    (3, 0.167, ((0, 12), (10, 12)))
    """

    model: str
    corpora: list[str]
    chosen: Float64
    tested: Float64
    n_heads: int

    @property
    def split(self) -> int:
        """The first of the upper layers."""
        return choose_split(self.chosen)

    def count(self, shares: Float64) -> tuple[tuple[int, int], tuple[int, int]]:
        """Seeking heads and all heads, below and above the split."""
        below, above = (
            (round(float(group.sum() * self.n_heads)), len(group) * self.n_heads)
            for group in (shares[: self.split], shares[self.split :])
        )
        return below, above

    def test(self, n_permutations: int, seed: int) -> dict[str, float]:
        """One-sided p of the tested corpus: layers permuted, layers shifted, and Fisher's over heads."""
        from scipy.stats import fisher_exact

        observed = find_difference(self.tested, self.split) - 1e-12
        n_layers = len(self.tested)
        rng = np.random.default_rng(seed)
        permuted = rng.permuted(np.tile(self.tested, (n_permutations, 1)), axis=1)
        shifted = np.array([np.roll(self.tested, by) for by in range(n_layers)])
        table = np.array([[k, n - k] for k, n in self.count(self.tested)[::-1]])
        beyond = int((find_difference(permuted, self.split) >= observed).sum())
        test: Any = fisher_exact(table, alternative="greater")
        return {
            "permuted": (1 + beyond) / (1 + n_permutations),
            "shifted": float((find_difference(shifted, self.split) >= observed).mean()),
            "fisher": float(test.pvalue),
        }


def _tell_bands(bands: Sequence[Band]) -> Grid:
    rows = list[list[str]]()
    for band in bands:
        for corpus, shares in zip(band.corpora, (band.chosen, band.tested), strict=True):
            counts = [f"{k} of {n} ({k / n:.1%})" for k, n in band.count(shares)]
            difference = f"{find_difference(shares, band.split):+.3f}"
            rows.append([band.model, corpus, str(band.split), *counts, difference, str(choose_split(shares))])
    headers = [
        "model",
        "corpus",
        "upper layers from",
        "seek below",
        "seek above",
        "difference",
        "its own split",
    ]
    return Grid("Label-seeking heads below and above the split chosen on the first corpus", headers, rows)


def _tell_tests(bands: Sequence[Band], tests: Sequence[dict[str, float]]) -> Grid:
    rows = [
        [band.model, band.corpora[1], *(f"{test[name]:.2g}" for name in ("permuted", "shifted", "fisher"))]
        for band, test in zip(bands, tests, strict=True)
    ]
    headers = ["model", "tested on", "p, layers permuted", "p, layers shifted", "p, Fisher over heads"]
    return Grid(
        "Whether upper heads seek the next token more often on the second corpus, one-sided", headers, rows
    )


def _judge(band: Band, test: dict[str, float], bound: float) -> Verdict:
    claim = f"next-token seeking begins in the middle: {band.model}"
    if not band.chosen.any():
        reason = f"no head seeks the next token on {band.corpora[0]}, so there is no split to test"
        return Verdict(claim, VerdictStatus.NOT_APPLICABLE, None, None, reason)
    meaning = f"p on {band.corpora[1]} at the split chosen on {band.corpora[0]}, layers permuted"
    return Judgement(test["permuted"], bound, test["permuted"] <= bound, meaning).about(claim)


def _panels(band: Band) -> list[LinePanel]:
    layers = list(range(len(band.chosen)))
    panels = list[LinePanel]()
    for role, corpus, shares in zip(
        ("chosen", "tested"), band.corpora, (band.chosen, band.tested), strict=True
    ):
        means = [float(group.mean()) for group in (shares[: band.split], shares[band.split :])]
        ends = [0, band.split - 0.5, band.split - 0.5, layers[-1]]
        lines = [
            Line("heads that seek the next token", layers, shares.tolist(), 0),
            Line("mean of the band", ends, [means[0], means[0], means[1], means[1]], 1, 1),
        ]
        title = f"{band.model}, {corpus}: {role}"
        panels.append(LinePanel(title, lines, least=0.0, axis="layer", log_axis=False))
    return panels
