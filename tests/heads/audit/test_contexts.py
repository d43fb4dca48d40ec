"""Contexts of one head beside what each rung says."""

import numpy as np
import pytest

from attomaton.base.errors import MismatchedParts
from attomaton.heads.audit.contexts import show_head
from attomaton.heads.audit.explanations import Last, Position
from attomaton.heads.audit.planning import AuditSettings
from attomaton.heads.model import Head
from tests.heads.audit.standin import StandIn, draw_documents


def test_a_rung_keeps_its_column_and_takes_no_other():
    documents = draw_documents(20)
    rungs = (Position(), Last("attention"))
    shown = show_head(
        StandIn(), documents, Head(1, 0), rungs=rungs, settings=AuditSettings(window=6), examples=2
    )
    table = shown.table()
    assert table.column_names[-2:] == ["fitted position", "fitted attention"]
    for row in table.to_pylist():
        assert documents[row["document"]][row["position"] - row["lag"]] == row["token"]
    np.testing.assert_allclose(table["attention"].to_numpy().reshape(2, 7).sum(1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(table["fitted position"].to_numpy().reshape(2, 7).sum(1), 1.0, rtol=1e-6)


def test_the_printed_tables_fit_80_columns():
    rungs = [Position(), *(Last(f"a rung with a long name {number}") for number in range(8))]
    shown = show_head(
        StandIn(), draw_documents(20), Head(1, 0), rungs=rungs, settings=AuditSettings(window=6), examples=2
    )
    lines = str(shown).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(" own ┃ +1 ┃ +2 " in line and line.endswith(" +9 ┃") for line in lines) == 2


def test_a_head_may_be_a_pair_and_must_be_there():
    documents, how = draw_documents(20), AuditSettings(window=6)
    assert "head 1.0" in repr(show_head(StandIn(), documents, (1, 0), settings=how, examples=1))
    assert "head 1.0" in repr(show_head(StandIn(), documents, "L1H0", settings=how, examples=1))
    with pytest.raises(
        MismatchedParts, match=r"'1' is not a head; give layer and number, such as 4\.0 or L4H0"
    ):
        show_head(StandIn(), documents, "1", settings=how)
    with pytest.raises(MismatchedParts, match=r"there is no head 2\.0"):
        show_head(StandIn(), documents, Head(2, 0), settings=how)
