"""Owns running a model so that its channels are followed; refuses what no rule can follow."""

from __future__ import annotations

import torch
from torch import nn

from triprune.errors import SurgeryError
from triprune.network.channels.flow import ChannelFlow, MakeOpaqueError


def follow_channels(model: nn.Module, example: torch.Tensor) -> ChannelFlow:
    """Follow the channels of ``model``, a private CPU copy in evaluation mode.

    Parameters that evaluation does not use, such as those of auxiliary heads, are looked for in
    training mode as well.
    """
    opaque: frozenset[str] = frozenset()
    while True:
        flow = ChannelFlow(model, opaque)
        try:
            flow.follow(example)
            if {name for name, _ in model.named_parameters()} - flow.used:
                _follow_training(flow, model, example)
            return flow
        except MakeOpaqueError as found:
            if found.name in opaque:
                raise
            opaque |= {found.name}
        except Exception as error:  # a rule met what nobody foresaw: refuse, never crash
            raise SurgeryError(
                f"following the channels of a {type(model).__name__}",
                f"{type(error).__name__} in {flow.where()}: {error}",
                "keep width at 1 and cut depth or resolution",
            ) from error


def _follow_training(flow: ChannelFlow, model: nn.Module, example: torch.Tensor) -> None:
    model.train()
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.eval()
    try:
        flow.follow(example.repeat(2, *[1] * (example.dim() - 1)))
    except MakeOpaqueError:
        raise
    except Exception:  # a model that cannot train on this example keeps what evaluation taught
        return
    finally:
        model.eval()
