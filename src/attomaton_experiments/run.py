"""Run an experiment by its settings."""

from collections.abc import Callable

from attomaton.base.progress import Progress, silent
from attomaton_experiments.band import run_band
from attomaton_experiments.beginning.curves import run_curves
from attomaton_experiments.beginning.ends import run_ends
from attomaton_experiments.beginning.turn import run_turn
from attomaton_experiments.components import run_components
from attomaton_experiments.course import run_course
from attomaton_experiments.decoder import run_concepts, run_decoder, run_text as run_decoder_text
from attomaton_experiments.heads import run_heads
from attomaton_experiments.heldout import run_heldout
from attomaton_experiments.layers import run_layers
from attomaton_experiments.losses import run_losses
from attomaton_experiments.mechanics import run_training
from attomaton_experiments.optimisers import run_optimisers
from attomaton_experiments.page import Page
from attomaton_experiments.path import run_path
from attomaton_experiments.published import run_published
from attomaton_experiments.repetition import run_repetition
from attomaton_experiments.scansnap.figure3 import run_figure3
from attomaton_experiments.scansnap.figure4 import run_figure4
from attomaton_experiments.scansnap.figure6 import run_figure6
from attomaton_experiments.scansnap.figure7 import run_figure7
from attomaton_experiments.scansnap.figure10 import run_figure10
from attomaton_experiments.scansnap.meeting import run_meeting
from attomaton_experiments.settings import Settings
from attomaton_experiments.text import run_text

KINDS: dict[str, Callable[[Settings, Progress], Page]] = {
    "training": run_training,
    "losses": run_losses,
    "layers": run_layers,
    "components": run_components,
    "path": run_path,
    "published": run_published,
    "optimisers": run_optimisers,
    "text": run_text,
    "figure3": run_figure3,
    "figure4": run_figure4,
    "figure6": run_figure6,
    "figure7": run_figure7,
    "figure10": run_figure10,
    "meeting": run_meeting,
    "beginning": run_curves,
    "turn": run_turn,
    "ends": run_ends,
    "decoder": run_decoder,
    "decoder-text": run_decoder_text,
    "decoder-concepts": run_concepts,
    "repetition": run_repetition,
    "heads": run_heads,
    "heads-band": run_band,
    "heads-course": run_course,
    "heldout": run_heldout,
}
"""The function that runs each kind of settings."""


def run_experiment(settings: Settings, progress: Progress = silent) -> Page:
    """Draw, train, solve, measure, judge, and make the page."""
    return KINDS[settings["kind"]](settings, progress)
