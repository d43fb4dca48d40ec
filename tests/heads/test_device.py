"""An audit on another device gives the numbers of the CPU, and nothing is read where it is not."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.costly("eight audits in a process of their own, because a device stays registered")
def test_an_audit_on_another_device_has_the_numbers_of_the_cpu():
    """Through the attention interface, with soft caps, in bfloat16, and where attention is written out."""
    names = ["llama", "gemma2", "qwen3", "bloom"]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.heads.device", *names],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    for name, line in zip(names, ended.stdout.splitlines(), strict=True):
        told, apart, same = line.split()
        assert (told, same) == (name, "True")
        assert float(apart) <= 1e-6


def test_tensors_of_two_devices_do_not_mix():
    """The device of the tests is as strict as a GPU."""
    source = """
from tests.heads.device import Elsewhere, device, torch
with device():
    row, ones = Elsewhere(torch.arange(3.0)), torch.ones(3)
    print(float(row.sum()), row[[0, 2]].device.type)
    for wrong in (lambda: row + ones, row.numpy, lambda: row.gather(0, ones.long())):
        try:
            wrong()
        except (RuntimeError, TypeError):
            print("refused")
"""
    ended = subprocess.run(
        [sys.executable, "-c", source],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.split() == ["3.0", "elsewhere", "refused", "refused", "refused"], ended.stderr
