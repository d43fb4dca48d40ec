"""Callbacks: what is told at each record of a run. The trackers are optional packages, loaded when used."""

from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, Self

from attomaton.errors import MissingExtra
from attomaton.tables import Float64


class Callback(Protocol):
    """What is called with the steps taken and the mean loss of each trial, shape (n_trials,)."""

    def __call__(self, step: int, losses: Float64, /) -> object:
        """Take note."""
        ...


@dataclass(frozen=True, eq=False)
class TensorBoard:
    """Losses to TensorBoard's event files in ``folder``; needs the package ``tensorboard``.

    Use it as a context manager, or call :meth:`close` at the end.
    """

    folder: str

    def __call__(self, step: int, losses: Float64) -> None:
        """Write the mean, least and largest loss."""
        for name, value in _summary(losses).items():
            self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()

    @cached_property
    def _writer(self) -> Any:
        _load("tensorboard")
        return import_module("torch.utils.tensorboard").SummaryWriter(self.folder)


@dataclass(frozen=True, eq=False)
class _Tracker:
    """A package with ``init``, and a run with ``log`` and ``finish``; ``settings`` go to its ``init``."""

    project: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    package: str = field(init=False)

    def __call__(self, step: int, losses: Float64) -> None:
        """Log the mean, least and largest loss."""
        self._run.log(_summary(losses), step=step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the tracker's run."""
        self._run.finish()

    @cached_property
    def _run(self) -> Any:
        return _load(self.package).init(project=self.project, **self.settings)


@dataclass(frozen=True, eq=False)
class WandB(_Tracker):
    """Losses to Weights & Biases; needs the package ``wandb``."""

    package: str = field(default="wandb", init=False)


@dataclass(frozen=True, eq=False)
class Trackio(_Tracker):
    """Losses to trackio, which keeps them on this machine; needs the package ``trackio``."""

    package: str = field(default="trackio", init=False)


def _summary(losses: Float64) -> dict[str, float]:
    return {
        "loss/mean": float(losses.mean()),
        "loss/min": float(losses.min()),
        "loss/max": float(losses.max()),
    }


def _load(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtra(f"this needs {package}: pip install 'attomaton[{package}]'") from error
