"""The probabilities that a model gives to every token of two texts, and its cost; optionally on disk."""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base.artifacts.arrays import read_arrays, write_arrays
from attomaton.base.artifacts.files import explained
from attomaton.base.tables import Float64, Int64
from attomaton_experiments.mixture.experts import MixtureExpert
from attomaton_experiments.mixture.reading import MixtureText
from attomaton_experiments.mixture.weights import fit_weights, share_out

Read = tuple[Float64, Int64]
"""The probability of each token, and the confidence of the model."""


@dataclass(frozen=True, eq=False)
class Judged:
    """A model on the held-out text for fitting and on the text that is judged.

    Attributes
    ----------
    held_out, valid : pairs of arrays, shape (n,) each
        Probabilities and confidences on both texts.
    seconds : float
        Processor seconds for learning and for reading both texts.

    Examples
    --------
    >>> ones = np.ones(2, np.int64)
    >>> one = Judged("coin", (np.array([0.5, 0.5]), ones), (np.array([0.5, 0.125]), ones), 0.0)
    >>> round(one.loss, 4), round(one.perplexity, 4)
    (1.3863, 4.0)
    """

    name: str
    held_out: Read
    valid: Read
    seconds: float

    @property
    def losses(self) -> Float64:
        """−ln p of each token of the judged text, shape (n,)."""
        return -np.log(self.valid[0])

    @property
    def loss(self) -> float:
        """The mean of −ln p over all positions, in nats."""
        return float(self.losses.mean())

    @property
    def perplexity(self) -> float:
        """e to the power of the loss."""
        return float(np.exp(self.loss))


def judge(name: str, learn: Callable[[], MixtureExpert], held_out: MixtureText, valid: MixtureText) -> Judged:
    """Learn an expert and read both texts, measuring processor time."""
    began = time.process_time()
    expert = learn()
    return Judged(name, expert.read(held_out), expert.read(valid), time.process_time() - began)


def blend(name: str, models: Sequence[Judged], *, pull: float) -> tuple[Judged, Float64]:
    """A mixture of models, its weights fitted on the held-out text; and each expert's share per judged token.

    The second is the share of each expert in the probability of each token, shape (n, n_experts).

    Examples
    --------
    >>> ones = np.ones(2, np.int64)
    >>> one = Judged("a", (np.array([0.5, 0.1]), ones), (np.array([0.5, 0.1]), ones), 1.0)
    >>> other = Judged("b", (np.array([0.1, 0.5]), ones), (np.array([0.1, 0.5]), ones), 2.0)
    >>> both, shares = blend("both", [one, other], pull=1.0)
    >>> both.valid[0].round(3).tolist(), shares.round(3).tolist(), both.seconds >= 3
    ([0.3, 0.3], [[0.833, 0.167], [0.167, 0.833]], True)
    """
    began = time.process_time()
    (on_held_out, held_out_sure), (valid, valid_sure) = (
        tuple(np.stack([getattr(model, text)[side] for model in models], 1) for side in (0, 1))
        for text in ("held_out", "valid")
    )
    weights = fit_weights(on_held_out, held_out_sure, pull=pull)
    both = [(weights.of(held_out_sure), on_held_out), (weights.of(valid_sure), valid)]
    read = [
        ((weight * probabilities).sum(1), np.ones(len(probabilities), np.int64))
        for weight, probabilities in both
    ]
    seconds = sum(expert.seconds for expert in models) + time.process_time() - began
    return Judged(name, read[0], read[1], seconds), share_out(*both[1])


def keep(folder: Path | None, name: str, settings: Any, make: Callable[[], Judged]) -> Judged:
    """Read a model that was judged before with the same ``settings`` settings; otherwise make and write it.

    Examples
    --------
    >>> import tempfile
    >>> ones = np.ones(1, np.int64)
    >>> made = []
    >>> def make():
    ...     made.append(1)
    ...     return Judged("coin", (np.array([0.5]), ones), (np.array([0.5]), ones), 0.1)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     kept = [keep(Path(place), "coin", {"window": 3}, make) for _ in range(2)]
    >>> len(made), kept[1].loss == kept[0].loss
    (1, True)
    """
    if folder is None:
        return make()
    path = folder / f"{re.sub('[^a-z0-9]+', '-', name.lower())}.safetensors"
    written_settings = json.dumps(settings)
    if path.exists():
        arrays, about = read_arrays(path)
        if about.get("settings") == written_settings:
            read = [
                (arrays[f"{text}_probabilities"], arrays[f"{text}_sure"]) for text in ("held_out", "valid")
            ]
            return Judged(name, read[0], read[1], float(about["seconds"]))
    judged = make()
    arrays = {
        f"{text}_{measure}": value
        for text in ("held_out", "valid")
        for measure, value in zip(("probabilities", "sure"), getattr(judged, text), strict=True)
    }
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_arrays(
            path, arrays, {"holds": "judged", "settings": written_settings, "seconds": repr(judged.seconds)}
        )
    return judged
