"""Disks that are full or closed, in the middle of real runs: named, and nothing is lost."""

import errno
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from triprune.errors import InputError, RunChangedError
from triprune.run.artifacts import Outcome
from triprune.run.case import Case
from triprune.run.pipeline import Pipeline
from triprune.run.progress import status
from triprune.run.store import Store
from triprune.run.subject import Subject
from triprune.run.trainer import ImageTrainer


@pytest.fixture(scope="module")
def run(small):
    """Return a function that runs the small case, for real, in a folder."""
    parts = small.splits(100)
    model = small.make()
    settings = small.settings(rounds=1)

    def go(folder):
        return small.compress(model, parts, budget=0.5, settings=settings, out=folder)

    return go


@pytest.fixture(scope="module")
def undisturbed(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    run(folder)
    return folder


def contents(folder):
    """Return every file but those in which a clock has a say."""
    told = [p for p in folder.rglob("*") if p.is_file() and p.name != "lock"]
    timed = ("outcome", "origin", "about")
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in told if not p.name.startswith(timed)
    }


def is_whole(folder):
    """Whether everything that is there can be read, and no half-written file is left."""
    status(folder)
    return not [p for p in folder.rglob(".*") if p.is_file()]


def test_a_disk_that_fills_again_and_again(run, undisturbed, tmp_path, monkeypatch):
    """The disk refuses the n-th file, at ever later points; each time the same call goes on."""
    fsync, left = os.fsync, [0]

    def refusing(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr("triprune.files.os.fsync", refusing)
    before: dict[str, bytes] = {}
    for writes in (3, 6, 11, 17):
        left[0] = writes
        with pytest.raises(InputError, match="No space left on device"):
            run(tmp_path)
        after = contents(tmp_path)
        kept = {name: data for name, data in before.items() if not name.startswith("under-way")}
        assert kept.items() <= after.items()
        assert is_whole(tmp_path)
        before = after
    monkeypatch.undo()
    assert status(tmp_path).state == "stopped"
    run(tmp_path)
    assert contents(tmp_path) == contents(undisturbed)


def test_a_disk_that_is_really_full_and_one_that_is_really_closed(run, undisturbed, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(*options: str) -> bool:
        command = ["mount", *options, "tmpfs", str(disk)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if not mount("-t", "tmpfs", "-o", "size=100k"):
        pytest.skip("mounting a small disk needs the right to")
    try:
        with pytest.raises(InputError, match="No space left on device"):
            run(disk / "run")
        assert is_whole(disk / "run")
        assert mount("-o", "remount,size=50m")
        run(disk / "run")
        assert contents(disk / "run") == contents(undisturbed)
        assert mount("-o", "remount,ro")
        for folder in (disk / "run", disk / "another"):
            with pytest.raises(InputError, match="Read-only file system"):
                run(folder)
        assert status(disk / "run").state == "finished"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_folder_that_takes_no_files(run, undisturbed, tmp_path, monkeypatch):
    """As root a folder cannot be closed by its permissions, so the system call refuses instead."""
    for name in ("open", "mkdir"):
        monkeypatch.setattr(f"pathlib.Path.{name}", refuse_writing(name))
    with pytest.raises(InputError, match=r"Read-only file system.*name another"):
        run(tmp_path / "new")
    before = contents(undisturbed)
    with pytest.raises(InputError, match=r"it takes no files \(Read-only file system\)"):
        run(undisturbed)
    assert status(undisturbed).state == "finished"
    assert contents(undisturbed) == before


def refuse_writing(name):
    plain = getattr(Path, name)

    def refuse(self, *arguments, **options):
        if name == "mkdir" or "a" in (arguments or "r")[0]:
            if name == "mkdir" and self.is_dir() and options.get("exist_ok"):
                return None
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return plain(self, *arguments, **options)

    return refuse


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("weights", "its weights changed: weights was [0-9a-f]+, is [0-9a-f]+"),
        ("architecture", "its model changed: model was"),
        ("data", "its data changed: data was"),
        ("rate", r"its settings changed: rate was 0\.05, is 0\.1"),
        ("seed", "its settings changed: seed was 0, is 1"),
        ("cost", "its settings changed: cost was macs, is paper"),
    ],
)
def test_what_was_changed_in_the_middle_of_a_run_is_named(
    small, undisturbed, change, told, tmp_path
):
    folder = tmp_path / "run"
    copytree(undisturbed, folder)
    for path in [*folder.glob("budget-50/*"), folder / "predictor.json"]:
        path.unlink()
    before = contents(folder)
    model, parts, settings = small.make(), small.splits(100), small.settings(rounds=1)
    if change == "weights":
        model.head.bias.data[3] += 1e-3
    elif change == "architecture":
        model = small.SmallResNet(channels=16)
    elif change == "data":
        parts.train.images[7, 0, 3, 3] ^= 1
    elif change == "rate":
        settings = replace(settings, recipe=replace(settings.recipe, rate=0.1))
    else:
        settings = replace(settings, **{change: 1 if change == "seed" else "paper"})
    with pytest.raises(RunChangedError, match=told) as caught:
        small.compress(model, parts, budget=0.5, settings=settings, out=folder)
    assert "nothing was changed" in str(caught.value)
    assert contents(folder) == before


def test_status_tells_the_state_of_every_budget(run, small, undisturbed, tmp_path):
    folder = tmp_path / "run"
    copytree(undisturbed, folder)
    found = status(folder)
    assert (found.state, found.rounds) == ("finished", {"depth": 1, "width": 1, "resolution": 1})
    assert found.planned == found.rounds
    settings = small.settings(rounds=1, controls=True, seeds=2)
    with pytest.raises(AssertionError, match="trained"):
        compress_until_the_end(small, settings, folder)
    found = status(folder)
    assert found.state == "stopped"
    one, four = sorted(found.budgets, key=lambda each: len(each.asked.spends))
    assert (one.state, four.state) == ("finished", "stopped")
    assert (one.finals, four.finals) == (1, 1)
    with Store(folder).locked():
        found = status(folder)
        assert found.state == "running"
        assert sorted(each.state for each in found.budgets) == ["finished", "running"]
    assert [type(each) for each in found.outcomes] == [Outcome]


def compress_until_the_end(small, settings, folder):
    """Run the small case with a trainer that fails in its first training."""

    class Failing(ImageTrainer):
        def fine_tune(self, task):
            raise AssertionError("trained")

    trainer = Failing(small.splits(100), settings.spent_recipe, settings.device)
    Pipeline(
        Case(Subject(small.make(), trainer.input_size), trainer, settings), Store(folder)
    ).run()
