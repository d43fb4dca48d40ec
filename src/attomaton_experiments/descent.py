"""The training loop of the experiments' own networks: batches, a loss, a PyTorch optimiser."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attomaton.base.options import whole_number

_torch: Any = torch  # its type stubs leave some functions partly unknown


def descend(
    optimiser: Any,
    batches: Iterable[Tensor],
    find_loss: Callable[[Tensor], Tensor],
    *,
    layer: nn.Module,
    rate: Callable[[int], float] | None = None,
    clip: float | None = None,
    first: int = 0,
) -> Generator[tuple[int, float]]:
    """Take a step on each batch; yields the number of steps taken and the last loss.

    ``rate`` maps the number of steps taken to the learning rate, ``clip`` is the largest gradient norm,
    and ``first`` the number of steps taken in an earlier session.
    """
    for step, batch in enumerate(batches, first):
        if rate is not None:
            for group in optimiser.param_groups:
                group["lr"] = rate(step)
        layer.train()
        loss: Any = find_loss(batch)
        optimiser.zero_grad()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(layer.parameters(), clip)
        optimiser.step()
        yield step + 1, float(loss.detach())


@contextmanager
def repeatable(seed: int) -> Generator[None]:
    """Seed PyTorch and use one thread, so that sums are the same on any number of cores.

    The state of the random generator is restored afterwards.
    """
    seed, threads = whole_number(seed, "seed"), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with _torch.random.fork_rng():
            _torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
