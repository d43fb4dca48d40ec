"""Contexts of one head beside what each rung says."""

import numpy as np

from attomaton.audit.contexts import show_head
from attomaton.audit.explanations import Last
from attomaton.audit.heads import Audit
from attomaton.audit.ladder import Position
from attomaton.heads.model import Head
from tests.audit.standin import StandIn, draw_documents


def test_a_rung_keeps_its_column_and_takes_no_other():
    documents = draw_documents(20)
    rungs = (Position(), Last("attention"))
    shown = show_head(StandIn(), documents, Head(1, 0), rungs=rungs, how=Audit(window=6), n=2)
    table = shown.to_arrow()
    assert table.column_names[-2:] == ["fitted position", "fitted attention"]
    for row in table.to_pylist():
        assert documents[row["document"]][row["position"] - row["lag"]] == row["token"]
    np.testing.assert_allclose(table["attention"].to_numpy().reshape(2, 6).sum(1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(table["fitted position"].to_numpy().reshape(2, 6).sum(1), 1.0, rtol=1e-6)
