"""Store the choices and the proof vectors of a logit fit in a folder, and check them when they are read."""

from typing import Any

import numpy as np

from attomaton.base.artifacts import FolderKind, Run
from attomaton.base.tables import Float64, Int64
from attomaton.choices.logit.centring import AS_GIVEN, Centring
from attomaton.choices.logit.certificate import LogitEvidence
from attomaton.choices.logit.problem import ChoiceProblem
from attomaton.choices.logit.rows import BattleRows, ChoiceRows, DenseRows, Situations, SparseRows
from attomaton.choices.logit.untyped import csr_array

LOGIT = FolderKind("logit", "a fit of choices with features", "LogitFit.save")
KERNELS = {"battles": BattleRows, "dense": DenseRows, "sparse": SparseRows}


def pack_fit(problem: ChoiceProblem, evidence: LogitEvidence, method: str, program_rows: int) -> Run:
    kernel = next(name for name, kind in KERNELS.items() if type(problem.rows) is kind)
    vectors = {"beta": evidence.beta, "direction": evidence.direction, "witness": evidence.witness}
    arrays = {
        **{f"rows/{name}": np.ascontiguousarray(array) for name, array in problem.rows.arrays().items()},
        **{f"evidence/{name}": np.ascontiguousarray(array) for name, array in vectors.items()},
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
    counts = _numbers(arrays["counts"], n_rows)
    if counts.min(initial=0.0) < 0 or not (rows.situations.sum(counts) > 0).all():
        raise ValueError("a situation has no choice")
    offsets = None if "offsets" not in optional else _numbers(optional["offsets"], n_rows)
    names = tuple(map(str, run.records["names"]))
    if len(names) != size or len(set(names)) != size:
        raise ValueError("names.json does not name each column once")
    sources = [
        _integers(optional[name]) if name in optional else None
        for name in ("source_rows", "source_situations")
    ]
    centring = _unpack_centring(optional, size)
    problem = ChoiceProblem(rows, counts, names, offsets, *sources, centring=centring)
    vectors = [_numbers(arrays[f"evidence/{name}"], size) for name in ("beta", "direction", "witness")]
    dying = _numbers(arrays["evidence/dying"], n_rows) != 0
    multipliers = optional.get("evidence/multipliers")
    multipliers = None if multipliers is None else _numbers(multipliers, len(multipliers))
    evidence = LogitEvidence(dying, *vectors, multipliers)
    return problem, evidence, str(manifest["method"]), int(manifest["program_rows"])


def _unpack_centring(arrays: dict[str, Any], size: int) -> Centring:
    if "centring/columns" not in arrays:
        return AS_GIVEN
    columns, constants = (_integers(arrays[f"centring/{name}"]) for name in ("columns", "constants"))
    for numbers in (columns, constants):
        if len(numbers) != len(columns) or not 0 <= numbers.min() <= numbers.max() < size:
            raise ValueError("a centred column does not exist")
    return Centring(columns, constants, _numbers(arrays["centring/centres"], len(columns)))


def _unpack_rows(kernel: str, arrays: Any) -> ChoiceRows:
    if kernel == "battles":
        n_items, ties = _integers(arrays["rows/sizes"]).tolist()
        first, second = _integers(arrays["rows/first"]), _integers(arrays["rows/second"])
        for side in (first, second):
            if len(side) != len(first) or (len(side) and not 0 <= side.min() <= side.max() < n_items):
                raise ValueError("a battle has an item that does not exist")
        features = np.asarray(arrays["rows/features"], np.float64)
        if features.ndim != 2 or features.shape[1] != len(first) or not np.isfinite(features).all():
            raise ValueError("features are not one finite number for each battle")
        return BattleRows(first, second, features, int(n_items), bool(ties))
    starts = _integers(arrays["rows/starts"])
    if not len(starts) or starts[0] != 0 or (np.diff(starts) < 2).any():
        raise ValueError("a situation has fewer than two alternatives")
    situations = Situations(starts)
    if kernel == "dense":
        matrix = np.asarray(arrays["rows/matrix"], np.float64)
        if matrix.ndim != 2 or len(matrix) != starts[-1] or not np.isfinite(matrix).all():
            raise ValueError("the matrix is not one finite row for each alternative")
        return DenseRows(matrix, situations)
    if kernel != "sparse":
        raise ValueError(f"there is no kernel {kernel[:20]!r}")
    shape = int(starts[-1]), int(_integers(arrays["rows/n_parameters"])[0])
    data, indices, indptr = (arrays[f"rows/{name}"] for name in ("data", "indices", "indptr"))
    matrix = csr_array((np.asarray(data, np.float64), indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    if not np.isfinite(matrix.data).all():
        raise ValueError("the matrix has an entry that is not finite")
    return SparseRows(matrix, situations)


def _numbers(values: Any, size: int) -> Float64:
    numbers = np.asarray(values, np.float64)
    if numbers.shape != (size,) or not np.isfinite(numbers).all():
        raise ValueError(f"an array is not {size} finite numbers")
    return numbers


def _integers(values: Any) -> Int64:
    numbers = np.asarray(values)
    if numbers.ndim != 1 or numbers.dtype.kind != "i":
        raise ValueError("an array is not a list of integers")
    return numbers.astype(np.int64)
