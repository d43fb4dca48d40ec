"""Measure how much of a corpus the theory covers, in a dozen numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attomaton.base.frames import Tabular
from attomaton.base.printing import Bar, Block, Grid, Signal
from attomaton.base.tables import Int64, table_of
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.corpora.tokenizers.vocabulary import name_token
from attomaton.graphs.components import Components, count_evidence
from attomaton.graphs.partitions import Gathered
from attomaton.solvers.hard.certify import HardCertificate
from attomaton.solvers.soft.certify import SoftCertificate
from attomaton.solvers.solved import Solved

N_LARGEST = 5  # components that the report lists
N_TOKENS = 8  # tokens listed of each


@dataclass(frozen=True)
class LargeComponent:
    """One of the largest components: ``size`` tokens tie under ``query``.

    ``tokens`` are the eight tokens with the most evidence. ``query_text`` and ``texts`` are the query and
    these tokens as text (as ids if there is no vocabulary).
    """

    query: int
    size: int
    tokens: tuple[int, ...]
    query_text: str = ""
    texts: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "LargeComponent":
        """The inverse of ``asdict``."""
        lists: dict[str, Any] = {name: tuple(record[name]) for name in ("tokens", "texts")}
        return cls(**{**record, **lists})


@dataclass(frozen=True)
class Coverage(Tabular):
    """How much of a corpus the theory covers.

    ``n_read`` is the number of samples of the selected queries. ``realisable`` is the share of them whose
    label is in the context: only these can be learned by attention alone. ``n_queries``, ``n_edges`` and
    ``n_components`` count the queries with a graph, and the edges and components of all queries.
    ``tied_queries`` is the share of queries with a component larger than one token, where soft composition
    happens. ``ordered_queries`` is the share of queries whose components form one chain, so that the theorem
    decides every context of known tokens. ``largest`` are the largest components of several tokens. ``hard``
    and ``soft`` are the certificates, with their outcome under ``"status"``.
    """

    n_read: int
    realisable: float
    n_queries: int
    n_edges: int
    n_components: int
    tied_queries: float
    ordered_queries: float
    largest: tuple[LargeComponent, ...]
    hard: dict[str, Any]
    soft: dict[str, Any]

    @property
    def note(self) -> str:
        """Why the theory does not apply; empty if it applies."""
        return "" if self.realisable > 0 or not self.n_read else self._why_not()

    def _why_not(self) -> str:
        return (
            f"This theory does not apply: none of the {self.n_read:,} samples has its label in its context. "
            "Attention retrieves only tokens of the context, so the labels have probability 0 whatever is "
            "learned. If the labels occur further back, use a longer window. If they are never repeated, use "
            "the second theory, which also learns the decoder: attomaton scan-snap CORPUS, or "
            "attomaton.theories.scansnap.survey in Python."
        )

    def _blocks(self) -> list[Block]:
        gradient = self.soft["gradient_norm"]
        rows = [
            ("samples read", f"{self.n_read:,}"),
            *self._reached(),
            ("queries (last tokens of contexts)", f"{self.n_queries:,}"),
            ("edges (one token beat another)", f"{self.n_edges:,}"),
            ("components (one token, or tokens that tie)", f"{self.n_components:,}"),
            ("queries with a component larger than one", show_share(self.tied_queries)),
            ("hard side (which component wins)", _proof(self.hard, f"gap {self.hard['gap']:.1e}")),
            ("soft side (the odds inside it)", _proof(self.soft, f"gradient {gradient:.1e}")),
        ]
        blocks: list[Block] = [Grid("Coverage", ["", ""], rows)]
        if self.note:
            blocks.append(Signal(self.note, good=False))
        elif not self.n_edges:
            blocks.append(
                "There are no edges: no context has its label and another token. Use a longer window."
            )
        if self.largest:
            largest = [
                (tied.query_text, tied.size, " ".join(tied.texts) + " …" * (tied.size > len(tied.texts)))
                for tied in self.largest
            ]
            blocks.append(Grid("Largest components", ["query", "size", "tokens"], largest))
        return blocks

    def _reached(self) -> list[tuple[str, object]]:
        # the rows that differ if the head writes other tokens than it reads
        return [("realisable (label in the context)", show_share(self.realisable))]

    def _table(self) -> pa.Table:
        row = {name: value for name, value in self.to_dict().items() if isinstance(value, int | float)}
        for side, proof in (("hard", self.hard), ("soft", self.soft)):
            row |= {f"{side}_{name}": value for name, value in proof.items()}
        return table_of({name: [value] for name, value in row.items()})

    def to_dict(self) -> dict[str, Any]:
        """The coverage as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Coverage":
        """The inverse of :meth:`to_dict`."""
        largest = tuple(LargeComponent.from_dict(tied) for tied in record["largest"])
        fields: dict[str, Any] = {**record, "largest": largest}
        return cls(**fields)


def show_share(share: float) -> Bar:
    return Bar(share, f"{share:.1%}")


def _proof(side: Mapping[str, Any], accuracy: str) -> Signal:
    return Signal(f"{side['status']}, {accuracy}", good=side["status"] == "certified")


class RankedComponent(NamedTuple):
    """A large component with its evidence: the total support of the edges of its tokens."""

    evidence: int
    component: LargeComponent


# Each partition of the queries is tallied separately, and `join_tallies` makes the coverage of the corpus. In
# memory there is one partition (`measure_coverage`).


@dataclass(frozen=True)
class Tally:
    """The contribution of the queries of one partition to :class:`Coverage`; ``n_tied`` counts queries."""

    n_queries: int
    n_edges: int
    n_components: int
    n_tied: int
    n_ordered: int
    largest: tuple[RankedComponent, ...]

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Tally":
        # the inverse of `asdict`
        largest = tuple(
            RankedComponent(int(evidence), LargeComponent.from_dict(tied))
            for evidence, tied in record["largest"]
        )
        fields: dict[str, Any] = {**record, "largest": largest}
        return cls(**fields)


def tally_components(components: Components, gathered: Gathered | None = None) -> Tally:
    """Tally the queries of these components; ``gathered`` counts their edges if the components lack them."""
    n_edges = len(components.edges) if gathered is None else int(gathered.n_edges.sum())
    return Tally(
        n_queries=len(components.queries),
        n_edges=n_edges,
        n_components=len(components),
        n_tied=len(np.unique(components.query_of[components.sizes > 1])),
        n_ordered=int(components.totally_ordered.sum()),
        largest=_find_largest(components, None if gathered is None else gathered.evidence),
    )


def measure_coverage(solved: Solved, vocabulary: Vocabulary | None = None) -> Coverage:
    """The coverage of a corpus that was solved in memory; the vocabulary names tokens."""
    edges = solved.components.edges
    proofs = solved.hard.certificate, solved.soft.certificate
    tally = tally_components(solved.components)
    return join_tallies([tally], edges.n_samples, edges.n_unrealisable, proofs, vocabulary)


def join_tallies(
    tallies: Sequence[Tally],
    n_realisable: int,
    n_unrealisable: int,
    proofs: tuple[HardCertificate, SoftCertificate],
    vocabulary: Vocabulary | None,
) -> Coverage:
    """The coverage of a corpus from the tallies of its partitions and the certificates of the whole."""
    n_read = n_realisable + n_unrealisable
    n_queries = sum(tally.n_queries for tally in tallies)
    largest = [ranked for tally in tallies for ranked in tally.largest]
    largest.sort(key=lambda ranked: (-ranked.component.size, -ranked.evidence))
    hard, soft = (
        {"status": "certified" if proof.certified else "uncertified", **asdict(proof)} for proof in proofs
    )
    return Coverage(
        n_read=n_read,
        realisable=_share_of(n_realisable, n_read),
        n_queries=n_queries,
        n_edges=sum(tally.n_edges for tally in tallies),
        n_components=sum(tally.n_components for tally in tallies),
        tied_queries=_share_of(sum(tally.n_tied for tally in tallies), n_queries),
        ordered_queries=_share_of(sum(tally.n_ordered for tally in tallies), n_queries),
        largest=tuple(
            replace(
                tied,
                query_text=name_token(vocabulary, tied.query),
                texts=tuple(name_token(vocabulary, token) for token in tied.tokens),
            )
            for _, tied in largest[:N_LARGEST]
        ),
        hard=hard,
        soft=soft,
    )


def _share_of(count: int, total: int) -> float:
    return count / total if total else 0.0


# The largest components of several tokens, largest first; of equal size, those with more evidence.
def _find_largest(components: Components, evidence: Int64 | None) -> tuple[RankedComponent, ...]:
    # `evidence` is the total support of the edges of each node; None to count it.
    if not len(components) or components.sizes.max() < 2:
        return ()
    smallest = max(np.sort(components.sizes)[-N_LARGEST:][0], 2)  # the size of number N_LARGEST
    is_large = components.sizes >= smallest  # more than N_LARGEST components if several have this size
    large = np.flatnonzero(is_large)
    if evidence is None:
        evidence = count_evidence(components, components.query_of[large])
    members = np.flatnonzero(is_large[components.component_of_node])  # nodes of the large components
    component = components.component_of_node[members]
    evidence_of = np.bincount(component, evidence[members], len(components))
    ranked = large[np.lexsort((-evidence_of[large], -components.sizes[large]))]
    largest: list[RankedComponent] = []
    for number in ranked[:N_LARGEST].tolist():
        rows = members[component == number]  # ascending by token
        best = rows[np.argsort(-evidence[rows], kind="stable")[:N_TOKENS]]
        tokens = tuple(components.token_of_node[best].tolist())
        tied = LargeComponent(int(components.query_of[number]), int(components.sizes[number]), tokens)
        largest.append(RankedComponent(int(evidence_of[number]), tied))
    return tuple(largest)
