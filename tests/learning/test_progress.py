import io
from dataclasses import replace

import pytest

from triprune.learning.job import Job
from triprune.learning.progress import (
    EpochRecord,
    LiveBars,
    PlainLines,
    TensorBoard,
    Watchers,
    clock,
    terminal_watcher,
)
from triprune.learning.recipe import Recipe
from triprune.learning.training import train

RECORD = EpochRecord(
    epoch=2,
    epochs=10,
    rate=0.1,
    loss=1.25,
    train_accuracy=0.5,
    accuracy=0.625,
    seconds=90,
    images_per_second=1234.5,
)


def test_a_line_says_all():
    assert RECORD.line() == (
        "epoch 2/10  rate 0.1  loss 1.2500  accuracy 62.50%  1,234 images/s  12:00 left"
    )
    assert "accuracy" not in replace(RECORD, accuracy=None).line()


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (61, "1:01"), (3723, "1:02:03")])
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_plain_lines_where_there_is_no_terminal(tiny_net, coloured_images):
    assert isinstance(terminal_watcher(), PlainLines)
    text = io.StringIO()
    recipe = Recipe(epochs=2, batch_size=16, rate=0.05)
    train(Job(tiny_net(), coloured_images(), recipe, name="net"), watchers=[PlainLines(text)])
    lines = text.getvalue().splitlines()
    assert [line[:14] for line in lines] == ["net: epoch 1/2", "net: epoch 2/2", "net: finished "]


def test_steps_are_passed_on_to_those_who_ask_and_not_too_often():
    class Fine:
        heard = 0

        def on_epoch(self, training, record): ...
        def on_end(self, training, note): ...
        def on_step(self, training, *, epoch, done):
            self.heard += 1

    fine = Fine()
    watchers = Watchers([fine, PlainLines(io.StringIO())])
    for done in range(1000):
        watchers.on_step("net", epoch=1, done=done / 1000)
    assert 1 <= fine.heard < 100


def test_live_bars_follow_several_trainings(monkeypatch):
    from rich.console import Console

    text = io.StringIO()
    bars = LiveBars()
    bars._progress.live.console = Console(file=text, force_terminal=True, width=120)
    for name in ("one", "two"):
        bars.on_step(name, epoch=1, done=0.5)
        bars.on_epoch(name, RECORD)
    assert bars._progress.live.is_started
    bars.on_end("one", "finished after epoch 10")
    assert bars._progress.live.is_started
    bars.on_end("two", "failed: no")
    assert not bars._progress.live.is_started
    assert "finished after epoch 10" in text.getvalue()
    assert "failed: no" in text.getvalue()


def test_tensorboard_holds_every_epoch(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = TensorBoard(tmp_path)
    board.on_epoch("net", replace(RECORD, epoch=1, loss=2.0))
    board.on_epoch("net", RECORD)
    board.on_end("net", "finished")
    events = loader.EventAccumulator(str(tmp_path / "net"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 2.0), (2, 1.25)]
    assert [event.value for event in events.Scalars("accuracy")] == [0.625, 0.625]
