"""One forward pass for all supported transformers, with attention recorded or replaced.

A layer maps the residual stream h to h' = h + attention(norm h), and then to h' + feed(norm h'). In parallel
layers, as in GPT-NeoX, both parts read h. ``watch``, ``record`` and ``run_edits`` all use ``run_layers``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attomaton.base.options import LARGEST_WHOLE, whole_number
from attomaton.base.progress import silent
from attomaton.base.tables import Float64, Int64, Integers
from attomaton.heads.model import (
    Edits,
    Head,
    HeadModel,
    ModelShape,
    OutputEdit,
    PatternEdit,
    Watched,
    WriteReads,
    WriteRows,
    check_contexts,
    check_head,
    check_tokens,
    keep_shape,
)
from attomaton.heads.parts import AttentionMaps, Layer, Linear, Normalisation, Rotary, in_dtype, normalise
from attomaton.heads.rotations import rotate_maps

_torch: Any = torch  # its type stubs leave some functions partly unknown

# Called in each layer with its number and what its attention reads, the normed stream.
OnLayer = Callable[[int, Tensor], object]


@dataclass(frozen=True, eq=False)
class Transformer:
    """A causal transformer, given by its weights.

    ``embedding`` (n_tokens, dim) is multiplied by ``embedding_scale``, ``position_embeddings`` (longest, dim)
    are added, ``layers`` follow, and ``decoder`` (dim, n_tokens) maps the stream after ``final_norm`` to
    logits. A layer has ``n_heads`` heads, which share the keys and values of ``n_groups``; with ``parallel``
    its attention and its feed-forward layer read the same stream. ``rotary`` is RoPE, ``longest`` the longest
    context. ``name`` is shown in results.

    Computations have the type ``dtype``. Weights stay as they were read; each layer is converted when used.
    ``recorded`` are random heads, an entry per layer: their patterns are recorded instead of those of the
    model, but they write nothing, and applied and edited patterns stay those of the model.
    """

    name: str
    n_heads: int
    n_groups: int
    embedding: Tensor = field(repr=False)
    layers: tuple[Layer, ...] = field(repr=False)
    decoder: Linear = field(repr=False)
    final_norm: Normalisation | None = field(default=None, repr=False)
    position_embeddings: Tensor | None = field(default=None, repr=False)
    rotary: Rotary | None = None
    parallel: bool = False
    longest: int | None = None
    dtype: torch.dtype = torch.float32
    recorded: tuple[AttentionMaps, ...] | None = field(default=None, repr=False)
    embedding_scale: float = 1.0

    @property
    def shape(self) -> ModelShape:
        return ModelShape(len(self.layers), self.n_heads, len(self.embedding), self.longest)

    def watch(
        self,
        tokens: Integers | Tensor,
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
    ) -> Watched:
        """Run the model on contexts of one length, see :class:`~attomaton.heads.model.HeadModel`."""
        patterns: list[Tensor] = []

        def on_layer(layer: int, read: Tensor) -> None:
            if self.recorded is not None:
                patterns.append(self.attend(self.recorded[layer], read))

        def edit(layer: int, pattern: Tensor) -> Tensor:
            if self.recorded is None:
                patterns.append(pattern)
            return pattern if edit_patterns is None else edit_patterns(layer, pattern)

        stream = self.run_layers(
            self.embed(tokens),
            range(len(self.layers)),
            edit_patterns=edit,
            edit_outputs=edit_outputs,
            on_layer=on_layer,
        )
        return Watched(self.decode(stream), tuple(patterns))

    def embed(self, tokens: Integers | Tensor) -> Tensor:
        """The residual stream before the first layer, shape (n, length, dim)."""
        ids = check_contexts(tokens, self.shape)
        stream = self.embedding[ids].to(self.dtype) * self.embedding_scale
        if self.position_embeddings is None:
            return stream
        return stream + self.position_embeddings[: ids.shape[1]].to(self.dtype)

    def run_layers(
        self,
        stream: Tensor,
        layers: Iterable[int],
        *,
        edit_patterns: PatternEdit | None = None,
        edit_outputs: OutputEdit | None = None,
        on_layer: OnLayer = silent,
    ) -> Tensor:
        """The residual stream after some consecutive layers, shape (n, length, dim).

        ``on_layer`` is called in each layer. Without edits of patterns, no whole pattern is in memory.
        """
        for number in layers:
            layer = in_dtype(self.layers[number], self.dtype)
            attention = layer.attention
            read = normalise(layer.norm, stream)
            on_layer(number, read)
            values = self._repeat_for_heads(self._split(attention.value.apply(read), self.n_groups))
            # PyTorch's fused attention keeps no pattern, but has neither lag biases nor windows
            if edit_patterns is None and attention.lag_biases is None and attention.window is None:
                queries, keys = self._queries_and_keys(attention, read, None)
                outputs = functional.scaled_dot_product_attention(
                    queries, keys, values, is_causal=True, scale=attention.scale
                )
            else:
                pattern = self.attend(attention, read)
                if edit_patterns is not None:
                    pattern = keep_shape(edit_patterns(number, pattern), pattern, "edit_patterns")
                outputs = pattern @ values
            if edit_outputs is not None:
                outputs = keep_shape(edit_outputs(number, outputs), outputs, "edit_outputs")
            # outputs: (n, n_heads, length, width); the output map reads the heads side by side
            written = attention.output.apply(outputs.transpose(1, 2).flatten(2))
            stream = self._finish_layer(layer, stream, written)
        return stream

    def rotate(self, *, seed: int) -> "Transformer":
        """The model with random heads, which read the residual stream of the model and write nothing."""
        name = f"{self.name} with rotated heads beside its own, seed {seed}"
        maps = tuple(layer.attention for layer in self.layers)
        return replace(self, name=name, recorded=rotate_maps(maps, self.n_heads, self.n_groups, seed=seed))

    def reads_from(self, model: HeadModel) -> bool:
        """Whether this model has random heads that read the residual stream of the other model."""
        return self.recorded is not None and getattr(model, "layers", None) is self.layers

    def record(
        self,
        tokens: Integers,
        positions: Tensor,
        write: WriteRows,
        *,
        random: Sequence["Transformer"] = (),
        reads: WriteReads = silent,
        layers: Sequence[int] | None = None,
    ) -> None:
        """Run the model and write rows, see :class:`~attomaton.heads.model.LayeredModel`."""
        wanted = range(len(self.layers)) if layers is None else layers

        def on_layer(layer: int, read: Tensor) -> None:
            if layer not in wanted:
                return
            reads(layer, read)
            for head_set, model in enumerate((self, *random)):
                write(layer, head_set, self.attend(model._maps(layer), read, positions=positions))

        self.run_layers(self.embed(tokens), range(max(wanted) + 1), on_layer=on_layer)

    def run_edits(
        self, tokens: Integers | Tensor, runs: Sequence[tuple[int, Edits]], scored: Tensor
    ) -> Iterator[Tensor]:
        """The logits of several runs; each begins at its first edited layer with the unchanged stream."""
        stream = self.embed(tokens)  # unchanged, after the first n_run layers
        n_run = 0
        for first_edited, edits in runs:
            stream = self.run_layers(stream, range(n_run, first_edited))
            n_run = first_edited
            options: Any = edits
            edited = self.run_layers(stream, range(first_edited, len(self.layers)), **options)
            yield self.decode(edited[:, scored])

    def decode(self, stream: Tensor) -> Tensor:
        """The logits of a residual stream after the last layer, shape (n, length, n_tokens)."""
        read = normalise(in_dtype(self.final_norm, self.dtype), stream)
        return in_dtype(self.decoder, self.dtype).apply(read)

    def attend(self, maps: AttentionMaps, read: Tensor, *, positions: Tensor | None = None) -> Tensor:
        """The patterns of heads with these maps, shape (n, n_heads, n_queries, length).

        ``read`` is what a layer's attention reads, shape (n, length, dim); ``positions`` (n, n_queries) are
        those of the queries in each context, and None means all.
        """
        attention = in_dtype(maps, self.dtype)
        queries, keys = self._queries_and_keys(attention, read, positions)
        scores = (queries @ keys.transpose(2, 3)).mul_(attention.scale)
        key_positions = torch.arange(read.shape[1])
        query_positions = key_positions[None] if positions is None else positions
        # (n or 1, n_queries, length), below 0 for keys after the query
        lag = query_positions[..., None] - key_positions
        if attention.lag_biases is not None:
            scores = scores + attention.lag_biases[:, lag.clamp(min=0)].movedim(0, 1)
        masked = lag < 0 if attention.window is None else (lag < 0) | (lag >= attention.window)
        return torch.softmax(scores.masked_fill_(masked[:, None], -torch.inf), -1)

    # Queries at some positions, and all keys, with RoPE, shape (n, n_heads, n_queries or length, ·).
    def _queries_and_keys(
        self, attention: AttentionMaps, read: Tensor, positions: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        query_inputs = read if positions is None else _torch.take_along_dim(read, positions[..., None], 1)
        queries = self._split(attention.project_queries(query_inputs), self.n_heads)
        keys = self._split(attention.project_keys(read), self.n_groups)
        rotary = attention.rotary or self.rotary
        if rotary is not None:
            key_positions = torch.arange(read.shape[1])
            queries = rotary.rotate(queries, key_positions if positions is None else positions[:, None])
            keys = rotary.rotate(keys, key_positions)
        return queries, self._repeat_for_heads(keys)

    def _maps(self, layer: int) -> AttentionMaps:
        # of the recorded heads: the random ones, if the model has them
        return self.layers[layer].attention if self.recorded is None else self.recorded[layer]

    def score_tokens(self, head: Head, queries: Integers, keys: Integers, *, lag: int = 0) -> Float64:
        """The scores of a head before the softmax, from token embeddings alone, shape (n_keys, n_queries).

        Position embeddings, such as those of GPT-2, are left out: only ``lag``, the distance of the keys
        before the query, says how far apart the tokens are.
        """
        layer, number = check_head(head, self.shape)
        attention = self.layers[layer].attention
        lag = whole_number(
            lag, "lag", most=min(self.longest or LARGEST_WHOLE, attention.window or LARGEST_WHOLE) - 1
        )
        query_ids, key_ids = (check_tokens(tokens, self.shape) for tokens in (queries, keys))
        all_queries, _ = self._project(layer, query_ids)
        _, all_keys = self._project(layer, key_ids)
        lags = torch.full((len(query_ids),), lag)
        query = self._rotate_queries(attention, all_queries[:, number : number + 1], lags)[:, 0]
        key = all_keys[:, self._group_of(number)]
        scores = key @ query.T * attention.scale
        if attention.lag_biases is not None:
            scores = scores + attention.lag_biases[number, lag].double()
        return scores.numpy()

    def project_tokens(self, layer: int, *, lag: int = 0) -> tuple[Tensor, Tensor]:
        """Queries and keys of every token from its embedding; their products are :meth:`score_tokens`.

        Their shapes are (n_tokens, n_heads, width) and (n_tokens, n_groups, width). The queries are scaled,
        and rotated by the lag.
        """
        check_head(Head(layer, 0), self.shape)
        tokens = torch.arange(len(self.embedding))
        queries, keys = self._project(layer, tokens, self.dtype)
        attention = self.layers[layer].attention
        queries = self._rotate_queries(attention, queries, torch.full((len(tokens),), lag))
        return queries * attention.scale, keys

    def score_inputs(self, layer: int, inputs: Any, keys: Int64, lags: Int64, texts: Int64) -> Float64:
        """Scores of recorded heads from given inputs, see :class:`~attomaton.heads.model.LayeredModel`."""
        del texts  # scores depend on the inputs alone
        check_head(Head(layer, 0), self.shape)
        attention = in_dtype(self._maps(layer), self.dtype)
        read = torch.as_tensor(inputs).to(self.dtype)
        # the first key of a query is the query itself: (n, n_heads, width); keys are by input, not by query
        query = attention.project_queries(read).reshape(len(inputs), self.n_heads, -1)[keys[:, 0]]
        input_keys = attention.project_keys(read).reshape(len(inputs), self.n_groups, -1)
        scores = np.empty((len(keys), self.n_heads, keys.shape[1]))
        for column in range(keys.shape[1]):
            column_lags = torch.as_tensor(lags[:, column])
            rotated = self._rotate_queries(attention, query, column_lags)
            key = self._repeat_for_heads(input_keys[keys[:, column]])
            score = (rotated * key).sum(-1) * attention.scale
            if attention.lag_biases is not None:
                score = score + attention.lag_biases[:, column_lags].T
            scores[:, :, column] = score.numpy()
        return scores

    def write_logits(self, head: Head, tokens: Integers) -> Float64:
        """What the head adds to the logits, shape (n, n_tokens), if it attends to only one of n tokens.

        This includes the bias of its values. The last norm, and the norm of the layer's output, centre and
        multiply by their gains; their scales are taken as one.
        """
        layer, number = check_head(head, self.shape)
        ids = check_tokens(tokens, self.shape)
        attention = in_dtype(self.layers[layer].attention, torch.float64)
        values = self._split(attention.value.apply(self._normed(layer, ids)[None]), self.n_groups)[0]
        value = values[self._group_of(number)]  # (n, width)
        width = value.shape[1]
        written = value @ attention.output.weight[number * width : (number + 1) * width]
        for norm in (self.layers[layer].output_norm, self.final_norm):
            if norm is not None:
                written = in_dtype(norm, torch.float64).apply_unscaled(written)
        return (written @ self.decoder.weight.double()).numpy()

    # What a layer reads for single tokens if no layer before it writes, shape (n, dim).
    def _normed(self, layer: int, ids: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        stream = self.embedding[ids].to(dtype) * self.embedding_scale
        return normalise(in_dtype(self.layers[layer].norm, dtype), stream)

    # Queries (n, n_heads, width) and keys (n, n_groups, width), neither rotated nor scaled.
    def _project(self, layer: int, ids: Tensor, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        attention = in_dtype(self.layers[layer].attention, dtype)
        read = self._normed(layer, ids, dtype)
        queries, keys = attention.project_queries(read), attention.project_keys(read)
        return queries.reshape(len(ids), self.n_heads, -1), keys.reshape(len(ids), self.n_groups, -1)

    def _split(self, values: Tensor, count: int) -> Tensor:
        # (n, length, count · width) → (n, count, length, width).
        return values.reshape(*values.shape[:2], count, -1).transpose(1, 2)

    # Queries (n, n_heads, width) after RoPE, if their keys are at position 0, and query i at lags[i]:
    # scores depend on the lag alone. `rotate` wants positions on the last axis but one, so heads come
    # first.
    def _rotate_queries(self, attention: AttentionMaps, queries: Tensor, lags: Tensor) -> Tensor:
        rotary = attention.rotary or self.rotary
        if rotary is None:
            return queries
        return rotary.rotate(queries.transpose(0, 1), lags).transpose(0, 1)

    def _group_of(self, number: int) -> int:
        return number * self.n_groups // self.n_heads

    # Repeat the keys or values of each group, along axis 1, for every head in it.
    def _repeat_for_heads(self, values: Tensor) -> Tensor:
        n_repeats = self.n_heads // self.n_groups
        return values if n_repeats == 1 else values.repeat_interleave(n_repeats, 1)

    # The residual stream after a layer whose attention wrote `written` to the stream.
    def _finish_layer(self, layer: Layer, stream: Tensor, written: Tensor) -> Tensor:
        after = stream + normalise(layer.output_norm, written)
        if layer.feed is None:
            return after
        fed = layer.feed.apply(normalise(layer.feed_norm, stream if self.parallel else after))
        return after + normalise(layer.feed_output_norm, fed)
