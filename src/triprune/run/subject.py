"""Owns the model under the knife: cutting it at a scale and counting what is left, untrained."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import nn

from triprune.core.lattice import Lattice
from triprune.core.scale import Scale
from triprune.errors import InputError, SurgeryError
from triprune.network.blocks import BlockList, removable_blocks
from triprune.network.channels.importance import Importance
from triprune.network.fingerprint import fingerprint
from triprune.network.plan import Plan
from triprune.network.profile import example_input, profile
from triprune.network.pruning import prune
from triprune.network.running import run_example, working_copy

_WIDTH_STEPS = 64
_RESOLUTION_STEPS = 56
_HELD = 4


class Subject:
    """The original model and the size of its input; only ever copied."""

    def __init__(
        self,
        model: nn.Module,
        input_size: tuple[int, int, int],
        importance: Importance = "bn_scale",
        *,
        round_to: int = 1,
    ) -> None:
        self.model = working_copy(model).cpu()
        self.input_size = _square(input_size)
        self.round_to = round_to
        self._importance: Importance = importance
        self.example = example_input(self.model, input_size)
        self._output = run_example(self.model, self.example)
        self._require_room(round_to)
        self._cut: OrderedDict[tuple[float, float], nn.Module] = OrderedDict()

    @property
    def resolution_px(self) -> int:
        """The full side of the input."""
        return self.input_size[1]

    def answers(self) -> int | None:
        """Return how many numbers the model gives for one input; None if it is no such model."""
        output = self._output
        return output.shape[1] if isinstance(output, torch.Tensor) and output.ndim == 2 else None

    def facts(self) -> Mapping[str, Any]:
        """Return the fingerprints of architecture and weights."""
        digest = hashlib.sha256()
        for name, tensor in self.model.state_dict().items():
            digest.update(name.encode())
            digest.update(_bytes(tensor))
        return {"model": fingerprint(self.model), "weights": digest.hexdigest()}

    def blocks(self) -> BlockList:
        """Return the blocks that can go."""
        return removable_blocks(self.model, self.example)

    def layers(self) -> dict[str, int]:
        """Return the channels of every convolution, by name, in the model's order."""
        named: dict[str, nn.Module] = dict(self.model.named_modules())  # pyright: ignore[reportUnknownArgumentType]
        return {name: m.out_channels for name, m in named.items() if isinstance(m, nn.Conv2d)}

    def fixed_width(self) -> str:
        """Return why no layer can be narrower; nothing where some can."""
        try:
            self.cut(Scale(width=0.5), {})
        except SurgeryError as error:
            return error.found
        return ""

    def lattice(self, blocks: BlockList, *, fixed_width: bool = False) -> Lattice:
        """Return the scales that the model can take."""
        total = max(1, blocks.total)
        return Lattice(
            blocks=total,
            channels=1 if fixed_width else self.width_steps(),
            resolution_px=self.resolution_px,
            fixed_blocks=total - len(blocks),
            pixel_step=max(1, self.resolution_px // _RESOLUTION_STEPS),
            least_px=self._least_px(),
        )

    def width_steps(self) -> int:
        """Return in how many steps width is cut: channels, or multiples, of the widest layer."""
        return min(_WIDTH_STEPS, math.ceil(self._widest() / self.round_to))

    def _widest(self) -> int:
        return max(self.layers().values(), default=1)

    def _require_room(self, round_to: int) -> None:
        """Refuse multiples that no layer has, before anything is trained."""
        widest = self._widest()
        if 1 < widest < round_to:
            raise InputError(
                f"channels in multiples of {round_to} (round_to)",
                f"the widest layer has {widest}",
                f"give less than {widest}, as 8, or leave it out",
            )

    def rounded(self, round_to: int) -> Subject:
        """Return the same subject, cut to other multiples of channels."""
        return Subject(self.model, self.input_size, self._importance, round_to=round_to)

    def cut(
        self, scale: Scale, scores: Mapping[str, float], *, start: nn.Module | None = None
    ) -> tuple[nn.Module, Plan]:
        """Return a pruned copy of ``start`` (the original) and its plan."""
        begun = self.model if start is None else start
        return prune(
            begun,
            scale,
            example_input=self.example,
            block_scores=scores,
            importance=self._importance,
            round_to=self.round_to,
        )

    def model_at(self, scale: Scale, scores: Mapping[str, float]) -> tuple[nn.Module, int]:
        """Return the untrained model at ``scale``, and its resolution in pixels."""
        key = scale.depth, scale.width
        if key not in self._cut:
            self._cut[key] = self.cut(Scale(*key), scores)[0]
            while len(self._cut) > _HELD:
                self._cut.popitem(last=False)
        return self._cut[key], max(1, int(self.resolution_px * scale.resolution + 0.5))

    @cached_property
    def whole_cost(self) -> tuple[int, int]:
        """Macs and params of the original."""
        return self.cost_of(self.model, self.resolution_px)

    def cost_of(self, model: nn.Module, resolution_px: int) -> tuple[int, int]:
        """Return macs and params of ``model`` at ``resolution_px``."""
        counted = profile(model, (self.input_size[0], resolution_px, resolution_px))
        return counted.macs, counted.params

    def freed(self, blocks: BlockList) -> dict[str, tuple[int, int]]:
        """Return the macs and params that go with each block when it goes alone.

        The channels of a dense layer go from all that follows it, too, so those models are built;
        not where it is the only block, as no model keeps none.
        """
        whole = self.whole_cost
        freed: dict[str, tuple[int, int]] = {}
        for block in blocks:
            freed[block.name] = block.macs, block.params
            if block.kind == "dense" and blocks.total > 1:
                macs, params = self._cost_without(block.name, blocks)
                freed[block.name] = whole[0] - macs, whole[1] - params
        return freed

    def _cost_without(self, name: str, blocks: BlockList) -> tuple[int, int]:
        one_less = Scale(depth=(blocks.total - 1) / blocks.total)
        model, _ = self.cut(one_less, {each: float(each != name) for each in blocks.names})
        return self.cost_of(model, self.resolution_px)

    def _least_px(self) -> int:
        """Return the smallest side on which the network runs, by bisection."""
        low, high = 1, self.resolution_px
        while low < high:
            middle = (low + high) // 2
            try:
                picture = example_input(self.model, (self.input_size[0], middle, middle))
                run_example(self.model, picture)
                high = middle
            except InputError:
                low = middle + 1
        return high


def _square(input_size: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the size of a square image; a run names a resolution by one side."""
    if len(input_size) != 3 or input_size[1] != input_size[2]:
        raise InputError(
            f"a run on inputs of {'×'.join(map(str, input_size))}",
            "they are no square images, and a run's resolution is the side of a square",
            "give the input_size of square ones, as (3, 512, 512), and train and score on those",
        )
    channels, side, _ = input_size
    return channels, side, side


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
