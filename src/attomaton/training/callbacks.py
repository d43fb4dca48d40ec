"""When a run is recorded, and callbacks for each record; trackers are imported when they are used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self

from attomaton.base.errors import needing
from attomaton.base.options import Checked, checked, whole_number
from attomaton.base.tables import Float64


class Callback(Protocol):
    """A callable that takes the number of steps and the mean loss of each trial, shape (n_trials,)."""

    def __call__(self, step: int, losses: Float64, /) -> object: ...


@dataclass(frozen=True)
class Watch(Checked):
    """Choose when a run is recorded, and what happens at each record.

    ``callbacks``, such as ``TensorBoard(…)`` or your own functions, are called with the number of steps and
    the mean losses (n_trials,); a resumed run repeats the calls for records after its last checkpoint. The
    run ends with a record for which ``stop``, called likewise, returns true. ``every`` is the number of steps
    between records; None means 200 records in total.

    Examples
    --------
    >>> import attomaton as at
    >>> watch = Watch([print], stop=lambda step, losses: losses.max() < 0.5, every=10)
    >>> samples, model = at.Samples.from_lists([[0, 1]], [0]), at.AttentionModel("orthonormal")
    >>> trace = at.train(samples, model, 0.1, steps=1000, watch=watch)
    0 [0.69314718]
    10 [0.3688752]
    """

    callbacks: Sequence[Callback] = ()
    stop: Callable[[int, Float64], bool] | None = None
    every: int | None = field(default=None, metadata=checked(whole_number, least=1))

    def interval(self, steps: int) -> int:
        """Steps between records in a run of ``steps`` steps."""
        return max(steps // 200, 1) if self.every is None else self.every


# A callback that is closed at the end of a with block.
class _Closing:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class TensorBoard(_Closing):
    """Log losses to TensorBoard event files in ``folder``; needs the package ``tensorboard``.

    Use it as a context manager, or call :meth:`close` at the end. ``tensorboard --logdir folder`` shows them.

    Examples
    --------
    >>> with TensorBoard("runs/attention") as tracker:  # no file is written before the first record
    ...     watch = Watch([tracker], every=10)
    """

    folder: str

    def __call__(self, step: int, losses: Float64) -> None:
        """Write the mean, smallest and largest loss."""
        for name, value in _summary(losses).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the event files, if there are any."""
        if "_writer" in self.__dict__:  # `cached_property` keeps it there after the first record
            self._writer.close()

    @cached_property
    def _writer(self) -> Any:
        _need_package("tensorboard")
        return import_module("torch.utils.tensorboard").SummaryWriter(self.folder)


@dataclass(frozen=True, eq=False)
class _Tracker(_Closing):
    """A package whose ``init(project=…, **settings)`` begins a run; use it as a context manager."""

    project: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    package: ClassVar[str]

    def __call__(self, step: int, losses: Float64) -> None:
        self._run.log(_summary(losses), step=step)

    def close(self) -> None:
        if "_run" in self.__dict__:  # else nothing was recorded
            self._run.finish()

    @cached_property
    def _run(self) -> Any:
        return _need_package(self.package).init(project=self.project, **self.settings)


class WandB(_Tracker):
    """Log losses to a Weights & Biases project; needs the package ``wandb``.

    ``settings`` are further arguments of ``wandb.init``.

    Examples
    --------
    >>> with WandB("attention", {"mode": "offline"}) as tracker:  # the run begins with the first record
    ...     watch = Watch([tracker], every=10)
    """

    package = "wandb"


class Trackio(_Tracker):
    """Log losses to a trackio project, stored on this machine; needs the package ``trackio``.

    ``settings`` are further arguments of ``trackio.init``.

    Examples
    --------
    >>> with Trackio("attention", {"name": "first run"}) as tracker:  # the run begins with the first record
    ...     watch = Watch([tracker], every=10)
    """

    package = "trackio"


def _summary(losses: Float64) -> dict[str, float]:
    return {
        "loss/mean": float(losses.mean()),
        "loss/min": float(losses.min()),
        "loss/max": float(losses.max()),
    }


def _need_package(package: str) -> Any:
    with needing("this callback"):
        return import_module(package)
