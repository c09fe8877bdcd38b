"""The plan as a document: what it says, what it refuses, and that it replays bit by bit."""

from __future__ import annotations

import json

import jsonschema
import pytest
import torch
from torch import nn

import triprune
from triprune.core.scale import Scale
from triprune.errors import (
    ArchitectureError,
    InputError,
    PlanError,
    PlanIndexError,
    PlanVersionError,
    TruncatedFileError,
)
from triprune.network.plan import Plan
from triprune.network.slicing import Cuts, LayerCut, PlacedCut, slice_model

X = torch.zeros(1, 3, 16, 16)


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return triprune.build_model("resnet20")


@pytest.fixture(scope="module")
def plan(model) -> Plan:
    return triprune.prune(model, Scale(0.7, 0.5, 0.8), example_input=X)[1]


def test_a_plan_is_told_without_its_indices(plan):
    assert len(repr(plan)) < 300 + len(repr(plan.notes))
    assert f"realised={plan.realised!r}" in repr(plan)


def changed(plan: Plan, **fields) -> str:
    return json.dumps(json.loads(plan.to_json()) | fields)


def test_json_says_all_and_the_schema_agrees(plan):
    document = json.loads(plan.to_json())
    jsonschema.validate(document, Plan.schema())
    assert document["layers"]["conv1"] == {"out": list(plan.cuts.layers["conv1"].out)}
    assert document["resolution_px"] == 13
    assert document["input_size"] == [3, 16, 16]
    assert len(document["removed_blocks"]) == 3
    assert Plan.from_json(plan.to_json()) == plan


def test_replays_on_fresh_weights(plan):
    fresh = triprune.build_model("resnet20")
    cut = plan.apply(fresh)
    kept = list(plan.cuts.layers["conv1"].out)
    assert torch.equal(cut.conv1.weight, fresh.conv1.weight[kept])
    assert cut.conv1.weight.data_ptr() != fresh.conv1.weight.data_ptr()
    assert not any(key.startswith(plan.removed_blocks) for key in cut.state_dict())


def test_refuses_another_architecture(plan):
    for other in ("resnet20-b", "resnet32"):
        with pytest.raises(ArchitectureError, match="another architecture"):
            plan.apply(triprune.build_model(other))


def test_refuses_a_cut_model(plan, model):
    with pytest.raises(ArchitectureError, match="another architecture"):
        plan.apply(plan.apply(model))


@pytest.mark.parametrize("end", [1, 20, 200, -10, -2])
def test_refuses_half_a_plan(plan, end):
    with pytest.raises(TruncatedFileError, match="ends in the middle"):
        Plan.from_json(plan.to_json()[:end])


def test_refuses_a_newer_plan(plan):
    with pytest.raises(PlanVersionError, match=r"version 2.*install a newer"):
        Plan.from_json(changed(plan, version=2))


BROKEN = [
    ({"version": 0}, "version is 0"),
    ({"version": True}, "version is True"),
    ({"version": "1"}, "version is '1'"),
    ({"fingerprint": "sha256:00"}, "fingerprint"),
    ({"fingerprint": 3}, "fingerprint is not text"),
    ({"input_size": []}, "input_size"),
    ({"input_size": [3, 1 << 40]}, "input_size"),
    ({"resolution_px": 0}, "resolution_px"),
    ({"resolution_px": 3.5}, "resolution_px"),
    ({"asked": [1, 1]}, "asked"),
    ({"realised": [1, 1, 0]}, "realised"),
    ({"realised": [1, 1, "1"]}, "realised"),
    ({"removed_blocks": "layer1.0"}, "removed_blocks"),
    ({"removed_blocks": [1]}, "removed_blocks is not text"),
    ({"removed_blocks": ["layer1.1", "layer1.1"]}, "twice"),
    ({"layers": []}, "layers is not an object"),
    ({"layers": {"conv1": {"out": []}}}, "no list of kept channels"),
    ({"layers": {"conv1": {"out": [0, 0]}}}, "keeps a channel twice"),
    ({"layers": {"conv1": {"out": [-1]}}}, "a kept channel of conv1"),
    ({"layers": {"conv1": {"out": [True]}}}, "a kept channel of conv1"),
    ({"layers": {"conv1": {"out": [0.5]}}}, "a kept channel of conv1"),
    ({"layers": {"conv1": {"code": [1]}}}, "unknown"),
    ({"tensors": {"conv1.weight": {"9": [0]}}}, "unknown"),
    ({"placed": {"x": {"width": 1 << 40, "out": [0], "in": [0]}}}, "the width of x"),
    ({"placed": {"x": {"width": 4}}}, "lacks"),
    ({"notes": [{}]}, "notes is not text"),
    ({"extra": 1}, "unknown"),
]


@pytest.mark.parametrize(("fields", "message"), BROKEN)
def test_refuses_a_malformed_plan_as_the_schema_does(plan, fields, message):
    text = changed(plan, **fields)
    with pytest.raises(PlanError, match=message):
        Plan.from_json(text)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(text), Plan.schema())


@pytest.mark.parametrize(
    "text", ["[]", "3", '"plan"', "null", '{"version": 1}', "{} {}", "[" * 100_000]
)
def test_refuses_what_is_no_plan(text):
    with pytest.raises((PlanError, TruncatedFileError)):
        Plan.from_json(text)


def test_refuses_numbers_that_json_does_not_have(plan):
    with pytest.raises(PlanError, match="NaN"):
        Plan.from_json(plan.to_json().replace("0.8125", "NaN"))


def with_cuts(plan: Plan, cuts: Cuts) -> Plan:
    return Plan(
        fingerprint=plan.fingerprint,
        input_size=plan.input_size,
        resolution_px=16,
        asked=plan.asked,
        realised=plan.realised,
        cuts=cuts,
    )


@pytest.mark.parametrize(
    "cuts",
    [
        Cuts(layers={"conv1": LayerCut(out=(0, 99))}),
        Cuts(layers={"conv1": LayerCut(into=(0, 7))}),
        Cuts(layers={"bn1": LayerCut(out=(0, 99))}),
        Cuts(layers={"linear": LayerCut(into=(64,))}),
        Cuts(tensors={"conv1.weight": {7: (0,)}}),
        Cuts(tensors={"conv1.weight": {0: (16,)}}),
        Cuts(placed={"layer2.0.shortcut": PlacedCut(16, (0,), (16,))}),
    ],
)
def test_refuses_indices_out_of_range(plan, model, cuts):
    with pytest.raises(PlanIndexError, match="make the plan again"):
        with_cuts(plan, cuts).apply(model)


@pytest.mark.parametrize(
    "cuts",
    [
        Cuts(layers={"nothing": LayerCut((0,))}),
        Cuts(layers={"layer1": LayerCut((0,))}),
        Cuts(tensors={"layer1.forward": {0: (0,)}}),
        Cuts(tensors={"conv1.__dict__": {0: (0,)}}),
        Cuts(placed={"": PlacedCut(4, (0,), (0,))}),
        Cuts(placed={"conv1": PlacedCut(4, (0,), (0,))}),
    ],
)
def test_refuses_to_cut_what_is_not_there(plan, model, cuts):
    with pytest.raises(PlanIndexError, match="nothing of that name that could be cut so"):
        with_cuts(plan, cuts).apply(model)


def test_refuses_groups_that_do_not_meet():
    layer = nn.Conv2d(4, 4, 3, groups=4)
    with pytest.raises(PlanIndexError, match="cutting the groups"):
        slice_model(nn.Sequential(layer), Cuts(layers={"0": LayerCut((0,), (1,))}))


def test_refuses_an_endless_number(plan):
    text = plan.to_json().replace('"version":1', '"version":' + "9" * 5000)
    with pytest.raises(PlanError, match="number of absurd length"):
        Plan.from_json(text)


def test_refuses_to_remove_a_block_that_is_none(plan, model):
    document = json.loads(plan.to_json()) | {"removed_blocks": ["layer9.0"]}
    with pytest.raises(InputError, match="layer9"):
        Plan.from_json(json.dumps(document)).apply(model)


def test_uneven_groups_are_refused():
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1, groups=2), nn.Conv2d(8, 2, 1))
    plan = triprune.prune(model, Scale(width=0.5), example_input=X)[1]
    cuts = Cuts(layers={"1": LayerCut(out=(0, 1, 4), into=(0, 4))})
    with pytest.raises(PlanIndexError, match="groups of 1"):
        with_cuts(plan, cuts).apply(model)
