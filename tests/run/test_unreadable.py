"""Images that cannot be read, left out or replaced during a run, are named in its result."""

import shutil

import pytest

from triprune import Reading, load_data
from triprune.run.artifacts import TrainedModel
from triprune.run.compress import compress
from triprune.run.store import Store


@pytest.fixture
def images(image_home, tmp_path):
    shutil.copytree(image_home, tmp_path / "images")
    return tmp_path / "images"


@pytest.fixture
def run(images, small, tmp_path):
    """Return a function that runs the small case on these images."""

    def go(watchers=(), out=tmp_path / "run", **reading):
        settings = small.settings(rounds=1, executor="inline", block_importance="output")
        data = load_data(images, Reading(**reading))
        given = {"settings": settings, "watchers": watchers, "out": out}
        return compress(small.make(), data, budget=0.5, **given).outcome.notes

    return go


class Tearing:
    """Tears a file once the first training is under way."""

    def __init__(self, file):
        self.file = file

    def on_step(self, training, *, epoch, done):
        self.file.write_bytes(b"torn")

    def on_epoch(self, training, record): ...

    def on_end(self, training, note): ...


@pytest.mark.parametrize("part", ["train", "val"])
def test_an_image_that_breaks_during_a_run_is_named(run, images, part):
    """The part ``val`` is the sealed test: a score that rests on a replaced image says so."""
    file = sorted((images / part).rglob("*.png"))[0]
    notes = run([Tearing(file)], in_memory=False)
    assert [note for note in notes if "replaced 1 unreadable image" in note and str(file) in note]


def test_what_broke_in_a_round_is_named_when_the_run_goes_on(run, images, tmp_path):
    file = sorted((images / "train").rglob("*.png"))[0]
    whole = file.read_bytes()
    run([Tearing(file)], in_memory=False)
    file.write_bytes(whole)
    shutil.rmtree(tmp_path / "run" / "budget-50")
    assert [note for note in run(in_memory=False) if str(file) in note]


@pytest.mark.parametrize("in_memory", [True, False])
def test_an_image_that_was_left_out_is_named(run, images, in_memory):
    homes = [sorted(home.iterdir()) for home in (images / "val").iterdir()]
    file = max(homes, key=len)[0]
    file.write_bytes(b"torn")
    notes = run(in_memory=in_memory, bad_images="drop")
    assert [note for note in notes if "left out 1 unreadable image" in note and str(file) in note]


def test_a_stored_model_without_notes_is_read(real_run):
    folder, _, _ = real_run
    values, tensors = Store(folder).read("chains/depth-1", TrainedModel).to_parts()
    del values["notes"]
    assert TrainedModel.from_parts(values, tensors).notes == ()
