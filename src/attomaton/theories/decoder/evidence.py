"""Measurements of a decoder in training, compared with its predicted limit."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attomaton.base.tables import Float64
from attomaton.theories.decoder.course import direct_column, find_finite, follow_decoder, squared_norm
from attomaton.theories.decoder.descent import DecoderTrace
from attomaton.theories.decoder.features import EmbeddedLimit

SMALL = 1e-12
"""‖W^mm‖² below which W does not grow."""


@dataclass(frozen=True, eq=False)
class DecoderEvidence:
    """A run, and its solved limit for given features; one-hot contexts have closed forms."""

    trace: DecoderTrace
    limit: EmbeddedLimit | None

    @cached_property
    def direction(self) -> Float64:
        """W^mm, shape (n_tokens, dim)."""
        supports = self.trace.supports
        if self.limit is not None:
            return self.limit.direction
        return np.array([direct_column(supports, number) for number in range(len(supports))]).T

    @property
    def squared_norm(self) -> float:
        """‖W^mm‖²."""
        return self.limit.squared_norm if self.limit is not None else squared_norm(self.trace.supports)

    @cached_property
    def above(self) -> Float64:
        """CE minus its limit at each record, shape (n_steps,)."""
        more = 0.0 if self.limit is None else self.limit.loss - self.limit.entropy
        return self.trace.excesses - more

    @property
    def rates(self) -> Float64:
        """ηt(CE − limit)/‖W^mm‖² at each record."""
        return self.trace.step_size * np.array(self.trace.steps) * self.above / self.squared_norm

    @property
    def lateness(self) -> float:
        """η t π p of the rarest next token of any context, at the last record."""
        trace, supports = self.trace, self.trace.supports
        least = float((supports.shares[supports.row] * supports.probabilities).min())
        return trace.step_size * trace.steps[-1] * least

    @property
    def change(self) -> float:
        """The relative change of the rate since :attr:`earlier`; where W^mm is 0, that of the loss.

        Infinite if there is no such record.
        """
        record = self.earlier
        if record is None:
            return np.inf
        if self.squared_norm <= SMALL:
            return float(abs(self.above[-1] - self.above[record]))
        return float(abs(self.rates[-1] / self.rates[record] - 1))

    @property
    def has_ties(self) -> bool:
        """Whether some support has two tokens, or one that is inseparable from it."""
        merged = self.trace.supports.sizes if self.limit is None else self.limit.solved.merged.sum(axis=1)
        return bool((merged > 1).any())

    @property
    def earlier(self) -> int | None:
        """The last record at no more than half of the last step, if there is one."""
        steps = self.trace.steps
        records = [record for record, step in enumerate(steps) if 0 < 2 * step <= steps[-1]]
        return records[-1] if records else None

    def cosine_since(self, record: int) -> float:
        """The cosine of W^mm and the change of W from a record to the last."""
        grown, direction = self.trace.weights[-1] - self.trace.weights[record], self.direction
        return float((grown * direction).sum() / np.linalg.norm(grown) / np.linalg.norm(direction))

    def miss_finite(self) -> float:
        """The largest distance of a logit from the finite part inside a support, at the last record."""
        logits, supports = self.trace.logits(-1), self.trace.supports
        if self.limit is None:
            merged = np.zeros(logits.shape, bool)
            merged[supports.row, supports.tokens] = True
            expected = np.zeros(logits.shape)
            expected[supports.row, supports.tokens] = find_finite(supports)
        else:
            merged, expected = self.limit.solved.merged, self.limit.features @ self.limit.finite.T
        off = np.where(merged, logits - expected, 0.0)
        centred = off - (off.sum(axis=1) / merged.sum(axis=1))[:, None]
        return float(np.abs(np.where(merged, centred, 0.0)).max())

    def miss_logits(self) -> Float64:
        """The largest error of a predicted logit of one-hot contexts at each record, shape (n_steps,)."""
        trace = self.trace
        stopped = follow_decoder(trace.supports, trace.steps, trace.step_size)
        return np.array(
            [float(np.abs(trace.weights[record] - one.weights).max()) for record, one in enumerate(stopped)]
        )
