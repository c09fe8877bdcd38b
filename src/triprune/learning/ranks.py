"""Owns training over several processes: who am I, and how results are shared; else one process.

Batch norm uses the statistics of each process's own part of the batch, as PyTorch does unless
told otherwise; the running statistics are averaged after every epoch, so that all processes hold
the same model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from triprune.errors import InputError, TrainingError


@dataclass(frozen=True, slots=True)
class Ranks:
    """The place of this process among those that train one model together."""

    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and progress."""
        return self.rank == 0

    def share(self, batch_size: int) -> int:
        """Return this process's part of a global batch."""
        if batch_size % self.world:
            raise InputError(
                f"batch_size = {batch_size} over {self.world} processes",
                "it cannot be split evenly",
                f"give a multiple of {self.world}",
            )
        return batch_size // self.world

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace every tensor by its mean over the processes, in one exchange a dtype."""
        self._exchange(tensors, 1 / self.world)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace every tensor by its sum over the processes."""
        self._exchange(tensors, 1)

    def as_lead_says(self, answer: bool) -> bool:
        """Return the leading process's ``answer``: a shared folder may look older to the others."""
        if self.world == 1:
            return answer
        told = torch.tensor([float(answer and self.leads)], device=_exchange_device())
        dist.all_reduce(told)
        return bool(told.item())

    def wait(self) -> None:
        """Go on when every process has come here."""
        self.as_lead_says(True)

    def require_same(self, number: int, asked: str) -> None:
        """Refuse to go on where the processes do not hold the same ``number``."""
        if self.world == 1:
            return
        ends = torch.tensor([float(number), -float(number)], device=_exchange_device())
        dist.all_reduce(ends, dist.ReduceOp.MAX)
        high, low = ends.tolist()
        if high != -low:
            raise TrainingError(
                asked,
                f"the processes that train together hold {-low:g} to {high:g}",
                "see that all of them reach the same files, and start again",
            )

    def _exchange(self, tensors: Sequence[Tensor], factor: float) -> None:
        if self.world == 1:
            return
        for dtype in {tensor.dtype for tensor in tensors}:
            alike = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in alike])
            dist.all_reduce(flat)
            parts = flat.mul_(factor).split([tensor.numel() for tensor in alike])
            for tensor, part in zip(alike, parts, strict=True):
                tensor.copy_(part.view(tensor.shape))


def _exchange_device() -> str:
    return "cuda" if dist.get_backend() == "nccl" else "cpu"


def current_ranks() -> Ranks:
    """Return this process's place; alone where no process group was started."""
    if dist.is_available() and dist.is_initialized():
        return Ranks(dist.get_rank(), dist.get_world_size())
    return Ranks()


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """Join the processes that ``torchrun`` started, if it did, and part from them at the end."""
    if "TORCHELASTIC_RUN_ID" not in os.environ or dist.is_initialized():
        yield current_ranks()
        return
    local = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local)
        dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    else:
        dist.init_process_group("gloo")
    try:
        yield current_ranks()
    finally:
        dist.destroy_process_group()
