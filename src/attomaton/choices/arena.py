"""A simulated arena of language models, whose truth is known: to try ratings on."""

from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.options import whole_number
from attomaton.base.tables import table_of

STRENGTHS = {
    "atlas": 1.4,
    "birch": 1.3,
    "cobalt": 1.0,
    "dune": 0.7,
    "ember": 0.6,
    "fjord": 0.2,
    "gale": 0.0,
    "harbor": -0.3,
    "iris": -0.5,
    "juniper": -0.9,
    "kelp": -1.5,
}
"""The true strength of each model, in log odds of a win against a loss."""

NEWCOMER, NEWCOMER_BATTLES = "lotus", 40
"""A model that lost all of its few battles."""

LENGTHS = {"dune": 0.8, "birch": -0.6}
"""Models whose answers are longer or shorter than others', in standard deviations."""

CATEGORIES = {"writing": {}, "code": {"cobalt": 0.8, "atlas": -0.4}, "math": {"fjord": 0.7}}
"""What a category adds to the strength of a model."""


MOVED_FIRST, LENGTH, TIE_ODDS = 0.15, 0.4, -0.8
"""What standing first, a standard deviation of length, and a tie are worth."""

TASTE = 0.3
"""Standard deviation, over judges, of what length is worth."""


def simulate_arena(n_battles: int = 50_000, *, seed: int = 0) -> pa.Table:
    """Battles of twelve models as arenas publish them, drawn from known strengths and effects.

    Two models answer a prompt, and a judge names the better answer, or a tie. In log odds, standing first is
    worth 0.15, a standard deviation of length 0.4 (to some judges more, to others less), and a tie −0.8
    (Davidson's model). ``lotus`` is new and lost all of its 40 battles. Categories change the strength of
    some models.

    Parameters
    ----------
    n_battles : int
        How many battles to draw, at least 1,000.
    seed : int
        The seed of the random numbers.

    Returns
    -------
    pyarrow.Table
        Columns ``model_a``, ``model_b``, ``winner`` ("model_a", "model_b", "tie" or "tie (bothbad)"),
        ``length_a``, ``length_b``, ``judge`` and ``category``.

    Examples
    --------
    >>> import attomaton as at
    >>> battles = simulate_arena(5_000)
    >>> battles.num_rows, battles.column_names[:3]
    (5000, ['model_a', 'model_b', 'winner'])
    >>> fit = at.fit_choices(battles, first="model_a", second="model_b", outcome="winner")
    >>> fit.components[0][:3], fit.components[1]
    (('atlas', 'cobalt', 'dune'), ('lotus',))
    """
    n_battles = whole_number(n_battles, "n_battles", least=1_000)
    rng = np.random.default_rng(whole_number(seed, "seed", least=0))
    models, categories = [*STRENGTHS, NEWCOMER], list(CATEGORIES)
    strength = np.array(
        [
            [STRENGTHS.get(model, 0.0) + more.get(model, 0.0) for model in models]
            for more in CATEGORIES.values()
        ]
    )
    category = rng.choice(len(categories), n_battles, p=[0.5, 0.3, 0.2])
    judge = rng.integers(0, n_battles // 100, n_battles)
    first = rng.integers(0, len(STRENGTHS), n_battles)
    second = (first + rng.integers(1, len(STRENGTHS), n_battles)) % len(STRENGTHS)
    new = rng.choice(n_battles, NEWCOMER_BATTLES, replace=False)
    first[new] = len(STRENGTHS)
    wordiness = np.array([LENGTHS.get(model, 0.0) for model in models])
    length = np.round(rng.normal(size=(2, n_battles)) + wordiness[np.stack([first, second])], 2)
    taste = LENGTH + TASTE * rng.normal(size=n_battles // 100)
    gap = strength[category, first] - strength[category, second] + MOVED_FIRST
    half = 0.5 * (gap + taste[judge] * (length[0] - length[1]))
    utility = np.stack([half, -half, np.full(n_battles, TIE_ODDS)], axis=1)
    outcome = (utility + rng.gumbel(size=utility.shape)).argmax(axis=1)
    outcome[new] = 1
    bad = (outcome == 2) & (rng.random(n_battles) < 0.3)
    columns: dict[str, Any] = {
        "model_a": np.array(models)[first],
        "model_b": np.array(models)[second],
        "winner": np.array(["model_a", "model_b", "tie", "tie (bothbad)"])[outcome + bad],
        "length_a": length[0],
        "length_b": length[1],
        "judge": np.char.add("judge ", judge.astype(str)),
        "category": np.array(categories)[category],
    }
    return table_of(columns)
