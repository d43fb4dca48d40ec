"""One forward pass for all supported transformers, with attention recorded or replaced.

hˡ = hˡ⁻¹ + attention(norm hˡ⁻¹), then + feed(norm hˡ); GPT-NeoX adds both at once (``parallel``).
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from attomaton.base.options import LARGEST, whole_number
from attomaton.base.tables import Float64, Integers
from attomaton.heads.model import (
    Head,
    ModelShape,
    OutputEdit,
    PatternEdit,
    Watched,
    check_contexts,
    check_head,
    check_tokens,
    keep_shape,
)
from attomaton.heads.parts import AttentionMaps, Layer, Linear, Norm, Rotary, in_dtype


@dataclass(frozen=True, eq=False)
class Transformer:
    """A causal transformer, given by its weights.

    Attributes
    ----------
    name : str
        What users call it.
    n_heads, n_groups : int
        Heads per layer, and groups of keys and values that they share.
    embedding : Tensor, shape (n_tokens, dim)
        Token embeddings.
    layers : tuple of Layer
        First to last.
    decoder : Linear, (dim, n_tokens)
        Maps the residual stream to logits.
    last : Norm, optional
        The norm before the decoder.
    places : Tensor, shape (longest, dim), optional
        Position embeddings.
    rotary : Rotary, optional
        RoPE.
    parallel : bool
        Whether attention and the feed-forward layer read the same residual stream.
    longest : int, optional
        The longest context.
    dtype : torch.dtype
        The type of all computations. Weights stay as they were read; each layer is converted when used.
    recorded : tuple of AttentionMaps, optional
        Heads whose patterns are recorded instead of the model's own, one entry per layer. They read the same
        residual stream and write nothing: the applied, and edited, patterns stay the model's own.
    embedding_scale : float
        Multiplies embeddings before the first layer, but not the decoder.

    Examples
    --------
    >>> import numpy as np
    >>> from attomaton.heads.arrays import from_arrays
    >>> rng = np.random.default_rng(0)
    >>> query, key, value = rng.normal(size=(3, 1, 2, 4, 3))  # one layer, two heads
    >>> model = from_arrays(rng.normal(size=(5, 4)), query, key, value, rng.normal(size=(1, 2, 3, 4)))
    >>> seen = model.watch(np.array([[0, 3, 1]]))
    >>> tuple(seen.logits.shape), tuple(seen.patterns[0].shape)
    ((1, 3, 5), (1, 2, 3, 3))
    >>> model.score_tokens(Head(0, 1), np.array([1]), np.array([0, 3, 1])).shape
    (3, 1)
    >>> model.write_logits(Head(0, 1), np.array([0, 3])).shape
    (2, 5)
    """

    name: str
    n_heads: int
    n_groups: int
    embedding: Tensor = field(repr=False)
    layers: tuple[Layer, ...] = field(repr=False)
    decoder: Linear = field(repr=False)
    last: Norm | None = field(default=None, repr=False)
    places: Tensor | None = field(default=None, repr=False)
    rotary: Rotary | None = None
    parallel: bool = False
    longest: int | None = None
    dtype: torch.dtype = torch.float32
    recorded: tuple[AttentionMaps, ...] | None = field(default=None, repr=False)
    embedding_scale: float = 1.0

    @property
    def shape(self) -> ModelShape:
        """Its sizes."""
        return ModelShape(len(self.layers), self.n_heads, len(self.embedding), self.longest)

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Run the model on contexts of one length, see :class:`~attomaton.heads.model.HeadModel`."""
        ids = check_contexts(tokens, self.shape)
        stream = self._embed(ids, torch.arange(ids.shape[1]), self.dtype)
        patterns: list[Tensor] = []
        for number, stored in enumerate(self.layers):
            layer = in_dtype(stored, self.dtype)
            read = stream if layer.norm is None else layer.norm.apply(stream)
            pattern = self._attend(layer.attention, read)
            patterns.append(
                pattern
                if self.recorded is None
                else self._attend(in_dtype(self.recorded[number], self.dtype), read)
            )
            if edit_patterns is not None:
                pattern = keep_shape(edit_patterns(number, pattern), pattern, "edit_patterns")
            values = self._split(layer.attention.value.apply(read), self.n_groups)
            outputs = pattern @ self._share(values)
            if edit_outputs is not None:
                outputs = keep_shape(edit_outputs(number, outputs), outputs, "edit_outputs")
            stream = self._add(
                layer, stream, layer.attention.output.apply(outputs.transpose(1, 2).flatten(2))
            )
        stream = stream if self.last is None else in_dtype(self.last, self.dtype).apply(stream)
        return Watched(in_dtype(self.decoder, self.dtype).apply(stream), tuple(patterns))

    def score_tokens(
        self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0, place: int | None = None
    ) -> Float64:
        """The head's scores before the softmax, from the tokens' own embeddings, in float64.

        Parameters
        ----------
        head : Head
            Which.
        queries, keys : int arrays, shapes (n_queries,) and (n_keys,)
            Tokens.
        lag : int
            The distance of keys before the query. It matters for RoPE and for ``lags``.
        place : int, optional
            The query's own position, for models with position embeddings: if given, these are added as the
            first layer sees them. Otherwise tokens have no position.

        Returns
        -------
        float64 array, shape (n_keys, n_queries)
        """
        layer, number = check_head(head, self.shape)
        attention = self.layers[layer].attention
        lag = whole_number(lag, "lag", most=min(self.longest or LARGEST, attention.window or LARGEST) - 1)
        query_ids, key_ids = (check_tokens(one, self.shape) for one in (queries, keys))
        where = (
            None
            if place is None
            else torch.tensor([whole_number(place, "place", least=lag, most=(self.longest or LARGEST) - 1)])
        )
        query = self._project(layer, query_ids, where)[0][:, number]
        key = self._project(layer, key_ids, None if where is None else where - lag)[1]
        key = key[:, number * self.n_groups // self.n_heads]
        rotary = attention.rotary or self.rotary
        if rotary is not None:
            query = rotary.turn(query, torch.full((len(query),), lag))
        scores, lags = key @ query.T * attention.scale, attention.lags
        return (scores if lags is None else scores + lags[number, lag].double()).numpy()

    def project_tokens(self, layer: int, *, lag: int = 0) -> tuple[Tensor, Tensor]:
        """Queries and keys of every token from its own embedding; their products are :meth:`score_tokens`.

        Returns
        -------
        Tensor, shape (n_tokens, n_heads, width), and Tensor, shape (n_tokens, n_groups, width)
            In ``dtype``. The queries are scaled and rotated by the lag; heads share keys as they do values.
        """
        check_head(Head(layer, 0), self.shape)
        tokens = torch.arange(len(self.embedding))
        queries, keys = self._project(layer, tokens, None, self.dtype)
        rotary = self.layers[layer].attention.rotary or self.rotary
        if rotary is not None:
            lags = torch.full((len(tokens),), lag)
            queries = rotary.turn(queries.transpose(0, 1), lags).transpose(0, 1)
        return queries * self.layers[layer].attention.scale, keys

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        """What the head adds to the logits if it attends to one token only, in float64.

        This includes the bias of its values. The last norm, and that of the layer's output, centre and
        multiply by their gains; their scales are taken as one.

        Returns
        -------
        float64 array, shape (n, n_tokens)
        """
        layer, number = check_head(head, self.shape)
        ids = check_tokens(tokens, self.shape)
        attention = in_dtype(self.layers[layer].attention, torch.float64)
        values = self._split(attention.value.apply(self._normed(layer, ids)[None]), self.n_groups)[0]
        read = values[number * self.n_groups // self.n_heads]
        written = read @ attention.output.weight[number * read.shape[1] : (number + 1) * read.shape[1]]
        output_norm = self.layers[layer].output_norm
        if output_norm is not None:
            written = in_dtype(output_norm, torch.float64).apply_unscaled(written)
        if self.last is not None:
            written = in_dtype(self.last, torch.float64).apply_unscaled(written)
        return (written @ self.decoder.weight.double()).numpy()

    def _embed(self, ids: Tensor, where: Tensor, dtype: torch.dtype) -> Tensor:
        stream = self.embedding[ids].to(dtype) * self.embedding_scale
        return stream if self.places is None else stream + self.places[where].to(dtype)

    def _normed(
        self, layer: int, ids: Tensor, where: Tensor | None = None, dtype: torch.dtype = torch.float64
    ) -> Tensor:
        """The layer's input for single tokens, shape (n, dim), with nothing before the layer."""
        stream = (
            self.embedding[ids].to(dtype) * self.embedding_scale
            if where is None
            else self._embed(ids, where, dtype)
        )
        norm = self.layers[layer].norm
        return stream if norm is None else in_dtype(norm, dtype).apply(stream)

    def _project(
        self, layer: int, ids: Tensor, where: Tensor | None, dtype: torch.dtype = torch.float64
    ) -> tuple[Tensor, Tensor]:
        """Queries (n, n_heads, width) and keys (n, n_groups, width), neither rotated nor scaled."""
        attention = in_dtype(self.layers[layer].attention, dtype)
        queries, keys = attention.project(self._normed(layer, ids, where, dtype))
        return queries.reshape(len(ids), self.n_heads, -1), keys.reshape(len(ids), self.n_groups, -1)

    def _split(self, values: Tensor, count: int) -> Tensor:
        """(n, length, count · width) → (n, count, length, width)."""
        return values.reshape(*values.shape[:2], count, -1).transpose(1, 2)

    def _share(self, offered: Tensor) -> Tensor:
        """Repeat each group's keys or values for every head in it."""
        same = self.n_heads // self.n_groups
        return offered if same == 1 else offered.repeat_interleave(same, 1)

    def _attend(self, attention: AttentionMaps, read: Tensor) -> Tensor:
        """softmax over the keys up to the query, shape (n, n_heads, length, length)."""
        places = torch.arange(read.shape[1])
        queries, keys = attention.project(read)
        queries, keys = self._split(queries, self.n_heads), self._split(keys, self.n_groups)
        rotary = attention.rotary or self.rotary
        if rotary is not None:
            queries, keys = rotary.turn(queries, places), rotary.turn(keys, places)
        scores = queries @ self._share(keys).transpose(2, 3) * attention.scale
        behind = places[:, None] - places
        if attention.lags is not None:
            scores = scores + attention.lags[:, behind.clamp(min=0)]
        hidden = behind < 0 if attention.window is None else (behind < 0) | (behind >= attention.window)
        return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1)

    def _add(self, layer: Layer, stream: Tensor, written: Tensor) -> Tensor:
        """The residual stream after a layer."""
        after = stream + (written if layer.output_norm is None else layer.output_norm.apply(written))
        if layer.feed is None:
            return after
        read = stream if self.parallel else after
        fed = layer.feed.apply(read if layer.feed_norm is None else layer.feed_norm.apply(read))
        return after + (fed if layer.feed_output_norm is None else layer.feed_output_norm.apply(fed))
