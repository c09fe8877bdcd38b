"""A run in slices of time ends in the artifacts of a run in one go, to the last bit."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from triprune.core.scale import AXES
from triprune.errors import RunStoppedError
from triprune.learning.deadline import Deadline
from triprune.learning.turns import drive
from triprune.run.case import Case
from triprune.run.compress import checked_subject
from triprune.run.pipeline import Pipeline
from triprune.run.store import Store
from triprune.run.trainer import ImageTrainer


def artifacts(folder: Path) -> dict[str, bytes]:
    keep = {".json", ".safetensors"}
    names = ("outcome", "origin")  # these know the clock
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.suffix in keep and not path.name.startswith(names)
    }


def pipeline(small, folder: Path, seconds: float | None) -> Pipeline:
    parts, settings = small.splits(100), small.settings(rounds=1)
    deadline = None if seconds is None else Deadline(seconds)
    trainer = ImageTrainer(parts, settings.spent_recipe, "cpu", (), deadline)
    return Pipeline(
        Case(checked_subject(small.make(), trainer, settings), trainer, settings), Store(folder)
    )


def test_slices_end_in_the_artifacts_of_one_go(small, tmp_path):
    sliced, whole = tmp_path / "sliced", tmp_path / "whole"
    stops = 0
    while not list(sliced.glob("budget-50/outcome-*")):
        with suppress(RunStoppedError):
            pipeline(small, sliced, 0).run()
            stops -= 1
        stops += 1
        assert stops < 10
    # The survey, two epochs of each chain, the choice, two epochs of the end; then the measuring.
    assert stops == 6
    pipeline(small, whole, None).run()
    assert artifacts(sliced) == artifacts(whole)
    # Once it is fitted, a run no longer needs the weights of its rounds.
    for axis in AXES:
        (whole / "chains" / f"{axis}-1.safetensors").unlink()
    assert pipeline(small, whole, None).run(0.7).macs


@pytest.mark.parametrize(
    ("stored", "step"),
    [
        ("survey", "the three chains"),
        ("predictor", "choosing for 0.5, joint"),
        ("budget-50/joint", "the final fine-tunings"),
        ("budget-50/joint-seed-0", "measuring on the test images"),
    ],
)
def test_no_step_begins_after_the_time_is_up(small, tmp_path, monkeypatch, stored, step):
    """Epochs take no time here: only the clock between the steps can stop the run."""
    write = Store.write
    deadline = Deadline(3600)

    def late(self, key, artifact):
        write(self, key, artifact)
        if key == stored:
            monkeypatch.setattr(deadline, "_end", 0.0)

    monkeypatch.setattr(Store, "write", late)
    begun = pipeline(small, tmp_path, None)
    trainer = replace(begun.case.trainer, deadline=deadline)
    with pytest.raises(RunStoppedError, match=f"{step}: the time that was given is up"):
        replace(begun, case=replace(begun.case, trainer=trainer)).run()
    assert Store(tmp_path).has(stored)
    assert not list((tmp_path / "under-way").iterdir())
    monkeypatch.undo()
    assert pipeline(small, tmp_path, None).run().macs


def test_one_that_stops_lets_the_others_come_to_their_own_stop():
    done = []

    def work(turns: int, *, stops: bool):
        for _ in range(turns):
            yield
        done.append(turns)
        if stops:
            raise RunStoppedError("asked", "found", "remedy")

    with pytest.raises(RunStoppedError):
        drive([work(1, stops=True), work(5, stops=False), work(3, stops=True)])
    assert done == [1, 3, 5]
