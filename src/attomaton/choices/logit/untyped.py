"""Functions of SciPy, whose types a checker cannot follow."""

from typing import Any

import scipy.linalg
import scipy.sparse

csr_array: Any = scipy.sparse.csr_array
issparse: Any = scipy.sparse.issparse
linalg: Any = scipy.linalg
