"""Store the choices and the proof vectors of a logit fit in a folder, and check them when they are read."""

from typing import Any

import numpy as np

from attomaton.base.artifacts import FolderKind, Run
from attomaton.base.borders import check_floats, check_ids, check_int64, check_lengths
from attomaton.choices.logit.centring import AS_GIVEN, Centring
from attomaton.choices.logit.certificate import LogitEvidence
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.rows import BattleRows, ChoiceRows, DenseRows, Situations, SparseRows
from attomaton.choices.logit.untyped import csr_array

LOGIT = FolderKind("logit", "a fit of choices with features", "LogitFit.save")
KERNELS = {"battles": BattleRows, "dense": DenseRows, "sparse": SparseRows}
VECTORS, SOURCES = ("beta", "direction", "witness"), ("source_rows", "source_situations")


def pack_fit(problem: ChoiceProblem, evidence: LogitEvidence, method: str, program_rows: int) -> Run:
    kernel = next(name for name, kind in KERNELS.items() if type(problem.rows) is kind)
    arrays = {
        **{f"rows/{name}": np.ascontiguousarray(array) for name, array in problem.rows.arrays().items()},
        **{f"evidence/{name}": np.ascontiguousarray(getattr(evidence, name)) for name in VECTORS},
        "evidence/dying": evidence.dying.astype(np.int64),
        "counts": problem.counts,
    }
    optional = {
        "evidence/multipliers": evidence.multipliers,
        "offsets": problem.offsets,
        "source_rows": problem.source_rows,
        "source_situations": problem.source_situations,
        **{f"centring/{name}": array for name, array in problem.centring._asdict().items() if len(array)},
    }
    arrays |= {name: array for name, array in optional.items() if array is not None}
    manifest = {"kernel": kernel, "method": method, "program_rows": program_rows}
    manifest |= {"optional": [name for name in optional if name in arrays]}
    return Run(tables={}, arrays=arrays, records={"names": list(problem.names)}, manifest=manifest)


def unpack_fit(run: Run) -> tuple[ChoiceProblem, LogitEvidence, str, int]:
    """The choices, the vectors, the method that found which alternatives die, and its program's rows."""
    arrays, manifest = run.arrays, run.manifest
    rows = _unpack_rows(str(manifest["kernel"]), arrays)
    size, n_rows = rows.n_parameters, rows.situations.n_rows
    optional: dict[str, Any] = {name: arrays[name] for name in manifest["optional"]}
    counts = check_floats(arrays["counts"], (n_rows,), "counts")
    if counts.min(initial=0.0) < 0 or not (rows.situations.sum(counts) > 0).all():
        raise ValueError("a situation has no choice")
    names = tuple(map(str, run.records["names"]))
    if len(names) != size or len(set(names)) != size:
        raise ValueError("names.json does not name each column once")
    offsets = optional.get("offsets")
    sources = [check_int64(optional[name], name) if name in optional else None for name in SOURCES]
    problem = ChoiceProblem(
        rows,
        counts,
        names,
        None if offsets is None else check_floats(offsets, (n_rows,), "offsets"),
        *sources,
        centring=_unpack_centring(optional, size),
    )
    beta, direction, witness = (check_floats(arrays[f"evidence/{name}"], (size,), name) for name in VECTORS)
    dying = check_floats(arrays["evidence/dying"], (n_rows,), "dying") != 0
    multipliers = optional.get("evidence/multipliers")
    multipliers = None if multipliers is None else check_floats(multipliers, (None,), "multipliers")
    evidence = LogitEvidence(dying, beta, direction, witness, multipliers)
    return problem, evidence, str(manifest["method"]), int(manifest["program_rows"])


def _unpack_centring(arrays: dict[str, Any], size: int) -> Centring:
    if "centring/columns" not in arrays:
        return AS_GIVEN
    columns, constants = (check_int64(arrays[f"centring/{name}"], name) for name in ("columns", "constants"))
    check_lengths("centred columns", columns=columns, constants=constants)
    for name, numbers in (("columns", columns), ("constants", constants)):
        check_ids(numbers, size, name)
    return Centring(columns, constants, check_floats(arrays["centring/centres"], (len(columns),), "centres"))


def _unpack_rows(kernel: str, arrays: Any) -> ChoiceRows:
    if kernel == "battles":
        n_items, ties = check_int64(arrays["rows/sizes"], "sizes").tolist()
        first, second = (check_int64(arrays[f"rows/{name}"], name) for name in ("first", "second"))
        check_lengths("items of battles", first=first, second=second)
        for name, side in (("first", first), ("second", second)):
            check_ids(side, n_items, name)
        features = check_floats(arrays["rows/features"], (None, len(first)), "features")
        return BattleRows(first, second, features, int(n_items), bool(ties))
    starts = check_int64(arrays["rows/starts"], "starts")
    if not len(starts) or starts[0] != 0 or (np.diff(starts) < 2).any():
        raise ValueError("a situation has fewer than two alternatives")
    situations = Situations(starts)
    if kernel == "dense":
        return DenseRows(check_floats(arrays["rows/matrix"], (situations.n_rows, None), "matrix"), situations)
    if kernel != "sparse":
        raise ValueError(f"there is no kernel {kernel[:20]!r}")
    shape = situations.n_rows, int(check_int64(arrays["rows/n_parameters"], "n_parameters")[0])
    data = check_floats(arrays["rows/data"], (None,), "data")
    matrix = csr_array((data, arrays["rows/indices"], arrays["rows/indptr"]), shape=shape)
    matrix.check_format(full_check=True)
    return SparseRows(matrix, situations)
