"""What hypothesis draws; it shrinks to fewer samples, fewer tokens, shorter contexts and simpler numbers.

A sample is drawn as a few bytes, which stand for its label and its context, and a table of numbers as one
string of bytes: that is one draw for hypothesis instead of one for each token or number, many times as
quick. Zeros stand for the simplest: a context of token 0, a table of zeros, embeddings that are the identity.
"""

import numpy as np
from hypothesis import strategies as st

import attomaton as at
from tests.drawn import components_of, edge_table, luce_problem_of_choices, one_group

seeds = st.integers(0, 2**32 - 1)
"""Only for tests of what itself draws from a generator: a seed does not shrink."""

UNREALISABLE = 205
"""The first byte of a sample from here on, one in five, puts any token in the place of the label."""

LEAST_SINGULAR = 0.01
"""Rows whose smallest singular value is below this are not called independent."""


@st.composite
def many(draw, elements, most, *, fewest=0):
    """Lists of ``fewest`` to ``most`` elements, long ones as likely as short ones.

    The first draw is how many there are at least. Where it shrinks the list may stay as it is, and lose its
    elements one by one after that.
    """
    at_least = draw(st.integers(fewest, (fewest + 3 * most) // 4))
    return draw(st.lists(elements, min_size=at_least, max_size=most))


@st.composite
def about(draw, fewest, most):
    """Numbers of ``fewest`` to ``most``; every other one is ``most``."""
    return min(most, draw(st.integers(fewest, 2 * most)))


def read_context(row, n_tokens, n_queries, *, distinct):
    """The context that bytes stand for: the last of them is the query."""
    query = row[-1] % n_queries
    if not distinct:
        return [*(byte % n_tokens for byte in row[:-1]), query]
    left = [token for token in range(n_tokens) if token != query]
    return [*(left.pop(byte % len(left)) for byte in row[:-1][: len(left)]), query]


def read_samples(rows, n_tokens, n_queries, *, realisable=True, distinct=False):
    """The samples that rows of bytes stand for.

    The first byte is the label that is wanted: the token nearest below it is the label, so that it stays the
    same while other tokens leave the context or ids become smaller.
    """
    contexts, labels = [], []
    for byte, *row in rows:
        context, wanted = read_context(row, n_tokens, n_queries, distinct=distinct), byte % n_tokens
        anything = byte >= UNREALISABLE and not realisable
        nearest = max((token for token in context if token <= wanted), default=min(context))
        contexts.append(context)
        labels.append(wanted if anything else nearest)
    return at.Samples.from_lists(contexts, labels, n_tokens=n_tokens)


@st.composite
def sample_sets(draw, max_tokens=6, max_samples=40, min_samples=0, max_context=6):
    """Ragged contexts with repetitions under a few queries; some labels are not in their context."""
    n_tokens = draw(st.sampled_from(range(1, max_tokens + 1)))
    n_queries = draw(st.integers(1, n_tokens))
    realisable = not draw(st.booleans())
    rows = draw(many(st.binary(min_size=2, max_size=max_context + 1), max_samples, fewest=min_samples))
    return read_samples(rows, n_tokens, n_queries, realisable=realisable)


def realisable_sets(**limits):
    """Sample sets with at least one label in its context."""
    return sample_sets(min_samples=1, **limits).filter(
        lambda samples: any(label in context for context, label in samples)
    )


def tied_sets(**limits):
    """Sample sets with at least one component of several tokens."""
    return sample_sets(min_samples=2, **limits).filter(lambda samples: not components_of(samples).is_acyclic)


def ordered_sets(**limits):
    """Sample sets with at least one priority between components."""
    return sample_sets(min_samples=1, **limits).filter(
        lambda samples: components_of(samples).order.num_rows > 0
    )


@st.composite
def paper_draws(draw, n_tokens=6, n_samples=8, window=4, repeats=False):
    """The papers' draws, every other one of their full size: each label in its context, tokens distinct."""
    short, whole = (st.binary(min_size=least, max_size=window + 1) for least in (2, window + 1))
    n_tokens, at_least = draw(about(1, n_tokens)), draw(about(0, n_samples - 1))
    rows = draw(st.lists(short | whole, min_size=at_least, max_size=n_samples))
    return read_samples(rows, n_tokens, n_tokens, distinct=not repeats)


def vectors(*shape):
    """Multiples of 1/32 between −4 and 4 in an array of this shape."""
    size = int(np.prod(shape))
    return st.binary(min_size=size, max_size=size).map(
        lambda drawn: np.frombuffer(drawn, np.int8).reshape(shape) / 32
    )


def unit_rows(n_tokens, dim):
    """Unit rows that spread as random ones do, independent if they can be; the simplest are the identity."""
    places = np.arange(n_tokens)
    simplest = np.eye(dim)[places % dim] + (places // dim)[:, None] * np.eye(dim)[(places + 1) % dim]
    tables = vectors(n_tokens, dim).map(lambda drawn: simplest + drawn / 2)
    return tables.filter(_have_lengths).map(_to_unit).filter(_are_independent)


def _have_lengths(table):
    return bool((np.abs(table).max(axis=1) > 0).all())


def _to_unit(table):
    return table / np.linalg.norm(table, axis=1, keepdims=True)


def _are_independent(table):
    """Also true of rows that cannot be: there are more of them than dimensions."""
    return len(table) > table.shape[1] or np.linalg.svd(table, compute_uv=False)[-1] > LEAST_SINGULAR


@st.composite
def embedded(draw, sets, more=2, *, perhaps=False):
    """Samples, and embeddings of their tokens with so many dimensions more; ``perhaps`` without any."""
    samples = draw(sets)
    if perhaps and not draw(st.booleans()):
        return samples, None
    return samples, draw(unit_rows(samples.n_tokens, samples.n_tokens + more))


def orderings(size):
    """Permutations of ``size`` numbers; the simplest is the identity."""
    return st.binary(min_size=size, max_size=size).map(
        lambda drawn: np.argsort(np.frombuffer(drawn, np.uint8), kind="stable")
    )


@st.composite
def edge_tables(draw, max_tokens=25, max_edges=60, max_queries=3):
    """Edges under a few queries, half of them along one cycle of all tokens, many shown more than once."""
    n_tokens, n_queries = draw(st.integers(2, max_tokens)), draw(st.integers(1, max_queries))
    rows = draw(many(st.binary(min_size=3, max_size=3), max_edges))
    query, winner, step = np.array([list(row) for row in rows], np.int64).reshape(-1, 3).T
    step = np.where(step % 2, step // 2 % (n_tokens - 1), 0)
    winner = winner % n_tokens
    return edge_table(query % min(n_queries, n_tokens), winner, (winner + 1 + step) % n_tokens, n_tokens)


@st.composite
def arcs(draw, n_nodes, most):
    """Distinct pairs (earlier, later) of ``n_nodes`` numbers, sorted: two arrays."""
    rows = draw(many(st.binary(min_size=2, max_size=2), most if n_nodes > 1 else 0))
    pairs = {tuple(sorted((one % n_nodes, other % n_nodes))) for one, other in rows}
    kept = sorted(pair for pair in pairs if pair[0] < pair[1])
    return np.array(kept, np.int64).reshape(-1, 2).T


@st.composite
def orders(draw, max_nodes=12, heaviest=5):
    """One query's order, of weights up to ``heaviest``."""
    n_nodes = draw(st.integers(1, max_nodes))
    above, below = draw(arcs(n_nodes, n_nodes * (n_nodes - 1) // 2))
    sizes = draw(st.lists(st.integers(1, heaviest), min_size=n_nodes, max_size=n_nodes))
    return one_group(sizes, above, below)


@st.composite
def luce_problems(draw, max_alternatives=8, max_choices=12):
    """Alternatives in up to three groups, in mixed order, some without choices; not strongly connected."""
    drawn = draw(many(st.integers(0, 2), max_alternatives, fewest=1))
    component = np.unique(drawn, return_inverse=True)[1]
    choices = []
    for first, others, times, count in draw(many(st.binary(min_size=4, max_size=4), max_choices, fewest=1)):
        winner = first % len(component)
        own = np.flatnonzero(component == component[winner])
        members = own[(own == winner) | (others >> np.arange(len(own)) & 1 > 0)]
        multiplicities = 1 + (times >> np.arange(len(members)) & 3)
        choices.append((np.roll(members, times), winner, multiplicities, 1 + count % 4))
    return luce_problem_of_choices(component, choices)
