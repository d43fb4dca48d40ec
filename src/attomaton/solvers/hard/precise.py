"""Sums and products with twice the digits of a double, for certificates that rounding must not make.

A number is a pair (high, low) of doubles, its value their sum. Differences of two doubles are exact, products
of two doubles too (Dekker, Knuth); what is added up loses about 2⁻¹⁰⁰ of the largest sum.
"""

from typing import Any

import numpy as np

from attomaton.base.kernels import compiled, compiled_within

Array = Any
SPLIT = 134217729.0
"""2²⁷ + 1: splits a double into halves whose products are exact."""


def _pair_work(tables: tuple[Array, Array], ropes: tuple[Array, Array, Array], _: Array) -> float:
    """Ropes times dimensions, and queries times dimensions squared, about twenty operations each."""
    dim = tables[0].shape[1]
    return 20.0 * dim * (len(ropes[0]) + len(tables[1]) * dim)


@compiled_within
def add_exactly(one: float, other: float) -> tuple[float, float]:
    """one + other, as high and low part, without any error."""
    high = one + other
    part = high - one
    return high, (one - (high - part)) + (other - part)


@compiled_within
def multiply_exactly(one: float, other: float) -> tuple[float, float]:
    """one · other, as high and low part, without any error."""
    high = one * other
    big = SPLIT * one
    one_high = big - (big - one)
    big = SPLIT * other
    other_high = big - (big - other)
    one_low, other_low = one - one_high, other - other_high
    low = ((one_high * other_high - high) + one_high * other_low + one_low * other_high) + one_low * other_low
    return high, low


@compiled_within
def add_pairs(high: float, low: float, more: float, less: float) -> tuple[float, float]:
    """(high + low) + (more + less)."""
    total, lost = add_exactly(high, more)
    rest, gone = add_exactly(low, less)
    total, lost = add_exactly(total, lost + rest)
    return add_exactly(total, lost + gone)


@compiled_within
def scale_pair(high: float, low: float, factor: float) -> tuple[float, float]:
    """(high + low) · factor."""
    product, lost = multiply_exactly(high, factor)
    return add_exactly(product, lost + low * factor)


@compiled_within
def multiply_pairs(high: float, low: float, more: float, less: float) -> tuple[float, float]:
    """(high + low) · (more + less)."""
    product, lost = multiply_exactly(high, more)
    return add_exactly(product, lost + (high * less + low * more))


@compiled(work=_pair_work)
def press(tables: tuple[Array, Array], ropes: tuple[Array, Array, Array], weights: Array) -> Array:
    """Σ weight (e_one − e_other) e_queryᵀ, pairs in the last axis, shape (dim, dim, 2).

    ``tables`` are the rows of tokens and of queries, ``ropes`` the numbers one, other and query of each term,
    sorted by query; ``weights`` are pairs too, shape (n_ropes, 2).
    """
    keys, asked = tables
    one, other, query = ropes
    dim = keys.shape[1]
    total, pulled = np.zeros((dim, dim, 2)), np.zeros((dim, 2))
    for rope in range(len(one)):
        for at in range(dim):
            high, low = add_exactly(keys[one[rope], at], -keys[other[rope], at])
            high, low = multiply_pairs(high, low, weights[rope, 0], weights[rope, 1])
            pulled[at, 0], pulled[at, 1] = add_pairs(pulled[at, 0], pulled[at, 1], high, low)
        if rope + 1 < len(one) and query[rope + 1] == query[rope]:
            continue
        for at in range(dim):
            for beside in range(dim):
                high, low = scale_pair(pulled[at, 0], pulled[at, 1], asked[query[rope], beside])
                total[at, beside, 0], total[at, beside, 1] = add_pairs(
                    total[at, beside, 0], total[at, beside, 1], high, low
                )
        pulled[:] = 0.0
    return total


@compiled(work=_pair_work)
def stretch(tables: tuple[Array, Array], ropes: tuple[Array, Array, Array], weights: Array) -> Array:
    """(e_one − e_other)ᵀ W e_query of each rope, shape (n_ropes, 2), with W in pairs, shape (dim, dim, 2)."""
    keys, asked = tables
    one, other, query = ropes
    dim = keys.shape[1]
    found, seen = np.zeros((len(one), 2)), np.zeros((dim, 2))
    for rope in range(len(one)):
        if rope == 0 or query[rope] != query[rope - 1]:
            seen[:] = 0.0
            for at in range(dim):
                for beside in range(dim):
                    high, low = scale_pair(
                        weights[at, beside, 0], weights[at, beside, 1], asked[query[rope], beside]
                    )
                    seen[at, 0], seen[at, 1] = add_pairs(seen[at, 0], seen[at, 1], high, low)
        for at in range(dim):
            high, low = add_exactly(keys[one[rope], at], -keys[other[rope], at])
            high, low = multiply_pairs(high, low, seen[at, 0], seen[at, 1])
            found[rope, 0], found[rope, 1] = add_pairs(found[rope, 0], found[rope, 1], high, low)
    return found
