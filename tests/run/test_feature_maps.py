import pytest
import torch
from torch import nn

from triprune.learning.images import ImageSet
from triprune.run.feature_maps import FeatureMaps, feature_maps
from triprune.run.store import Store
from triprune.run.trainer import Task


class Brightness(nn.Module):
    """Its last convolution copies the image; a convolution on one pixel comes after it."""

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.copy = nn.Conv2d(1, 2, 1, bias=False)
        self.head = nn.Conv2d(2, 3, 1)
        nn.init.constant_(self.copy.weight, gain)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.copy(x).mean((2, 3), keepdim=True)).flatten(1)


@pytest.fixture
def images():
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (20, 1, 8, 8), generator=generator, dtype=torch.uint8)
    return ImageSet(pixels, torch.arange(20) % 3, ("a", "b", "<c>"), (0.0,), (1.0,))


def test_the_maps_are_the_mean_absolute_value_over_channels(images):
    tasks = {
        "original": Task("original", Brightness(), 8),
        "minus": Task("minus", Brightness(-2.0), 8),
        "smaller": Task("smaller", Brightness(), 4),
    }
    found = feature_maps(tasks, images)
    assert found.labels == ("a", "b", "<c>")
    assert torch.allclose(found.maps["original"], found.images[:, 0] / 255)
    assert torch.allclose(found.maps["minus"], 2 * found.maps["original"])
    assert found.maps["smaller"].shape == (3, 4, 4)
    assert found.likeness["original"] == pytest.approx(1.0)
    assert found.likeness["minus"] == pytest.approx(1.0)
    assert 0.1 < found.likeness["smaller"] < 0.95
    assert found.compared == 20


class Streamed:
    """The same images, as if they were read from a disk."""

    notes = ()

    def __init__(self, images):
        self._held = images
        self.classes, self.mean, self.std = images.classes, images.mean, images.std
        self.resolution_px = images.resolution_px

    def __len__(self):
        return len(self._held)

    def take(self, indices):
        return Streamed(self._held.take(indices))

    def batches(self, rows, *, resolution_px):
        sized = self._held.at(resolution_px)
        for row in rows:
            yield sized.images[row], sized.labels[row]


def test_streamed_images_give_the_same_maps(images):
    tasks = {name: Task(name, Brightness(), px) for name, px in (("original", 8), ("joint", 4))}
    held, streamed = feature_maps(tasks, images), feature_maps(tasks, Streamed(images))
    assert streamed.labels == held.labels
    assert torch.equal(streamed.images, held.images)
    assert streamed.likeness == held.likeness


def test_maps_are_stored_in_order(images, tmp_path):
    tasks = {name: Task(name, Brightness(), 8) for name in ("original", "joint", "depth")}
    found = feature_maps(tasks, images)
    store = Store(tmp_path)
    store.write("maps", found)
    read = store.read("maps", FeatureMaps)
    assert list(read.maps) == ["original", "joint", "depth"]
    assert torch.equal(read.images, found.images)
    assert read.labels == found.labels


def test_a_run_keeps_maps_epochs_layers_and_its_origin(real_run):
    from triprune.run.artifacts import Survey, TrainedModel
    from triprune.run.origin import Origin

    folder, model, _ = real_run
    store = Store(folder)
    maps = store.read("budget-50/feature-maps-4", FeatureMaps)
    assert list(maps.maps) == ["original", "joint", "depth", "width", "resolution"]
    assert len(maps.labels) == 6
    round_one = store.read("chains/depth-1", TrainedModel, with_tensors=False)
    assert [epoch.accuracy for epoch in round_one.history][-1] == round_one.accuracy
    assert len(round_one.history) == round_one.epochs == 2
    assert round_one.tensors == {}
    layers = store.read("survey", Survey).layers
    assert layers == {
        n: m.out_channels for n, m in model.named_modules() if hasattr(m, "kernel_size")
    }
    origin = store.read("budget-50/origin", Origin)
    assert origin.versions["torch"].startswith(torch.__version__.split("+")[0])
    assert origin.hardware["cores"].isdigit()
