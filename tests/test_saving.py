"""Models on disk: what comes back is what went in, and a bad folder can do no more than fail."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import triprune
from triprune.core.scale import Scale
from triprune.errors import (
    ArchitectureError,
    DamagedFileError,
    FileFormatError,
    InputError,
    NonFiniteError,
    PlanError,
    PlanIndexError,
    TripruneError,
    TruncatedFileError,
    WeightsError,
)

X = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def build() -> nn.Module:
    return triprune.build_model("resnet20")


@pytest.fixture(scope="module")
def pruned():
    torch.manual_seed(0)
    return triprune.prune(build(), Scale(0.7, 0.5, 0.8), example_input=X)


@pytest.fixture
def folder(pruned, tmp_path):
    return triprune.save(*pruned, tmp_path / "deep" / "small")


@pytest.fixture
def unsummed(folder):
    """Return a folder as earlier versions wrote it, and as a stranger would change it."""
    (folder / "SHA256SUMS").unlink()
    return folder


def test_round_trip_is_exact(pruned, folder):
    model, plan = pruned
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["SHA256SUMS", "plan.json", "weights.safetensors"]
    assert triprune.load_plan(folder) == plan
    loaded = triprune.load(folder, build=build)
    ours, theirs = model.state_dict(), loaded.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    with torch.no_grad():
        assert torch.equal(loaded.eval()(X), model.eval()(X))


@pytest.mark.parametrize("name", ["plan.json", "weights.safetensors"])
def test_a_flipped_bit_is_found_and_its_file_named(folder, name):
    path = folder / name
    whole = path.read_bytes()
    # In the plan a digit, in the weights the last bits of a number: nothing else would notice.
    place = whole.index(b'"resolution_px":') + 17 if name == "plan.json" else len(whole) - 4
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    told = rf"{name}: its checksum is not the one in SHA256SUMS.*restore the folder from a copy"
    with pytest.raises(DamagedFileError, match=told):
        triprune.load(folder, build=build)
    path.write_bytes(whole)
    triprune.load(folder, build=build)


def test_sums_are_those_that_sha256sum_checks(folder):
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert told == "weights.safetensors: OK\nplan.json: OK\n"


def test_a_folder_without_sums_still_loads(pruned, unsummed):
    loaded = triprune.load(unsummed, build=build)
    assert torch.equal(loaded.conv1.weight, pruned[0].conv1.weight)


@pytest.mark.parametrize("text", [b"", b"\xff" * 99, b"no sums\n"])
def test_sums_that_say_nothing_are_damage_too(folder, text):
    (folder / "SHA256SUMS").write_bytes(text)
    with pytest.raises(DamagedFileError, match="one of the two was damaged"):
        triprune.load(folder, build=build)


def test_half_precision_comes_back_as_such(pruned, tmp_path):
    _model, plan = pruned
    half = plan.apply(build()).half()
    triprune.save(half, plan, tmp_path, build=build)
    loaded = triprune.load(tmp_path, build=build)
    assert loaded.conv1.weight.dtype == torch.float16
    assert torch.equal(loaded.conv1.weight, half.conv1.weight)


def test_saving_over_a_folder_replaces_it(pruned, folder):
    _model, plan = pruned
    other = plan.apply(build())
    triprune.save(other, plan, folder)
    assert torch.equal(triprune.load(folder, build=build).conv1.weight, other.conv1.weight)


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_saving_over_a_folder_that_is_killed_leaves_no_mixture(pruned, folder, moves, monkeypatch):
    model, plan = triprune.prune(build(), Scale(width=0.7), example_input=X)
    move, left = Path.replace, [moves]

    def killed(path, target):
        left[0] -= 1
        if left[0] < 0:
            raise SystemExit
        return move(path, target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(SystemExit):
        triprune.save(model, plan, folder)
    monkeypatch.undo()
    told = r"plan\.json: there is no such file.*if saving was cut short, save the model again"
    with pytest.raises(FileFormatError, match=told):
        triprune.load(folder, build=build)
    triprune.save(model, plan, folder)
    assert torch.equal(triprune.load(folder, build=build).conv1.weight, model.conv1.weight)


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_disk_that_is_full_leaves_the_model_that_was_there(pruned, folder, writes, monkeypatch):
    model, plan = triprune.prune(build(), Scale(width=0.7), example_input=X)
    left = [writes]

    def full(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="nothing was changed"):
        triprune.save(model, plan, folder)
    monkeypatch.undo()
    assert torch.equal(triprune.load(folder, build=build).conv1.weight, pruned[0].conv1.weight)


def test_saving_finds_a_builder_that_does_not_fit(pruned, tmp_path):
    with pytest.raises(ArchitectureError, match="another architecture"):
        triprune.save(*pruned, tmp_path, build=lambda: triprune.build_model("resnet32"))


class Activated(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 2, 3)
        self.activation = activation

    def forward(self, x):
        return self.last(self.activation(self.first(x)))


def test_saving_compares_outputs_not_only_tensors(tmp_path):
    model, plan = triprune.prune(Activated(torch.relu), Scale(width=0.5), example_input=X)
    with pytest.raises(ArchitectureError, match="answers otherwise"):
        triprune.save(model, plan, tmp_path, build=lambda: Activated(torch.tanh))


def test_refuses_to_save_spoiled_weights(pruned, tmp_path):
    _model, plan = pruned
    spoiled = plan.apply(build())
    spoiled.bn1.weight.data[0] = float("inf")
    with pytest.raises(NonFiniteError, match=r"bn1\.weight holds NaN or infinity"):
        triprune.save(spoiled, plan, tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_refuses_to_load_spoiled_weights(unsummed):
    path = unsummed / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-4:] = struct.pack("<f", float("nan"))
    path.write_bytes(bytes(data))
    with pytest.raises(NonFiniteError):
        triprune.load(unsummed, build=build)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.5, 0.999])
def test_refuses_truncated_weights(folder, part):
    path = folder / "weights.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(TruncatedFileError, match="ends too early"):
        triprune.load(folder, build=build)


def test_refuses_a_truncated_plan(folder):
    path = folder / "plan.json"
    path.write_text(path.read_text()[:100])
    with pytest.raises(TruncatedFileError):
        triprune.load(folder, build=build)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ('"resolution_px":', '"resolution_px";', "it is not JSON"),
        ('"layers":', '"layerz":', r"the plan lacks \['layers'\]"),
        ('"version":1', '"version":0', "its version is 0"),
    ],
)
def test_a_damaged_plan_is_named_with_what_was_found_and_the_remedy(folder, old, new, found):
    path = folder / "plan.json"
    path.write_text(path.read_text().replace(old, new, 1))
    told = rf"reading .*small/plan\.json: {found}.*restore it from a copy, or save the model again"
    with pytest.raises(PlanError, match=told):
        triprune.load(folder, build=build)


@pytest.mark.parametrize("name", ["plan.json", "weights.safetensors"])
def test_refuses_a_missing_file(folder, name):
    (folder / name).unlink()
    with pytest.raises(FileFormatError, match="no such file"):
        triprune.load(folder, build=build)


def test_refuses_weights_of_another_cut(pruned, unsummed, tmp_path):
    model, plan = triprune.prune(build(), Scale(width=0.7), example_input=X)
    triprune.save(model, plan, tmp_path / "other")
    (unsummed / "weights.safetensors").write_bytes(
        (tmp_path / "other" / "weights.safetensors").read_bytes()
    )
    with pytest.raises(ArchitectureError, match=r"tensor|shape"):
        triprune.load(unsummed, build=build)


def test_refuses_a_builder_of_something_else(folder):
    with pytest.raises(InputError, match=r"build\(\) returned a dict"):
        triprune.load(folder, build=dict)


def packed(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<Q", 1 << 60) + b"{}",
        packed(b"not json"),
        packed([]),
        packed({"conv1.weight": 3}),
        packed(
            {"conv1.weight": {"dtype": "F32", "shape": [1 << 50], "data_offsets": [0, 4]}}, b"0000"
        ),
        packed({"conv1.weight": {"dtype": "XX", "shape": [1], "data_offsets": [0, 4]}}, b"0000"),
        packed({"conv1.weight": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}, b"0000"),
        packed({}),
        b"\x80\x04\x95pickle, perhaps, but never opened as one" * 3,
    ],
)
def test_hostile_weights_only_fail(unsummed, data):
    (unsummed / "weights.safetensors").write_bytes(data)
    with pytest.raises(TripruneError):
        triprune.load(unsummed, build=build)


@pytest.mark.parametrize(
    ("field", "name", "cut"),
    [
        ("layers", "../../etc/passwd", {"out": [0]}),
        ("layers", "__class__", {"out": [0]}),
        ("tensors", "__init__.__globals__", {"0": [0]}),
        ("placed", "forward", {"width": 4, "out": [0], "in": [0]}),
    ],
)
def test_a_plan_may_name_no_path_and_no_code(unsummed, field, name, cut):
    path = unsummed / "plan.json"
    document = json.loads(path.read_text())
    document[field][name] = cut
    path.write_text(json.dumps(document))
    with pytest.raises(PlanIndexError, match="nothing of that name"):
        triprune.load(unsummed, build=build)


def test_refuses_a_plan_that_is_no_text(folder):
    (folder / "plan.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="not text"):
        triprune.load(folder, build=build)


def test_refuses_a_folder_that_is_a_file(pruned, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made a folder"):
        triprune.save(*pruned, tmp_path / "file")


def test_state_that_is_no_tensor_is_refused(pruned, tmp_path):
    class Extra(nn.Conv2d):
        def get_extra_state(self):
            return {"a": 1}

        def set_extra_state(self, state):
            pass

    with pytest.raises(WeightsError, match="_extra_state is a dict"):
        triprune.save(Extra(3, 3, 1), pruned[1], tmp_path)
