"""Every architecture of the support table, pruned on all axes, answers alike in ONNX Runtime."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch

import triprune
from triprune.core.scale import Scale
from triprune.export.onnx_file import asking, open_session, to_onnx
from triprune.export.parity import TOLERANCE, compare

SCALE = Scale(0.7, 0.6, 0.8)
# Shortcuts, concatenations, squeeze-excite, layer norms; all the others take minutes together.
QUICK = {"resnet20", "densenet40", "torchvision:mobilenet_v3_large", "torchvision:convnext_tiny"}
ASKED = os.environ.get("TRIPRUNE_SLOW_TESTS") == "1"
SLOW = (
    pytest.mark.slow,
    pytest.mark.skipif(not ASKED, reason="NOT RUN: takes minutes; make slow-tests runs it"),
)


def pruning_matrix():
    file = Path(__file__).parents[1] / "network" / "test_pruning_matrix.py"
    spec = importlib.util.spec_from_file_location("pruning_matrix", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


matrix = pruning_matrix()
NAMES = [*matrix.RESIDUAL, *matrix.PLAIN]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else SLOW) for name in NAMES]
)
def test_onnx_answers_as_pytorch(name):
    model, example = matrix.built(name), matrix.picture(name)
    depth = SCALE.depth if name in matrix.RESIDUAL else 1.0
    scores = matrix.block_scores(name) if depth < 1 else None
    scale = Scale(depth, SCALE.width, SCALE.resolution)
    cut, plan = triprune.prune(model, scale, example_input=example, block_scores=scores)
    images = torch.nn.functional.interpolate(matrix.picture(name, 3), size=plan.resolution_px)
    data = to_onnx(cut.eval(), images[:2], metadata={"plan": plan.to_json()})
    parity = compare(cut, asking(open_session(data)), images, asked=f"exporting {name}")
    assert parity.difference <= TOLERANCE == 1e-4
    assert parity.agreeing == 3
