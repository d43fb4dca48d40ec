"""An automaton as a run folder, and back."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from attomaton.artifacts import Run, read_run
from attomaton.automaton.coverage import Coverage
from attomaton.corpora.tokenizers import Vocabulary
from attomaton.errors import CorruptRun
from attomaton.graphs.choices import ChoiceTable
from attomaton.graphs.components import Components
from attomaton.graphs.edges import QUERY_SCHEMA, EdgeTable
from attomaton.hard.certify import HardCertificate
from attomaton.hard.constraints import MULTIPLIER_SCHEMA
from attomaton.hard.solve import HardSolution
from attomaton.soft.certify import SoftCertificate
from attomaton.soft.solve import SoftSolution
from attomaton.solutions import Solution, check_scores, sparse_weights
from attomaton.solved import Solved
from attomaton.tables import column, make_table

Proof = TypeVar("Proof", HardCertificate, SoftCertificate)


def describe(
    solved: Solved, vocabulary: Vocabulary | None, coverage: Coverage, about: Mapping[str, Any]
) -> Run:
    """Everything an automaton is made of, as a run folder holds it."""
    components, hard, soft = solved.components, solved.hard, solved.soft
    edges = components.edges
    records: dict[str, Any] = {"coverage": coverage.to_dict()}
    if vocabulary is not None:
        records["vocabulary"] = vocabulary.to_record()
    return Run(
        tables={
            "edges": edges.table,
            "components": components.nodes,
            "order": components.order,
            "hard": hard.scores,
            "soft": soft.scores,
            "choices": soft.choices.table,
        },
        arrays={
            **{f"queries/{name}": column(edges.queries, name) for name in QUERY_SCHEMA.names},
            **{f"multipliers/{name}": column(hard.multipliers, name) for name in MULTIPLIER_SCHEMA.names},
            **_dense_weights("hard/weights", hard),
            **_dense_weights("soft/weights", soft),
        },
        records=records,
        manifest={
            **about,
            "n_tokens": edges.n_tokens,
            "certificates": {
                "hard": asdict(hard.certificate),
                "soft": asdict(soft.certificate),
            },
            "soft": {"loss": soft.loss, "ridge": soft.ridge, "free": soft.free},
        },
    )


def load(
    path: str | Path,
) -> tuple[tuple[Components, HardSolution, SoftSolution, Vocabulary | None], int | None]:
    """Read a run and its window; what was altered does not load, even if its digests were made anew."""
    run = read_run(path)
    try:
        return _assemble(run), _window(run.manifest)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:  # or MismatchedParts
        reason = str(error).partition(";")[0]
        raise CorruptRun(f"{path} holds no whole automaton ({reason}); write the run again") from error


def _window(manifest: Mapping[str, Any]) -> int | None:
    """The longest context that a run was learned with, if its manifest says it."""
    config: Any = manifest.get("config")
    told = cast("dict[str, Any]", config) if isinstance(config, dict) else {}
    windows: list[Any] = [told.get(name) for name in ("window", "max_window")]
    kept = [one for one in windows if isinstance(one, int) and not isinstance(one, bool) and one > 0]
    return min(kept, default=None)


def _assemble(run: Run) -> tuple[Components, HardSolution, SoftSolution, Vocabulary | None]:
    """Every part through its constructor, which checks it, in the order in which one indexes another."""
    queries = make_table(QUERY_SCHEMA, {name: run.arrays[f"queries/{name}"] for name in QUERY_SCHEMA.names})
    with _named("edges.parquet"):
        edges = EdgeTable(run.tables["edges"], queries, run.manifest["n_tokens"])
    with _named("components.parquet and order.parquet"):
        components = Components(edges, run.tables["components"], run.tables["order"])
    for name in ("hard", "soft"):
        with _named(f"{name}.parquet"):
            check_scores(run.tables[name], components.nodes, "the table of scores")
    proofs = run.manifest["certificates"]
    multipliers = {name: run.arrays[f"multipliers/{name}"] for name in MULTIPLIER_SCHEMA.names}
    with _named("hard.parquet and arrays.safetensors"):
        hard = HardSolution(
            components=components,
            scores=run.tables["hard"],
            weights=_weights(run, "hard", edges.n_tokens),
            certificate=_certificate(HardCertificate, proofs["hard"]),
            multipliers=make_table(MULTIPLIER_SCHEMA, multipliers),
        )
    with _named("choices.parquet"):
        choices = ChoiceTable(run.tables["choices"])
    with _named("soft.parquet and arrays.safetensors"):
        soft = SoftSolution(
            scores=run.tables["soft"],
            weights=_weights(run, "soft", edges.n_tokens),
            certificate=_certificate(SoftCertificate, proofs["soft"]),
            choices=choices,
            components=components,
            **_numbers(run.manifest["soft"], {"loss": float, "ridge": float, "free": bool}),
        )
    return components, hard, soft, _vocabulary(run, edges.n_tokens)


@contextmanager
def _named(files: str) -> Generator[None]:
    """Say in which file something is wrong."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"{files}: {error}") from error


def _vocabulary(run: Run, n_tokens: int) -> Vocabulary | None:
    words = run.records.get("vocabulary")
    if words is None:
        return None
    texts = [*words["tokens"], words["tokenizer"], words.get("definition") or ""]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("vocabulary.json holds tokens that are no text")
    for text in texts:
        text.encode()  # an error, which is a ValueError, where it is no Unicode
    if len(words["tokens"]) != n_tokens:
        raise ValueError(f"vocabulary.json holds {len(words['tokens'])} tokens, and ids go up to {n_tokens}")
    return Vocabulary.from_record(words)


def _certificate(kind: type[Proof], record: Mapping[str, Any]) -> Proof:
    """The certificate, if each of its numbers is one."""
    kinds: dict[str, Any] = {field.name: field.type for field in fields(kind)}
    return kind(**_numbers(record, kinds))


def _numbers(record: Mapping[str, Any], kinds: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says, if all of it is there, of these types and finite."""
    if record.keys() != kinds.keys():
        raise ValueError(f"manifest.json should give {', '.join(kinds)}")
    for name, kind in kinds.items():
        value = record[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        right = isinstance(value, kind) or (whole and isinstance(float(value), kind))
        if not right or (isinstance(value, bool) and not isinstance(True, kind)) or not _finite(value):
            raise ValueError(f"manifest.json gives {str(value)[:40]} as {name}")
    return dict(record)


def _finite(value: float | str | None) -> bool:
    return value is None or isinstance(value, str) or isfinite(value)


def _dense_weights(name: str, solution: Solution) -> dict[str, NDArray[Any]]:
    """Weights in embedding space; for orthonormal ones they are the score table and need no copy."""
    return {name: solution.weights} if isinstance(solution.weights, np.ndarray) else {}


def _weights(run: Run, name: str, n_tokens: int) -> Any:
    dense = run.arrays.get(f"{name}/weights")
    return sparse_weights(run.tables[name], n_tokens) if dense is None else dense
