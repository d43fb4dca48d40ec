"""Training with checkpoints at geometrically spaced steps, each a folder that ``open_model`` opens."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attomaton.base.artifacts.arrays import digest_arrays, write_arrays
from attomaton.base.artifacts.files import explained
from attomaton.base.errors import UnsupportedOption, needing
from attomaton.base.options import real_number, settle, whole_number
from attomaton.base.progress import Progress, silent
from attomaton.base.tables import Int64
from attomaton_experiments.descent import descend, repeatable
from attomaton_experiments.head_course.llama import LlamaShape, SmallLlama
from attomaton_experiments.head_study.training import draw_windows
from attomaton_experiments.passages import read_passages

_torch: Any = torch  # its type stubs leave some functions partly unknown

END = "<end>"
"""The token between two documents."""


@dataclass(frozen=True, eq=False)
class Stories:
    """Documents in tokens of their own: for training, and held out.

    Attributes
    ----------
    train : int64 array
        The documents for training, one after the other, with a token between them.
    held_out : tuple of int64 arrays
        The other documents.
    tokenizer : str
        The content of ``tokenizer.json``.
    texts : tuple of str
        The text of each token.
    """

    train: Int64
    held_out: tuple[Int64, ...]
    tokenizer: str = field(repr=False)
    texts: tuple[str, ...] = field(repr=False)

    @property
    def n_tokens(self) -> int:
        """The vocabulary."""
        return len(self.texts)

    @property
    def digest(self) -> str:
        """A digest of the documents."""
        return digest_arrays(self.train, *self.held_out)


def read_stories(source: Path, *, n_tokens: int, held_out: float, shortest: int) -> Stories:
    """The passages of a corpus in byte pairs of those for training; the others are held out."""
    texts = read_passages(source, shortest=shortest)
    order: list[int] = np.random.default_rng(0).permutation(len(texts)).tolist()
    cut = len(texts) - int(held_out * len(texts))
    if not 0 < cut < len(texts):
        raise UnsupportedOption(
            f"{source} has {len(texts)} documents; give several, some for training and others to hold out"
        )
    train, stories_held_out = (
        [texts[number] for number in numbers] for numbers in (order[:cut], order[cut:])
    )
    with needing("heads-course"):
        import tokenizers
    library: Any = tokenizers
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=n_tokens,
        special_tokens=[END],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(train, trainer)
    ids, held_ids = (
        [np.array(encoding.ids, np.int64) for encoding in tokenizer.encode_batch(stories)]
        for stories in (train, stories_held_out)
    )
    end = np.array([tokenizer.token_to_id(END)], np.int64)
    joined = np.concatenate([*chain.from_iterable((ids_of_story, end) for ids_of_story in ids)])
    tokens = tuple(tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size()))
    return Stories(joined, tuple(held_ids), tokenizer.to_str(), tokens)


@dataclass(frozen=True)
class CourseTraining:
    """How a model is trained, and when it is stored.

    Attributes
    ----------
    steps, batch_size : int
        Steps of AdamW, and windows in each.
    rate : float
        The learning rate after ``warmup`` steps; it decays linearly to a tenth.
    warmup : int
        Steps in which the rate rises.
    checkpoints : int
        How many times the model is stored, besides at step 0; from ``first`` on, the steps are spaced
        geometrically.
    first : int
        The first of these steps.
    seed : int
        Seed of the weights and the windows.

    Examples
    --------
    >>> CourseTraining(LlamaShape(9), steps=100, checkpoints=5, first=4).marks
    (0, 4, 9, 20, 45, 100)
    """

    shape: LlamaShape
    steps: int
    batch_size: int = 8
    rate: float = 4e-3
    warmup: int = 100
    checkpoints: int = 20
    first: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        counts = ("steps", "batch_size", "warmup", "checkpoints", "first")
        checked = {name: whole_number(getattr(self, name), name, least=1) for name in counts}
        settle(
            self,
            **checked,
            rate=real_number(self.rate, "rate", above=0),
            seed=whole_number(self.seed, "seed"),
        )

    @property
    def marks(self) -> tuple[int, ...]:
        """The steps at which the model is stored."""
        spaced = np.geomspace(min(self.first, self.steps), self.steps, self.checkpoints)
        return (0, *np.unique(spaced.round().astype(int)).tolist())

    def run(self, stories: Stories, folder: Path, progress: Progress = silent) -> dict[str, list[float]]:
        """Train and write ``checkpoint-STEP`` folders; the training loss and that on held-out documents.

        The training loss is a mean over the steps since the last checkpoint.
        """
        windows = draw_windows(np.concatenate(stories.held_out), self.shape.longest, 64, seed=0)
        losses: dict[str, list[float]] = {"step": [], "train": [], "held_out": []}
        recent: list[float] = []

        def store(step: int) -> None:
            with torch.no_grad():
                outside = float(model.loss(_torch.from_numpy(windows)).mean())
            write_checkpoint(model, folder / f"checkpoint-{step}", stories.tokenizer)
            numbers = (float(step), float(np.mean(recent)) if recent else outside, outside)
            for name, number in zip(losses, numbers, strict=True):
                losses[name].append(number)
            recent.clear()

        with repeatable(self.seed):
            model = SmallLlama(self.shape)
            store(0)
            for step, loss in descend(
                torch.optim.AdamW(model.parameters(), lr=self.rate, betas=(0.9, 0.98), weight_decay=0.1),
                self._batches(stories.train),
                lambda batch: model.loss(batch).mean(),
                layer=model,
                rate=self._rate,
                clip=1.0,
            ):
                recent.append(loss)
                if step in self.marks:
                    progress(f"training seed {self.seed}", step, self.steps)
                    store(step)
        return losses

    def _batches(self, text: Int64) -> Iterator[Tensor]:
        rng = np.random.default_rng(self.seed)
        for _ in range(self.steps):
            yield _torch.from_numpy(draw_windows(text, self.shape.longest, self.batch_size, rng))

    def _rate(self, step: int) -> float:
        return self.rate * min((step + 1) / self.warmup, max(0.1, 1 - step / self.steps))


def write_checkpoint(model: SmallLlama, folder: Path, tokenizer: str) -> None:
    """Write ``config.json``, ``model.safetensors`` and ``tokenizer.json``."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(model.shape.config(), indent=2), encoding="utf-8")
        (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
        arrays = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
        write_arrays(folder / "model.safetensors", arrays, {"format": "pt"})
