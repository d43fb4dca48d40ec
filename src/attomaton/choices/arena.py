"""Simulated arena battles of language models with known strengths, to test ratings."""

from typing import Any

import numpy as np
import pyarrow as pa

from attomaton.base.options import whole_number
from attomaton.base.tables import table_of

# The true strength of each model, in log odds of a win against a loss.
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

# A model that lost all of its few battles.
NEWCOMER = "lotus"
NEWCOMER_BATTLES = 40

# The mean length of the answers of models, in standard deviations from the mean of all.
LENGTHS = {"dune": 0.8, "birch": -0.6}

# Category → the change of the strength of each model.
CATEGORIES = {"writing": {}, "code": {"cobalt": 0.8, "atlas": -0.4}, "math": {"fjord": 0.7}}

# Effects in log odds.
FIRST_EFFECT = 0.15  # of being first
LENGTH_EFFECT = 0.4  # of a standard deviation of length, the mean over judges
LENGTH_TASTE = 0.3  # standard deviation of the effect of length over judges
TIE_EFFECT = -0.8  # of a tie


def simulate_arena(n_battles: int = 50_000, *, seed: int = 0) -> pa.Table:
    """Simulate an arena: battles between twelve language models with known strengths.

    In each battle two models answer a prompt, and a judge picks the better answer or a tie. The log odds of
    the first model increase by 0.15 for its position and, on average over judges, by 0.4 for each standard
    deviation of extra length. Some strengths depend on the category. ``lotus`` loses all of its 40 battles.

    Parameters
    ----------
    n_battles : int
        The number of battles, at least 1,000.
    seed : int
        The seed of the random number generator.

    Returns
    -------
    pyarrow.Table
        One row per battle. ``winner`` is "model_a", "model_b", "tie" or "tie (bothbad)".

    Examples
    --------
    >>> battles = simulate_arena(5_000)
    >>> battles.num_rows, battles.column_names[:3]
    (5000, ['model_a', 'model_b', 'winner'])
    """
    n_battles = whole_number(n_battles, "n_battles", least=1_000)
    rng = np.random.default_rng(whole_number(seed, "seed", least=0))
    models = np.array([*STRENGTHS, NEWCOMER])
    n_established = len(STRENGTHS)
    n_judges = n_battles // 100  # 100 battles for each judge, on average
    category = rng.choice(len(CATEGORIES), n_battles, p=[0.5, 0.3, 0.2])  # shares of the categories
    judge = rng.integers(0, n_judges, n_battles)
    first = rng.integers(0, n_established, n_battles)
    second = (first + rng.integers(1, n_established, n_battles)) % n_established  # never the first
    newcomer_battles = rng.choice(n_battles, NEWCOMER_BATTLES, replace=False)
    first[newcomer_battles] = n_established  # the last of ``models``
    mean_length = np.array([LENGTHS.get(model, 0.0) for model in models])
    length = np.round(rng.normal(size=(2, n_battles)) + mean_length[np.stack([first, second])], 2)
    length_effect = LENGTH_EFFECT + LENGTH_TASTE * rng.normal(size=n_judges)

    strength = np.array(
        [
            [STRENGTHS.get(model, 0.0) + extra.get(model, 0.0) for model in models]
            for extra in CATEGORIES.values()
        ]
    )
    # outcomes 0 (first wins), 1 (second wins) and 2 (tie) by the logit model: the largest utility plus noise
    gap = strength[category, first] - strength[category, second] + FIRST_EFFECT
    half_gap = 0.5 * (gap + length_effect[judge] * (length[0] - length[1]))
    utility = np.stack([half_gap, -half_gap, np.full(n_battles, TIE_EFFECT)], axis=1)
    outcome = (utility + rng.gumbel(size=utility.shape)).argmax(axis=1)
    outcome[newcomer_battles] = 1
    is_bad_tie = (outcome == 2) & (rng.random(n_battles) < 0.3)  # three ties of ten
    columns: dict[str, Any] = {
        "model_a": models[first],
        "model_b": models[second],
        "winner": np.array(["model_a", "model_b", "tie", "tie (bothbad)"])[outcome + is_bad_tie],
        "length_a": length[0],
        "length_b": length[1],
        "judge": np.char.add("judge ", judge.astype(str)),
        "category": np.array(list(CATEGORIES))[category],
    }
    return table_of(columns)
