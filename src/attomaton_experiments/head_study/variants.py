"""The models of the study: the theory's layer, and the parts that a transformer adds to it, one by one."""

from dataclasses import replace
from typing import Any

from attomaton.base.errors import UnsupportedOption
from attomaton_experiments.head_study.small import SmallConfig
from attomaton_experiments.head_study.training import SmallTraining

RATES = {True: 0.03, False: 3e-3}
"""The learning rate, with one-hot embeddings and with learned ones."""

WIDTH, BATCH_SIZE = 64, 16
"""Width of the streams, and windows per step."""

_BARE = {"values": False, "residual": False}

VARIANTS: dict[str, dict[str, Any]] = {
    "theory's layer": {"one_hot": True, "copying": True, "longer": 2, "batch_size": 64},
    "learned embeddings": {**_BARE, "copying": True},
    "all samples": _BARE,
    "values and residual": {},
    "four heads": {"n_heads": 4},
    "eight heads": {"n_heads": 8},
    "positions": {"n_heads": 4, "positions": True},
    "perceptron": {"n_heads": 4, "mlp": True},
    "two layers": {"n_heads": 4, "n_layers": 2, "positions": True},
}
"""Differences of each model from the plainest; ``copying`` selects its training samples,
``longer`` multiplies its steps, ``batch_size`` is the number of windows per step."""


def plan_training(variant: str, n_tokens: int, *, longest: int, steps: int, seed: int) -> SmallTraining:
    """The training settings of a model of the study.

    Examples
    --------
    >>> plan_training("four heads", 65, longest=32, steps=3000, seed=0).config.n_heads
    4
    """
    if variant not in VARIANTS:
        raise UnsupportedOption(f"there is no model {variant!r}; choose one of {', '.join(VARIANTS)}")
    options = dict(VARIANTS[variant])
    copying, steps = options.pop("copying", False), steps * options.pop("longer", 1)
    batch_size = options.pop("batch_size", BATCH_SIZE)
    config = replace(SmallConfig(n_tokens, longest=longest, width=WIDTH), **options)
    marks = tuple(mark for mark in (0, 30, 100, 300, 1000) if mark < steps)
    return SmallTraining(
        config,
        steps,
        batch_size=batch_size,
        rate=RATES[config.one_hot],
        copying=copying,
        seed=seed,
        marks=marks,
    )
