"""Corpora whose answer is known in advance, and random corpora as in the papers.

An order of blocks says which tokens must be in one component and which component precedes which;
:func:`corpus` generates samples with exactly this order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate

import numpy as np
from numpy.random import Generator

from attomaton.base.errors import InvalidSamples
from attomaton.base.options import real_number, settle, whole_number
from attomaton.base.tables import Bool, Int64
from attomaton.corpora.samples import MAX_TOKENS, Sample, Samples

MOST_SAMPLES = 10**9  # most samples to draw
DRAWS_TRIED = 10_000  # corpora drawn in search of one with the requested property
MOST_COMPANIONS = 5  # random tokens in a context, besides the label and the query


@dataclass(frozen=True)
class BlockOrder:
    """Blocks of consecutive tokens, and arcs from blocks to later blocks.

    ``sizes`` is the number of tokens of each block, and ``arcs`` lists the pairs of blocks (a, b) in which a
    precedes b. The query is the first token of the last block. It is in every context, so every other block
    precedes the last block, even without an arc.
    """

    sizes: tuple[int, ...]
    arcs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        settle(self, sizes=tuple(whole_number(size, "a block size") for size in self.sizes))
        if not self.sizes or min(self.sizes) < 1:
            raise InvalidSamples(f"block sizes are {self.sizes}; give one or more sizes, each at least 1")
        wrong = [arc for arc in self.arcs if not 0 <= arc[0] < arc[1] < len(self.sizes)]
        if wrong:
            raise InvalidSamples(f"arc {wrong[0]} does not lead to a later block; reorder the blocks")

    @property
    def n_tokens(self) -> int:
        return sum(self.sizes)

    @property
    def query(self) -> int:
        return self.n_tokens - self.sizes[-1]

    @property
    def block_of(self) -> Int64:
        """The block of each token, shape (n_tokens,): the expected components."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def precedes(self) -> Bool:
        """Whether block ``a`` precedes block ``b``, shape (n_blocks, n_blocks): the expected order."""
        precedes = np.zeros((len(self.sizes), len(self.sizes)), bool)
        precedes[:-1, -1] = True  # the block of the query comes last
        # arcs lead to later blocks, so in this order the row of `below` is complete when it is used
        for above, below in sorted(self.arcs, reverse=True):
            precedes[above] |= precedes[below]
            precedes[above, below] = True
        return precedes


class Blocks(BlockOrder):
    """Blocks in a chain, each of which precedes the next: ``Blocks([3, 1, 4])`` has three components."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(tuple(sizes), tuple((block, block + 1) for block in range(len(sizes) - 1)))


class Chain(Blocks):
    """Single tokens in a chain: token 0 precedes token 1, and so on."""

    def __init__(self, n_tokens: int) -> None:
        super().__init__([1] * whole_number(n_tokens, "n_tokens", least=1, most=MAX_TOKENS))


class RandomBlocks(BlockOrder):
    """Blocks of these ``sizes``; ``rng`` draws each arc to a later block with probability ``density``."""

    def __init__(self, sizes: Sequence[int], *, density: float, rng: Generator) -> None:
        density = real_number(density, "density", least=0, most=1)
        n_blocks = len(sizes)
        drawn = np.argwhere(np.triu(rng.random((n_blocks, n_blocks)) < density, 1))
        super().__init__(tuple(sizes), tuple((int(above), int(below)) for above, below in drawn))


def corpus(order: BlockOrder, *, n_samples: int, rng: Generator) -> Samples:
    """Generate samples under one query whose components and order are exactly ``order``.

    The first samples show every tie and every arc once. The others are random, and contradict none of them.

    Parameters
    ----------
    order : BlockOrder
        The order: ``Blocks(…)``, ``Chain(…)``, ``RandomBlocks(…)``, or any other order.
    n_samples : int
        The number of samples, which must be large enough to show every tie and every arc.
    rng : numpy.random.Generator
        The random generator.
    """
    n_samples = whole_number(n_samples, "n_samples", most=MOST_SAMPLES)
    needed = _needed_samples(order, rng)
    if n_samples < len(needed):
        raise InvalidSamples(
            f"n_samples is {n_samples}, too few for all ties and arcs; give {len(needed)} or more"
        )
    block_of = order.block_of
    precedes = order.precedes
    # for each block, the tokens that a label of this block may win against: its own block and later ones
    compatible = [
        np.flatnonzero(precedes[block, block_of] | (block_of == block)) for block in range(len(order.sizes))
    ]
    samples = list(needed)
    for _ in range(n_samples - len(needed)):
        label = int(rng.integers(order.n_tokens))
        n_companions = int(rng.integers(0, MOST_COMPANIONS + 1))
        companions = rng.choice(compatible[int(block_of[label])], size=n_companions).tolist()
        samples.append(Sample((*rng.permutation([label, *companions]).tolist(), order.query), label))
    contexts = [sample.context for sample in samples]
    labels = [sample.label for sample in samples]
    ordered = Samples.from_lists(contexts, labels, n_tokens=order.n_tokens)
    return ordered.take(rng.permutation(len(ordered)))


def draw_random(rng: Generator, *, n_tokens: int = 6, n_samples: int = 6, window: int = 4) -> Samples:
    """Draw samples as in "Mechanics of Next Token Prediction": contexts of distinct tokens with a label.

    The label is one of the context tokens. ``n_tokens``, ``n_samples`` and ``window`` are K, n and T of the
    paper, with its values as defaults. ``rng`` is the random generator.
    """
    n_tokens = whole_number(n_tokens, "n_tokens", least=1, most=MAX_TOKENS)
    n_samples = whole_number(n_samples, "n_samples", most=MOST_SAMPLES)
    window = whole_number(window, "window", least=1)
    contexts = [rng.permutation(n_tokens)[:window] for _ in range(n_samples)]
    labels = [int(rng.choice(context)) for context in contexts]
    return Samples.from_lists([context.tolist() for context in contexts], labels, n_tokens=n_tokens)


def draw_cyclic(rng: Generator, *, n_tokens: int = 6, n_samples: int = 6, window: int = 4) -> Samples:
    """Draw cyclic samples; ``rng``, ``n_tokens``, ``n_samples``, ``window``: see :func:`draw_random`."""
    return _draw_until(has_cycle, rng, n_tokens, n_samples, window)


def draw_acyclic(rng: Generator, *, n_tokens: int = 6, n_samples: int = 6, window: int = 4) -> Samples:
    """Draw acyclic samples; ``rng``, ``n_tokens``, ``n_samples``, ``window``: see :func:`draw_random`."""
    return _draw_until(lambda samples: not has_cycle(samples), rng, n_tokens, n_samples, window)


def draw_ordered(
    rng: Generator,
    *,
    n_tokens: int = 6,
    n_samples: int = 12,
    window: int = 4,
    n_queries: int = 2,
    cyclic: bool = False,
) -> Samples:
    """Draw contexts of distinct tokens under ``n_queries`` queries, each with its own order of the tokens.

    The label is the context token that comes first in the order of the query. The query itself is last, so
    there is no cycle, and paths are longer than with :func:`draw_acyclic`. If ``cyclic``, labels are instead
    drawn at random from their contexts, until the graph of some query has a cycle. ``rng``, ``n_tokens``,
    ``n_samples`` and ``window`` are those of :func:`draw_random`.
    """
    n_tokens = whole_number(n_tokens, "n_tokens", least=2, most=MAX_TOKENS)
    n_queries = whole_number(n_queries, "n_queries", least=1, most=n_tokens)
    window = whole_number(window, "window", least=2, most=n_tokens)
    n_samples = whole_number(n_samples, "n_samples", least=1, most=MOST_SAMPLES)
    for _ in range(DRAWS_TRIED):
        # ranks[query][token]: the label is the token of the context with the smallest rank
        ranks: list[Int64] = [rng.permutation(n_tokens) for _ in range(n_queries)]
        contexts: list[list[int]] = []
        labels: list[int] = []
        queries: list[int] = rng.integers(n_queries, size=n_samples).tolist()
        for query in queries:
            companions: Int64 = rng.permutation(np.delete(np.arange(n_tokens), query))[: window - 1]
            contexts.append([*companions.tolist(), query])
            first = companions[int(np.argmin(ranks[query][companions]))]
            labels.append(int(rng.choice(contexts[-1]) if cyclic else first))
        samples = Samples.from_lists(contexts, labels, n_tokens=n_tokens)
        if not cyclic or has_cycle(samples):
            return samples
    raise InvalidSamples(f"none of {DRAWS_TRIED:,} draws has a cycle; use more samples, or fewer queries")


def has_cycle(samples: Samples) -> bool:
    """Whether the token-priority graph of some query has a cycle; plain Python, for small corpora."""
    graph: TopologicalSorter[tuple[int, int]] = TopologicalSorter()  # its nodes are pairs (query, token)
    for context, label in samples:
        if label in context:
            for token in set(context) - {label}:
                graph.add((context[-1], token), (context[-1], label))
    try:
        graph.prepare()
    except CycleError:
        return True
    return False


def _draw_until(
    accepts: Callable[[Samples], bool], rng: Generator, n_tokens: int, n_samples: int, window: int
) -> Samples:
    for _ in range(DRAWS_TRIED):
        samples = draw_random(rng, n_tokens=n_tokens, n_samples=n_samples, window=window)
        if accepts(samples):
            return samples
    raise InvalidSamples(
        f"none of {DRAWS_TRIED:,} draws of {n_samples} samples over {n_tokens} tokens is of the requested "
        "kind; change n_samples or n_tokens"
    )


# The samples that show each tie and each arc once: winner, loser and query, with the winner as label.
def _needed_samples(order: BlockOrder, rng: Generator) -> list[Sample]:
    starts = list(accumulate(order.sizes, initial=0))  # the first token of each block, and the end
    # In a block, each token wins against the next, and the last against the first: the cycle ties them. A
    # block of one token t gives the pair (t, t), in whose sample t wins against the query alone.
    pairs = [
        (start + step, start + (step + 1) % size)
        for start, size in zip(starts, order.sizes, strict=False)
        for step in range(size)
    ]
    # for an arc, a random token of the first block wins against a random token of the second
    for blocks in order.arcs:
        winner, loser = (int(rng.integers(starts[block], starts[block + 1])) for block in blocks)
        pairs.append((winner, loser))
    return [
        Sample((*rng.permutation([winner, loser]).tolist(), order.query), winner) for winner, loser in pairs
    ]
