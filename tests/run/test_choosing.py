"""What a run chooses jointly: never held back by where its chains happened to end."""

from typing import Any, ClassVar

import pytest
import torch

from triprune import build_model
from triprune.core.cost import paper_cost
from triprune.core.scale import AXES, Scale
from triprune.run.artifacts import Chosen, TrainedModel
from triprune.run.collected import read_collected
from triprune.run.compress import compress
from triprune.run.costing import Meter
from triprune.run.fake import FakeTrainer
from triprune.run.result import Result
from triprune.run.spec import Settings
from triprune.run.store import Store


class Remembering(FakeTrainer):
    """Remembers what it was given to train at the end."""

    finals: ClassVar[list[str]] = []

    def fine_tune(self, task):
        if task.final:
            self.finals.append(task.name)
        return super().fine_tune(task)


@pytest.mark.parametrize("harmless", ["width", "resolution"])
def test_an_axis_that_costs_hardly_any_accuracy_takes_the_whole_budget(tmp_path, harmless):
    """At half of its macs a ResNet-20 has fewer channels and pixels than its chains end at."""

    def accuracy(scale: Scale) -> float:
        dear = [kept for axis, kept in zip(AXES, scale, strict=True) if axis != harmless]
        return 0.9 - 0.1 * sum(1 - kept for kept in dear) - 0.002 * (1 - getattr(scale, harmless))

    Remembering.finals.clear()
    trainer = Remembering(accuracy)
    model = build_model("resnet20")

    def run(**more: Any) -> Result:
        settings = Settings(0.5, rounds=3, device="cpu", **more)
        return compress(model, trainer, budget=0.5, settings=settings, out=tmp_path / "run")

    told = f"the joint choice is {harmless} alone"
    assert told in run().outcome.notes
    result = run(controls=True, seeds=2)
    store = Store(tmp_path / "run")
    joint, alone = (
        store.read(f"budget-50/{spends}", Chosen).choice for spends in ("joint", harmless)
    )
    assert joint.scale == alone.scale
    least = dict(zip(AXES, read_collected(tmp_path / "run")[1].predictor.observed, strict=True))
    assert getattr(alone.scale, harmless) < least[harmless]
    others = {"joint", *AXES} - {harmless}
    assert sorted(trainer.finals) == sorted(f"{a}, seed {seed}" for a in others for seed in (0, 1))
    for seed in (0, 1):
        theirs, ours = (
            store.read(f"budget-50/{spends}-seed-{seed}", TrainedModel)
            for spends in ("joint", harmless)
        )
        assert theirs.plan == ours.plan
        assert all(torch.equal(theirs.tensors[name], ours.tensors[name]) for name in ours.tensors)
    assert result.outcome.row("joint").accuracies == result.outcome.row(harmless).accuracies
    assert result.outcome.epochs == 9 + 3 * 2  # one a round, and one a seed at the end
    assert told in result.outcome.notes
    beyond = [note for note in result.outcome.notes if "nothing was observed below" in note]
    assert len(beyond) == (harmless == "resolution")  # 21 px after 23; of width, only a rounding


def test_a_latency_is_timed_once_for_all_choices(tmp_path, monkeypatch):
    """Timings waver: of the same scale, two would not be equal, and one is enough."""
    timed: list[Scale] = []

    def wavering(meter: Meter, scale: Scale) -> float:
        if meter.rounds < 40:
            return paper_cost(scale)  # the sketch that the cost is fitted to
        timed.append(scale)
        return paper_cost(scale) * (1 + len(timed) % 3 / 99)

    monkeypatch.setattr(Meter, "_timed", wavering)
    settings = Settings(0.5, rounds=2, device="cpu", controls=True, cost="latency")
    trainer = FakeTrainer(lambda scale: 0.5 + 0.1 * scale.depth + 0.2 * scale.width)
    compress(build_model("resnet20"), trainer, budget=0.5, settings=settings, out=tmp_path / "run")
    assert len(timed) == len(set(timed)) > 3
