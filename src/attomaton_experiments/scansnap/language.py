"""Common to figures 7 and 10: training settings, and how the model relates to the theory."""

from attomaton_experiments.scansnap_model.language_model import LanguageModel
from attomaton_experiments.scansnap_model.language_training import LanguageTraining
from attomaton_experiments.scansnap_model.texts import TextPair
from attomaton_experiments.settings import Settings

OUTSIDE = (
    "outside the theory: it has positions, a feed-forward layer, residual connections, layer norms and "
    "dropout; windows are short, and the query attends to itself"
)


def make_training(settings: Settings, texts: TextPair, *, rate: float, seed: int) -> LanguageTraining:
    """The training that the settings describe; fast layers have ``fast_ratio`` times the rate."""
    steps = settings["training"]
    return LanguageTraining(
        LanguageModel(len(texts.tokens), **settings["model"]),
        rate=rate,
        fast_rate=rate * steps["fast_ratio"],
        fast=tuple(steps["fast"]),
        batch_size=steps["batch_size"],
        clip=steps["clip"],
        seed=seed,
    )


def describe_model(settings: Settings, texts: TextPair) -> str:
    """Sizes in a clause for a caption."""
    model, steps = settings["model"], settings["training"]
    unknown = 100 * float(texts.shares[0])
    return (
        f"{texts.name}, one encoder layer of width {model['width']}, 1 head, feed-forward {model['hidden']}, "
        f"dropout {model['dropout']}, window {model['window']}, batch {steps['batch_size']}, "
        f"clip {steps['clip']}; reduced to the {len(texts.tokens) - 1:,} most frequent words "
        f"({unknown:.0f} % of the text is <unk>)"
    )
