"""A language model with one Transformer encoder layer, as in PyTorch's tutorial, for figures on text.

Unlike the layer of the theories it has positions, a feed-forward layer, residual connections, layer norms,
dropout and its own decoder.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attomaton.base.errors import UnsupportedOption
from attomaton.base.options import real_number, settle, whole_number

REACH = 0.1
"""Embeddings and decoder are initialised uniformly in ±0.1."""


@dataclass(frozen=True)
class LanguageModel:
    """Sizes of the model.

    Attributes
    ----------
    width : int
        Dimension of embeddings, queries, keys and values; an even number.
    hidden : int
        Width of the feed-forward layer.
    dropout : float
        Dropout of the embedded input, the attention, and both branches during training.
    window : int
        Longest sequence.
    positions : bool
        Whether sinusoids of the position are added to the embeddings.

    Examples
    --------
    >>> layer = LanguageLayer(LanguageModel(n_tokens=1000, width=8, hidden=16))
    >>> sum(parameter.numel() for parameter in layer.parameters())
    17600
    """

    n_tokens: int
    width: int = 200
    hidden: int = 200
    dropout: float = 0.3
    window: int = 35
    positions: bool = True

    def __post_init__(self) -> None:
        sizes = ("n_tokens", "width", "hidden", "window")
        settle(
            self,
            **{name: whole_number(getattr(self, name), name, least=1) for name in sizes},
            dropout=real_number(self.dropout, "dropout", least=0, below=1),
        )
        if self.width % 2:
            raise UnsupportedOption(f"width is {self.width}; give an even number (for sines and cosines)")


class LanguageLayer(nn.Module):
    """Embedding, one encoder layer (one head, causal, post-norm), decoder.

    x = √width · E[tokens] + positions; a = softmax(QKᵀ/√width) over the positions up to the query;
    x ← norm(x + a V W_O); x ← norm(x + W₂ relu(W₁ x)); logits = D x.

    Examples
    --------
    >>> layer = LanguageLayer(LanguageModel(n_tokens=5, width=4, hidden=4, window=3)).eval()
    >>> logits, attention = layer(torch.tensor([[1, 2, 4]]))  # which is layer.forward(…)
    >>> tuple(logits.shape), tuple(attention.shape), attention[0, 0].tolist()
    ((1, 3, 5), (1, 3, 3), [1.0, 0.0, 0.0])
    >>> outputs, attention = layer.encode(torch.zeros(1, 3, 4))
    >>> attention[0, 2].detach().numpy().round(3)  # equal inputs get equal weights
    array([0.333, 0.333, 0.333], dtype=float32)
    """

    mask: Tensor
    position_codes: Tensor

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        width = model.width
        self.scale = math.sqrt(width)
        self.embedding = nn.Embedding(model.n_tokens, width)
        self.self_attn = nn.MultiheadAttention(width, 1, model.dropout, batch_first=True)
        self.linear1 = nn.Linear(width, model.hidden)
        self.linear2 = nn.Linear(model.hidden, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(model.dropout)
        self.decoder = nn.Linear(width, model.n_tokens)
        future = torch.ones(model.window, model.window, dtype=torch.bool).triu(1)
        codes = encode_positions(model.window, width) if model.positions else torch.zeros(model.window, width)
        self.register_buffer("mask", future)
        self.register_buffer("position_codes", codes)
        for table in (self.embedding.weight, self.decoder.weight):
            nn.init.uniform_(table, -REACH, REACH)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, shape (n, t, n_tokens), and attention, shape (n, t, t), of tokens, shape (n, t)."""
        inputs = self.dropout(self.scale * self.embedding(tokens) + self.position_codes[: tokens.shape[1]])
        outputs, attention = self.encode(inputs)
        return self.decoder(outputs), attention

    def encode(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder layer alone: outputs and attention, from inputs of shape (n, t, width)."""
        length = inputs.shape[1]
        mixed, attention = self.self_attn(
            inputs, inputs, inputs, attn_mask=self.mask[:length, :length], need_weights=True
        )
        inner = self.norm1(inputs + self.dropout(mixed))
        fed = self.linear2(self.dropout(torch.relu(self.linear1(inner))))
        return self.norm2(inner + self.dropout(fed)), attention


def encode_positions(length: int, width: int) -> Tensor:
    """Sines and cosines of position · 10000^(−2i/width), shape (length, width).

    Examples
    --------
    >>> encode_positions(2, 4).numpy().round(2) + 0.0
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.84, 0.54, 0.01, 1.  ]], dtype=float32)
    """
    angles = torch.arange(length)[:, None] * torch.exp(
        torch.arange(0, width, 2) * (-math.log(10_000.0) / width)
    )
    return torch.stack([angles.sin(), angles.cos()], 2).reshape(length, width)
