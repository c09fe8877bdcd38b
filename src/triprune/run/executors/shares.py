"""Owns what one worker of a cluster is given: whole cores and GPUs; refuses what no machine has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from triprune.errors import ClusterError

Resources = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Share:
    """What one worker gets, and the nodes that can give it."""

    cores: int
    gpus: int
    nodes: tuple[str, ...]

    @property
    def resources(self) -> dict[str, float]:
        """The share as Ray counts it."""
        return {"CPU": self.cores, "GPU": self.gpus} if self.gpus else {"CPU": self.cores}


def share_of(nodes: Mapping[str, Resources], device: str | None, *, together: int = 1) -> Share:
    """Return a GPU with its part of the node's cores or, without GPUs, as many cores as here.

    ``together`` is how many workers train one model: the cluster must have room for them.
    """
    cores = {node: int(has.get("CPU", 0)) for node, has in nodes.items()}
    gpus = {node: int(has["GPU"]) for node, has in nodes.items() if has.get("GPU", 0) >= 1}
    wanted = device is None or torch.device(device).type == "cuda"
    if wanted and gpus:
        part = max(1, min(cores[node] // count for node, count in gpus.items()))
        share, room, kind = Share(part, 1, tuple(gpus)), sum(gpus.values()), "GPUs"
    elif wanted and device is not None:
        raise ClusterError(f"device {device}", "no machine of the cluster has a GPU", "ask for cpu")
    else:
        # As many threads as here: sums in another order would be other bits.
        part = max(1, min(torch.get_num_threads(), max(cores.values(), default=0)))
        able = {node: count // part for node, count in cores.items() if count >= part}
        share, room, kind = (
            Share(part, 0, tuple(able)),
            sum(able.values()),
            f"workers of {part} cores",
        )
    if room < together:
        raise ClusterError(
            f"{together} {kind} for one chain",
            f"the cluster has {room}",
            "ask for fewer (--gpus-per-chain), or join more machines with: ray start --address",
        )
    return share
