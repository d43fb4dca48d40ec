"""What an experiment came to: measured numbers by trial, predicted ones beside them, verdicts."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from attomaton.claims.verdicts import Verdict
from attomaton.experiments.settings import Settings
from attomaton.tables import Float64, make_table

NUMBER_SCHEMA = pa.schema([("at", pa.float64()), ("trial", pa.int64()), ("value", pa.float64())])


@dataclass(frozen=True, eq=False)
class Measured:
    """One measure along a run.

    Attributes
    ----------
    name, title : str
        Its name in files, and in words.
    at : float64 array, shape (n_records,)
        Steps, or radii.
    values : float64 array, shape (n_records, n_trials)
        What was measured.
    predicted : pair of float64 arrays, optional
        Where something was computed without training, and its mean over the trials there (geometric on a
        logarithmic axis); NaN where it does not speak.
    log : bool
        Whether it is best shown on a logarithmic axis.
    """

    name: str
    title: str
    at: Float64
    values: Float64
    predicted: tuple[Float64, Float64] | None = None
    log: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """One experiment, done.

    Attributes
    ----------
    settings : Settings
        What was asked for.
    axis : str
        What the measures run along.
    measured : tuple of Measured
        All curves.
    verdicts : tuple of Verdict
        What became of the claims; empty if they were not asked for.
    notes : tuple of str
        Sentences for the page: counts over trials that no single curve shows.
    """

    settings: Settings
    axis: str
    measured: tuple[Measured, ...]
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Outcome({self.settings.name}: {self.n_trials:,} trials, {len(self.measured)} measures)"

    @property
    def n_trials(self) -> int:
        """How many trials there were."""
        return self.measured[0].values.shape[1]

    def of(self, name: str) -> Measured:
        """The measure of this name."""
        return next(one for one in self.measured if one.name == name)

    def last(self) -> dict[str, tuple[float, float, float]]:
        """Mean, least and most over the trials of every measure at its last record."""
        ends = {one.name: one.values[-1] for one in self.measured}
        return {name: (float(end.mean()), float(end.min()), float(end.max())) for name, end in ends.items()}

    def table(self) -> pa.Table:
        """Every number: columns measure, at, trial, value."""
        names = [one.name for one in self.measured for _ in range(one.values.size)]
        columns = {
            "at": np.concatenate([np.repeat(one.at, one.values.shape[1]) for one in self.measured]),
            "trial": np.concatenate([np.indices(one.values.shape)[1].ravel() for one in self.measured]),
            "value": np.concatenate([one.values.ravel() for one in self.measured]),
        }
        return make_table(NUMBER_SCHEMA, columns).add_column(0, "measure", pa.array(names, pa.string()))
