"""The theorem's guarantee for the first steps, and its range of validity.

Im, Oh, Fang and Li (ICLR 2026, arXiv 2601.19208), full-batch gradient descent with step size η, s steps,
sequences of T tokens, V tokens in the vocabulary, L layers. In every layer the weights of the output, the
values, attention by content and attention by position are

    W_O ≈ s η B̄,    V ≈ C(s,2) η² Φ̄ᵀB̄ᵀ,    W ≈ (3C(s,4) + 2C(s,3)) η⁴ Q̄,    P ≈ (3C(s,4) + 2C(s,3)) η⁴ Δ,

with errors, in the Frobenius norm, of at most

    one layer that starts at zero:   3s²η²,   4s³η³,   6s⁵η⁵T,   6s⁵η⁵T,
    layers that start very small:    3s²η²,  12s³η³,  13s⁵η⁵T,  13s⁵η⁵T.
"""

from dataclasses import dataclass, field
from math import comb, floor, sqrt

from attomaton.base.options import Checked, checked, choice, real_number, whole_number
from attomaton.base.printing import Block, Grid, Printed, Signal

# Step sizes beyond which their powers are not reliable.
SMALLEST_STEP, LARGEST_SETTING_STEP = 1e-12, 1e6

# Requirements of the one-layer theorem on T and V.
SMALLEST_WINDOW, SMALLEST_VOCABULARY = 3, 500

# A factor against rounding: a limit such as 3/(8 · 0.075) must not lose a whole step.
ROUNDING_GUARD = 1 + 1e-12


@dataclass(frozen=True)
class Coefficients:
    """The factors on the statistics: ``output`` on B̄, ``values`` on Φ̄ᵀB̄ᵀ, ``attention`` on Q̄ and Δ."""

    output: float
    values: float
    attention: float

    @classmethod
    def at(cls, step: int, step_size: float) -> "Coefficients":
        """The factors after ``step`` steps of size ``step_size``; ``attention`` is Σ_{r<s} r·C(r, 2) η⁴."""
        return cls(
            step * step_size,
            comb(step, 2) * step_size**2,
            (3 * comb(step, 4) + 2 * comb(step, 3)) * step_size**4,
        )


@dataclass(frozen=True)
class Setting(Checked):
    """The conditions of the theorem besides the statistics of the corpus.

    ``window`` is T, the tokens of a sequence; ``n_tokens`` is V, the size of the vocabulary; ``step_size`` is
    η, and ``n_layers`` is L. ``start`` is ``"zero"`` if all weights begin at 0, ``"small"`` if they are small
    Gaussian numbers.
    """

    window: int
    n_tokens: int
    step_size: float = field(metadata=checked(real_number, least=SMALLEST_STEP, most=LARGEST_SETTING_STEP))
    n_layers: int = field(default=1, metadata=checked(whole_number, least=1))
    start: str = field(default="zero", metadata=checked(choice, options=("zero", "small")))

    @property
    def is_single(self) -> bool:
        """Whether the theorem for one layer from zero applies, instead of the theorem for any depth."""
        return self.n_layers == 1 and self.start == "zero"

    @property
    def missing(self) -> tuple[str, ...]:
        """The conditions of the theorem that are not met, independent of the step."""
        missing: list[str] = []
        if self.is_single:
            if self.window < SMALLEST_WINDOW:
                missing.append(f"sequences need at least {SMALLEST_WINDOW} tokens, not {self.window:,}")
            if self.n_tokens < SMALLEST_VOCABULARY:
                least = SMALLEST_VOCABULARY
                missing.append(f"the vocabulary needs at least {least} tokens, not {self.n_tokens:,}")
            return tuple(missing)
        if self.n_layers > sqrt(self.window) / 4:
            least = 16 * self.n_layers**2
            layers = "1 layer needs" if self.n_layers == 1 else f"{self.n_layers} layers need"
            missing.append(f"{layers} sequences of at least {least:,} tokens, but these have {self.window:,}")
        if self.step_size * ROUNDING_GUARD < 1 / self.window:
            missing.append(f"the step size must be at least 1/{self.window:,}, but is {self.step_size:g}")
        return tuple(missing)

    @property
    def longest(self) -> float:
        """The largest number of steps that the theorem allows, before rounding down."""
        if self.is_single:
            return 3 / (8 * self.step_size * self.window ** (3 / 8))
        return min(5 / (8 * sqrt(self.window)), 1 / (12 * self.n_layers)) / self.step_size

    @property
    def valid_until(self) -> int:
        """The last step that the theorem covers; 0 if it covers none."""
        return 0 if self.missing else floor(self.longest * ROUNDING_GUARD)

    def bounds_at(self, step: int) -> "TheoremBounds":
        """Bounds on the error of each forecast weight after ``step`` steps, in the Frobenius norm."""
        size = step * self.step_size  # sη
        value_factor, attention_factor = (4, 6) if self.is_single else (12, 13)  # the table above
        attention = attention_factor * size**5 * self.window
        reasons = list(self.missing)
        if step > self.valid_until and not reasons:
            reasons.append(f"the theorem covers steps up to {self.valid_until:,}, not step {step:,}")
        return TheoremBounds(3 * size**2, value_factor * size**3, attention, attention, tuple(reasons))


@dataclass(frozen=True)
class TheoremBounds(Printed):
    """Bounds on the errors of the forecast weights, in the Frobenius norm, and whether they are proved.

    ``output``, ``values``, ``attention`` and ``positions`` bound W_O, V, W and P; the last three apply to
    each layer. ``reasons`` says why the theorem does not guarantee the bounds; it is empty if it does.
    """

    output: float
    values: float
    attention: float
    positions: float
    reasons: tuple[str, ...] = ()

    @property
    def hold(self) -> bool:
        """Whether the theorem guarantees the bounds."""
        return not self.reasons

    def _blocks(self) -> list[Block]:
        sentence = "The theorem guarantees these bounds."
        if not self.hold:
            sentence = f"The theorem does not guarantee these bounds: {'; '.join(self.reasons)}."
        rows = [(sign, f"{getattr(self, name):.3g}") for name, sign in WEIGHT_SIGNS.items()]
        return [Signal(sentence, good=self.hold), Grid("", ["weights", "error at most"], rows)]


WEIGHT_SIGNS = {"attention": "W", "positions": "P", "values": "V", "output": "W_O"}
