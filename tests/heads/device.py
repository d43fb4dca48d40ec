"""A device for tests: tensors whose numbers are on the CPU, but which say that they are elsewhere.

As on a GPU, an operation on tensors of two devices is an error, except that indices and single numbers may
be on the CPU, and numpy cannot read what is elsewhere. A process that has used the device keeps it, so run
``python -m tests.heads.device ARCHITECTURES``.
"""

import sys
from contextlib import contextmanager

import numpy as np
import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

NAME = "elsewhere"
ATEN = torch.ops.aten
MOVES = (ATEN._to_copy.default, ATEN.copy_.default)
INDEXING = (ATEN.index.Tensor, ATEN.index_put_.default, ATEN.index_put.default)

KEPT = []


class Elsewhere(torch.Tensor):
    """A tensor on the device; ``numbers`` has what it holds."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=f"{NAME}:0",
        )

    def __init__(self, inner):
        self.numbers = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


class Device(TorchDispatchMode):
    """Catches operations that make tensors on the device from none."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def run(func, args, kwargs):
    """One operation, on the CPU."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    there = any(isinstance(tensor, Elsewhere) for tensor in tensors)
    here = any(tensor.ndim and not isinstance(tensor, Elsewhere) for tensor in tensors)
    if there and here and func not in (*MOVES, *INDEXING):
        raise RuntimeError(f"{func} on tensors of two devices")
    target = kwargs.get("device")
    if target is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
        there = torch.device(target).type == NAME
    if func is MOVES[1]:
        there = isinstance(args[0], Elsewhere)
    inner_args, inner_options = tree_map(lambda leaf: getattr(leaf, "numbers", leaf), (args, kwargs))
    out = func(*inner_args, **inner_options)
    if there:
        out = tree_map(lambda leaf: Elsewhere(leaf) if isinstance(leaf, torch.Tensor) else leaf, out)
    return return_and_correct_aliasing(func, args, kwargs, out) if there else out


def empty_strided(size, stride, dtype=None, layout=None, device=None, pin_memory=None):
    """What indices are copied to, in an assignment to ``tensor[indices]``."""
    del layout, device, pin_memory
    return Elsewhere(torch.empty_strided(size, stride, dtype=dtype))


def copy_from(source, target, non_blocking=False):
    """The copy itself."""
    del non_blocking
    target.numbers.copy_(getattr(source, "numbers", source))
    return target


@contextmanager
def device():
    """Operations on the device are known in the block."""
    if not KEPT:
        library = torch.library.Library("aten", "IMPL")
        library.impl("empty_strided", empty_strided, "PrivateUse1")
        library.impl("_copy_from", copy_from, "PrivateUse1")
        KEPT.append(library)
        hook = backend_registration._DummyPrivateUse1Hook()
        guard = backend_registration._DummyDeviceGuard()
        KEPT.extend((hook, guard))
        backend_registration._setup_privateuseone_for_python_backend(NAME, hook=hook, device_guard=guard)
    with Device():
        yield


def move(model):
    """A model with its weights on the device."""
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                module._parameters[name] = torch.nn.Parameter(Elsewhere(weight.detach()), requires_grad=False)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = Elsewhere(buffer)
    return model


def main():
    """Audit models of these architectures on the CPU and on the device, and print how far they are apart."""
    from attomaton.heads import audit_heads
    from tests.heads import architectures
    from tests.heads.test_live import DOCUMENTS, HOW

    with device():  # before the first gradient, with which autograd counts the devices
        pass
    for name in sys.argv[1:]:
        models = [architectures.make(name) for _ in range(2)]
        for model in models:
            model.to(torch.bfloat16 if name == "qwen3" else torch.float32)
        expected = audit_heads(models[0], DOCUMENTS, causal="top", settings=HOW).to_pandas()
        with device():
            audit = audit_heads(move(models[1]), DOCUMENTS, causal="top", settings=HOW)
        assert audit.left_out == ""
        assert {weight.device.type for weight in models[1].parameters()} == {NAME}
        table = audit.to_pandas()
        numbers = expected.select_dtypes("number").columns
        apart = np.nan_to_num((table[numbers] - expected[numbers]).abs().to_numpy(float)).max()
        same = (table["type"] == expected["type"]).all()
        sys.stdout.write(f"{name} {apart:.1e} {same}\n")


if __name__ == "__main__":
    main()
