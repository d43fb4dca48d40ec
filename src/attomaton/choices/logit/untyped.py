"""Functions of SciPy, whose types a checker cannot follow."""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

csr_array: Any = scipy.sparse.csr_array
issparse: Any = scipy.sparse.issparse
linalg: Any = scipy.linalg


def to_dense(values: Any) -> Any:
    """A sparse or dense matrix as a dense one."""
    return values.toarray() if issparse(values) else np.asarray(values)
