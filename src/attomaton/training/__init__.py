"""Training runs: steps, the loop over many trials at once, and the resulting trace."""

from typing import TYPE_CHECKING

from attomaton.base.doors import open_door

if TYPE_CHECKING:
    from attomaton.training.callbacks import (
        TensorBoard as TensorBoard,
        Trackio as Trackio,
        WandB as WandB,
        Watch as Watch,
    )
    from attomaton.training.checkpoints import Store as Store
    from attomaton.training.loop import train as train, train_deep as train_deep
    from attomaton.training.models.attention import AttentionModel as AttentionModel
    from attomaton.training.models.deep import DeepModel as DeepModel
    from attomaton.training.models.embeddings import (
        EmbeddingTable as EmbeddingTable,
        Equicorrelated as Equicorrelated,
        Orthonormal as Orthonormal,
        RandomUnit as RandomUnit,
    )
    from attomaton.training.models.heads import (
        EmbeddingDistance as EmbeddingDistance,
        Tied as Tied,
        TokenId as TokenId,
        Untied as Untied,
    )
    from attomaton.training.models.losses import (
        CorrelationLoss as CorrelationLoss,
        LogLoss as LogLoss,
        SquaredLoss as SquaredLoss,
    )
    from attomaton.training.path import trace_path as trace_path
    from attomaton.training.steps import (
        Adam as Adam,
        Decay as Decay,
        GradientDescent as GradientDescent,
        Muon as Muon,
        SignDescent as SignDescent,
        SpectralDescent as SpectralDescent,
        Step as Step,
    )
    from attomaton.training.trace import Trace as Trace
else:
    __getattr__, __dir__, __all__ = open_door(__name__)
