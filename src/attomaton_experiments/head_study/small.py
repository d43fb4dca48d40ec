"""Small causal models whose parts are switched on one by one, from the theory's layer to a transformer.

A token's stream begins as its embedding (plus that of its position, if there are positions), scaled to
mean square 1. Each layer reads the stream, scaled again, and adds the output of its heads: values through
W_V and W_O, or the attended tokens unchanged. The decoder is tied to the embeddings. With ``one_hot`` it is
the theory's layer instead: a score for each pair of key and query, and the attention on a token as its
probability.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import settle, whole_number
from attomaton.base.tables import Float64, Integers
from attomaton.heads import Head
from attomaton.heads.model import ModelShape, OutputEdit, PatternEdit, Watched

FAINT = 1e-9
"""Lower limit for probabilities of the theory's layer, for labels outside the context."""

_torch: Any = torch  # its type stubs leave some functions partly unknown


@dataclass(frozen=True)
class SmallConfig:
    """The parts of a small model.

    Attributes
    ----------
    longest : int
        The longest context.
    width : int
        Width of the stream, a multiple of the number of heads.
    n_layers, n_heads : int
        Layers, and heads per layer.
    one_hot : bool
        The theory's layer: one head, and none of the parts below.
    values : bool
        Heads have W_V and W_O. Without, they read the token itself.
    residual : bool
        The stream bypasses the heads. Without, the prediction depends only on what the heads read.
    positions, mlp : bool
        Learned positions; an MLP of four times the width after the heads of each layer.

    Examples
    --------
    >>> SmallConfig(65, n_heads=4).shape
    ModelShape(n_layers=1, n_heads=4, n_tokens=65, longest=32)
    """

    n_tokens: int
    longest: int = 32
    width: int = 96
    n_layers: int = 1
    n_heads: int = 1
    one_hot: bool = False
    values: bool = True
    residual: bool = True
    positions: bool = False
    mlp: bool = False

    def __post_init__(self) -> None:
        names = ("n_tokens", "longest", "width", "n_layers", "n_heads")
        settle(self, **{name: whole_number(getattr(self, name), name, least=1) for name in names})
        if self.width % self.n_heads:
            raise UnsupportedOption(
                f"the width {self.width} is not a multiple of {self.n_heads} heads; give a width that "
                "n_heads divides"
            )
        if self.one_hot and (self.n_layers, self.n_heads) != (1, 1):
            raise UnsupportedOption("the theory's layer has one head; leave out n_layers and n_heads")

    @property
    def shape(self) -> ModelShape:
        """The sizes in the common form."""
        return ModelShape(self.n_layers, self.n_heads, self.n_tokens, self.longest)


class SmallModel(nn.Module):
    """A small model with random weights; it is a :class:`~attomaton.heads.model.HeadModel`.

    Parameters
    ----------
    config : SmallConfig
        Its parts.
    seed : int
        Seed of its weights.

    Examples
    --------
    >>> model = SmallModel(SmallConfig(5, longest=4, width=8, n_heads=2))
    >>> seen = model.watch(np.array([[0, 1, 2, 1]]))
    >>> seen.patterns[0].shape, seen.logits.shape
    (torch.Size([1, 2, 4, 4]), torch.Size([1, 4, 5]))
    >>> model.score_tokens(Head(0, 1), np.arange(5), np.arange(3)).shape
    (3, 5)
    >>> model.write_logits(Head(0, 1), np.arange(3)).shape
    (3, 5)
    >>> model.loss(torch.tensor([[0, 1, 2, 1, 0]])).shape  # four positions, each with its label
    torch.Size([1, 4])
    """

    def __init__(self, config: SmallConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        generator = torch.Generator().manual_seed(seed)
        width, size = config.width, config.n_tokens

        def drawn(*shape: int, scale: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator) * scale / width**0.5)

        self.tables = nn.ParameterDict()
        if config.one_hot:
            self.tables["scores"] = nn.Parameter(torch.zeros(size, size))
            return
        self.tables["embedding"] = drawn(size, width)
        self.tables["scale"] = nn.Parameter(torch.tensor(3.0))
        self.tables["bias"] = nn.Parameter(torch.zeros(size))
        if config.positions:
            self.tables["position"] = drawn(config.longest, width, scale=0.1)
        for layer in range(config.n_layers):
            for name in ("query", "key", *(("value", "output") if config.values else ())):
                self.tables[f"{name}_{layer}"] = drawn(width, width)
            if config.mlp:
                self.tables[f"up_{layer}"] = drawn(width, 4 * width)
                self.tables[f"down_{layer}"] = drawn(4 * width, width, scale=0.5)

    @property
    def name(self) -> str:
        """The kind of model."""
        names = [name for name in ("one_hot", "values", "residual", "positions", "mlp") if self._has(name)]
        return f"small model ({self.config.n_layers} × {self.config.n_heads}; {', '.join(names)})"

    @property
    def shape(self) -> ModelShape:
        """Its sizes."""
        return self.config.shape

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Run it; see :class:`~attomaton.heads.model.HeadModel`."""
        with torch.no_grad() if edit_patterns is None and edit_outputs is None else torch.enable_grad():
            tables = {name: table.detach() for name, table in self.tables.items()}
            return self._run(_ids(tokens), tables, (edit_patterns, edit_outputs))

    def loss(self, tokens: Tensor) -> Tensor:
        """−ln p(next token) at every position, shape (n, length), for rows of shape (n, length + 1)."""
        context, label = tokens[:, :-1], tokens[:, 1:]
        if self.config.one_hot:
            pattern = self._scored(context, self.tables["scores"])[:, 0]
            mass = (pattern * (context[:, None, :] == label[:, :, None])).sum(-1)
            return -torch.log(mass.clamp_min(FAINT))
        logits = self._run(context, self.tables, (None, None)).logits
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), label.flatten(), reduction="none")
        return losses.view(label.shape)

    def score_tokens(self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0) -> Float64:
        """Scores before the softmax; the query is at the last position and the key ``lag`` before it."""
        with torch.no_grad():
            if self.config.one_hot:
                return self.tables["scores"][_ids(keys)][:, _ids(queries)].double().numpy()
            last = self.config.longest - 1
            queried = self._begin(_ids(queries), self.tables, last) @ self.tables[f"query_{head.layer}"]
            offered = self._begin(_ids(keys), self.tables, last - lag) @ self.tables[f"key_{head.layer}"]
            span = self._span_of(head)
            scores = offered[:, span] @ queried[:, span].T / (span.stop - span.start) ** 0.5
            return scores.double().numpy()

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        """What a head adds to the logits if it attends to one token only; shape (n, n_tokens).

        The theory's layer adds to probabilities, not logits: the token itself.
        """
        if self.config.one_hot:
            return np.eye(self.config.n_tokens)[np.asarray(tokens)]
        with torch.no_grad():
            read = self._begin(_ids(tokens), self.tables, None)
            if self.config.values:
                span = self._span_of(head)
                read = read @ self.tables[f"value_{head.layer}"][:, span]
                read = read @ self.tables[f"output_{head.layer}"][span]
            elif self.config.n_heads > 1:
                read = read * _within(self._span_of(head), self.config.width)
            return self._decode(read, self.tables, bias=False).double().numpy()

    def _has(self, name: str) -> bool:
        plain = ("values", "residual", "positions", "mlp")
        return bool(getattr(self.config, name)) and not (self.config.one_hot and name in plain)

    def _span_of(self, head: Head) -> slice:
        wide = self.config.width // self.config.n_heads
        return slice(head.number * wide, (head.number + 1) * wide)

    def _begin(self, tokens: Tensor, tables: Any, position: int | None) -> Tensor:
        """The layers' input for tokens at one position; None leaves the position out."""
        stream = tables["embedding"][tokens]
        if self.config.positions and position is not None:
            stream = stream + tables["position"][position]
        return _scaled(_scaled(stream))

    def _decode(self, stream: Tensor, tables: Any, *, bias: bool = True) -> Tensor:
        logits = tables["scale"] * (stream @ _scaled(tables["embedding"]).T) / self.config.width**0.5
        return logits + tables["bias"] if bias else logits

    def _scored(self, tokens: Tensor, scores: Tensor) -> Tensor:
        return _softmax(scores[tokens[:, None, :], tokens[:, :, None]][:, None])

    def _run(self, tokens: Tensor, tables: Any, edits: Any) -> Watched:
        if self.config.one_hot:
            return self._run_one_hot(tokens, tables["scores"], edits)
        stream = nn.functional.embedding(tokens, tables["embedding"])
        if self.config.positions:
            stream = stream + tables["position"][: tokens.shape[1]]
        stream, patterns = _scaled(stream), list[Tensor]()
        for layer in range(self.config.n_layers):
            pattern, read = self._attend(layer, stream, tables, edits)
            patterns.append(pattern)
            stream = read + stream if self.config.residual else read
            if self.config.mlp:
                hidden = torch.relu(_scaled(stream) @ tables[f"up_{layer}"])
                stream = stream + hidden @ tables[f"down_{layer}"]
        return Watched(self._decode(stream, tables), tuple(patterns))

    def _attend(self, layer: int, stream: Tensor, tables: Any, edits: Any) -> tuple[Tensor, Tensor]:
        """The pattern of a layer before any edit, and the output of its heads."""
        read = _scaled(stream)
        query, key = (self._split(read @ tables[f"{name}_{layer}"]) for name in ("query", "key"))
        value = self._split(read @ tables[f"value_{layer}"] if self.config.values else read)
        pattern = _softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5)
        outputs = (pattern if edits[0] is None else edits[0](layer, pattern)) @ value
        if edits[1] is not None:
            outputs = edits[1](layer, outputs)
        joined = outputs.transpose(1, 2).reshape(stream.shape)
        return pattern, joined @ tables[f"output_{layer}"] if self.config.values else joined

    def _run_one_hot(self, tokens: Tensor, scores: Tensor, edits: Any) -> Watched:
        pattern = self._scored(tokens, scores)
        applied = pattern if edits[0] is None else edits[0](0, pattern)
        mass = applied @ nn.functional.one_hot(tokens, self.config.n_tokens).to(applied.dtype)[:, None]
        if edits[1] is not None:
            mass = edits[1](0, mass)
        return Watched(torch.log(mass[:, 0].clamp_min(FAINT)), (pattern,))

    def _split(self, stream: Tensor) -> Tensor:
        """Shape (n, length, width) to (n, n_heads, length, head width)."""
        wide = self.config.width // self.config.n_heads
        return stream.reshape(*stream.shape[:2], self.config.n_heads, wide).transpose(1, 2)


def _ids(tokens: Integers | Tensor) -> Tensor:
    return tokens if isinstance(tokens, Tensor) else _torch.from_numpy(np.asarray(tokens, np.int64))


def _within(span: slice, width: int) -> Tensor:
    columns = torch.arange(width)
    return (columns >= span.start) & (columns < span.stop)


def _scaled(stream: Tensor) -> Tensor:
    """Each vector scaled to mean square 1."""
    return stream * torch.rsqrt((stream * stream).mean(-1, keepdim=True) + 1e-5)


def _softmax(scores: Tensor) -> Tensor:
    length = scores.shape[-1]
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    return _torch.softmax(scores.masked_fill(later, -torch.inf), -1)
