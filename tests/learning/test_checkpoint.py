from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from triprune.errors import FileFormatError, InputError
from triprune.learning import precision
from triprune.learning.checkpoint import TrainingState, read_state, write_state
from triprune.learning.job import Job
from triprune.learning.recipe import Recipe
from triprune.learning.training import train


def test_state_survives_the_disk(tmp_path):
    last = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    state = TrainingState({"a": last, "b": torch.tensor(3)}, {"seed": 1, "history": [{"x": 0.1}]})
    path = write_state(tmp_path / "s.safetensors", state)
    again = read_state(path)
    assert again.facts == state.facts
    assert torch.equal(again.tensors["a"], last)
    assert int(again.tensors["b"]) == 3
    assert [file.name for file in tmp_path.iterdir()] == ["s.safetensors"]


def test_files_that_are_no_training(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(InputError, match="no such file"):
        read_state(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(FileFormatError, match="damaged"):
        read_state(path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(FileFormatError, match="not a triprune training"):
        read_state(path)


def test_every_cut_of_a_checkpoint_is_refused(tmp_path):
    path = write_state(tmp_path / "s.safetensors", TrainingState({"a": torch.ones(9)}, {}))
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(FileFormatError, match="damaged"):
            read_state(path)


def test_every_flipped_bit_of_a_checkpoint_is_found(tmp_path):
    path = write_state(tmp_path / "s.safetensors", TrainingState({"a": torch.ones(9)}, {"b": 1}))
    content = path.read_bytes()
    for place in range(len(content)):
        spoiled = bytearray(content)
        spoiled[place] ^= 1 << place % 8
        path.write_bytes(spoiled)
        with pytest.raises(FileFormatError):
            read_state(path)


def test_another_model_is_refused(tiny_net, coloured_images, tmp_path):
    path, recipe = tmp_path / "s.safetensors", Recipe(epochs=2, batch_size=16, rate=0.01)
    train(Job(tiny_net(), coloured_images(), recipe, checkpoint=path), stop=lambda _: True)
    other = tiny_net()
    other.head = torch.nn.Linear(8, 4)
    with pytest.raises(InputError, match=r"another model \(4 tensors differ, model/head.bias"):
        train(Job(other, coloured_images(), recipe, checkpoint=path))


@pytest.mark.parametrize("begun_by_bf16", [True, False])
def test_auto_goes_on_as_it_was_begun_on_another_processor(
    tiny_net, coloured_images, tmp_path, monkeypatch, begun_by_bf16
):
    def goes(name, first, then):
        job = Job(net(), images, recipe, checkpoint=tmp_path / name, device="cpu")
        for able, stop in ((first, lambda _: True), (then, None)):
            monkeypatch.setattr(precision, "multiplies_bf16", lambda able=able: able)
            trained = train(replace(job, model=net()), stop=stop)
        return trained.model.state_dict()

    def net():
        torch.manual_seed(0)
        return tiny_net()

    images, recipe = coloured_images(), Recipe(epochs=2, batch_size=16, rate=0.01)
    moved = goes("moved", begun_by_bf16, not begun_by_bf16)
    stayed = goes("stayed", begun_by_bf16, begun_by_bf16)
    assert all(torch.equal(moved[name], stayed[name]) for name in stayed)
