"""Attention heads of trained models: where they look, and what explains it."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.heads.arrays import from_arrays as from_arrays
    from attomaton.heads.audit.causal import replace_heads as replace_heads, share_out as share_out
    from attomaton.heads.audit.compare import compare_audits as compare_audits
    from attomaton.heads.audit.contexts import show_head as show_head
    from attomaton.heads.audit.course import HeadCourse as HeadCourse, audit_course as audit_course
    from attomaton.heads.audit.explanations import (
        PMI as PMI,
        AttentionRung as AttentionRung,
        Bigram as Bigram,
        Delimiters as Delimiters,
        Duplicate as Duplicate,
        Frequency as Frequency,
        Induction as Induction,
        KeyToken as KeyToken,
        Last as Last,
        Position as Position,
        PreviousToken as PreviousToken,
        Rung as Rung,
        SentenceStart as SentenceStart,
        Sink as Sink,
        Table as Table,
        first_looks as first_looks,
        usefulness as usefulness,
    )
    from attomaton.heads.audit.heads import audit_heads as audit_heads
    from attomaton.heads.audit.ladder import climb as climb
    from attomaton.heads.audit.planning import AuditSettings as AuditSettings
    from attomaton.heads.audit.randomised import (
        permute_weights as permute_weights,
        rotate_beside as rotate_beside,
        rotate_heads as rotate_heads,
    )
    from attomaton.heads.audit.result import HeadAudit as HeadAudit
    from attomaton.heads.audit.rungs import plain_rungs as plain_rungs, useful_rungs as useful_rungs
    from attomaton.heads.audit.seeking import seek_labels as seek_labels
    from attomaton.heads.audit.steps import find_revisions as find_revisions, find_steps as find_steps
    from attomaton.heads.audit.types import HeadType as HeadType
    from attomaton.heads.deviation import compare_logits as compare_logits
    from attomaton.heads.model import Head as Head
    from attomaton.heads.opening import open_model as open_model
    from attomaton.heads.patterns import PatternModel as PatternModel
    from attomaton.heads.utility.closed import find_closed_utility as find_closed_utility
    from attomaton.heads.utility.measured import measure_utility as measure_utility
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
