from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from triprune import Reading, load_data
from triprune.errors import DataError
from triprune.learning import loading
from triprune.learning.evaluation import evaluate, evaluate_final
from triprune.learning.images import ImageSet
from triprune.learning.job import Job
from triprune.learning.recipe import Recipe
from triprune.learning.streaming import StreamedSet
from triprune.learning.training import train

STREAMED = Reading(in_memory=False)
RECIPE = Recipe(epochs=2, batch_size=4, rate=0.05, precision="fp32")


@pytest.fixture
def three_classes(tmp_path):
    generator = np.random.default_rng(0)
    for part, count in (("train", 12), ("val", 4)):
        for label, name in enumerate(("red", "green", "blue")):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(count):
                pixels = generator.integers(0, 180, (8, 8, 3), dtype=np.uint8)
                pixels[:, :, label] += 75
                Image.fromarray(pixels).save(tmp_path / part / name / f"{number}.png")
    return tmp_path


def rows_of(images, batch=4):
    return [part.tolist() for part in torch.arange(len(images)).split(batch)]


def gathered(stream, **settings):
    parts = list(stream.batches(rows_of(stream), **settings))
    return torch.cat([images for images, _ in parts]), torch.cat([labels for _, labels in parts])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_gives_what_memory_holds(three_classes, workers):
    held, streamed = load_data(three_classes), load_data(three_classes, STREAMED)
    assert isinstance(held.train, ImageSet)
    assert isinstance(streamed.train, StreamedSet)
    stream = replace(streamed.train, workers=workers)
    images, labels = gathered(stream)
    assert torch.equal(images, held.train.images)
    assert torch.equal(labels, held.train.labels)
    assert streamed.train.mean == pytest.approx(held.train.mean)
    assert streamed.train.std == pytest.approx(held.train.std)
    assert streamed.train.classes == held.train.classes
    assert len(streamed.test) == len(held.test)
    smaller, _ = gathered(stream, resolution_px=5)
    assert (smaller.int() - held.train.at(5).images.int()).abs().max() <= 1


def test_training_on_a_stream_equals_training_in_memory(three_classes, tiny_net):
    held, streamed = load_data(three_classes), load_data(three_classes, STREAMED)
    results = [
        train(Job(tiny_net(), s.train, RECIPE, validation=s.validation, device="cpu"))
        for s in (held, streamed)
    ]
    first, second = (result.model.state_dict() for result in results)
    # Sampled statistics differ from counted ones in the last digits only.
    assert all(torch.allclose(first[name], second[name], atol=1e-5) for name in first)
    assert results[1].notes == ()
    model = results[0].model
    assert (
        evaluate(model, held.validation).accuracy == evaluate(model, streamed.validation).accuracy
    )
    final = [evaluate_final(model, s.test) for s in (held, streamed)]
    assert final[0].accuracy == final[1].accuracy
    assert (held.test.openings, streamed.test.openings) == (1, 1)


def test_a_file_torn_after_the_start_is_replaced_and_named(three_classes, tiny_net):
    splits = load_data(three_classes, STREAMED)
    victim = splits.train.source.files[5]
    victim.write_bytes(victim.read_bytes()[:60])
    result = train(Job(tiny_net(), splits.train, RECIPE, device="cpu"))
    assert result.finished
    assert len(result.notes) == 1
    assert "replaced 1 unreadable image" in result.notes[0]
    assert str(victim) in result.notes[0]
    images, labels = next(iter(splits.train.batches([[4, 5, 6]])))
    assert torch.equal(images[1], images[0])
    assert labels[1] == labels[0]


def test_a_last_batch_of_one_bad_image_does_not_end_a_run(three_classes):
    stream = load_data(three_classes, STREAMED).train
    stream.source.files[3].unlink()
    images, labels = next(iter(stream.batches([[3]])))
    assert images.sum() == 0
    assert len(labels) == 1
    assert "No such file" in stream.notes[0]


def test_a_disk_that_is_gone_is_said(three_classes):
    stream = load_data(three_classes, STREAMED).train
    for file in stream.source.files:
        file.unlink()
    with pytest.raises(DataError, match="not one of them can be read"):
        next(iter(stream.batches(rows_of(stream, 9))))


def test_parts_share_the_note_of_faults(three_classes):
    stream = load_data(three_classes, STREAMED).train
    part = stream.take(torch.tensor([7, 3]))
    assert part.labels.tolist() == stream.labels[[7, 3]].tolist()
    part.source.files[0].write_bytes(b"")
    list(part.batches([[0, 1]]))
    assert len(stream.notes) == 1


def spoil(folder):
    (folder / "train" / "red" / "0.png").write_bytes(b"")
    torn = folder / "val" / "blue" / "1.png"
    torn.write_bytes(torn.read_bytes()[:100])


def test_faults_are_found_before_a_run_starts(three_classes):
    spoil(three_classes)
    with pytest.raises(DataError, match="2 unreadable images"):
        load_data(three_classes, STREAMED)
    splits = load_data(three_classes, Reading(in_memory=False, bad_images="drop"))
    assert len(splits.left_out) == 2
    assert splits.notes[0].startswith("left out 2 unreadable images: ")
    validated = load_data(three_classes, Reading(bad_images="drop"), validation="test:6")
    assert [note.partition(" ")[0] for note in validated.notes] == ["validation:", "left"]
    assert len(splits.test) == 11
    assert len(splits.train) + len(splits.validation) == 35


def test_what_does_not_fit_is_streamed(three_classes, monkeypatch):
    images = 36 + 12
    wanted = images * 3 * 8 * 8
    monkeypatch.setattr(loading, "available_bytes", lambda _device: 2 * wanted + 2)
    assert isinstance(load_data(three_classes).train, ImageSet)
    monkeypatch.setattr(loading, "available_bytes", lambda _device: 2 * wanted)
    assert isinstance(load_data(three_classes).train, StreamedSet)
    assert isinstance(load_data(three_classes, Reading(in_memory=True)).train, ImageSet)


def test_streamed_images_are_square(tmp_path, picture):
    for part in ("train", "val"):
        for number in range(2):
            picture(tmp_path / part / "only" / f"{number}.png", height=6, width=9)
    with pytest.raises(DataError, match="they are not square"):
        load_data(tmp_path, STREAMED)
    splits = load_data(tmp_path, Reading(in_memory=False, resolution_px=5))
    assert gathered(splits.train)[0].shape == (1, 3, 5, 5)
