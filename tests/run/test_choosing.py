"""What a run chooses jointly: never held back by where its chains happened to end."""

from typing import ClassVar

import pytest

from triprune import build_model
from triprune.core.scale import AXES, Scale
from triprune.run.artifacts import Chosen, TrainedModel
from triprune.run.collected import read_collected
from triprune.run.compress import compress
from triprune.run.fake import FakeTrainer
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

    settings = Settings(0.5, rounds=3, device="cpu", controls=True)
    Remembering.finals.clear()
    trainer = Remembering(accuracy)
    model = build_model("resnet20")
    result = compress(model, trainer, budget=0.5, settings=settings, out=tmp_path / "run")
    store = Store(tmp_path / "run")
    joint, alone = (
        store.read(f"budget-50/{spends}", Chosen).choice for spends in ("joint", harmless)
    )
    assert joint.scale == alone.scale
    least = dict(zip(AXES, read_collected(tmp_path / "run")[1].predictor.observed, strict=True))
    assert getattr(alone.scale, harmless) < least[harmless]
    finals = {
        spends: store.read(f"budget-50/{spends}-seed-0", TrainedModel)
        for spends in ("joint", harmless)
    }
    assert finals["joint"].plan == finals[harmless].plan
    assert result.outcome.row("joint").accuracies == result.outcome.row(harmless).accuracies
    others = {"joint", *AXES} - {harmless}
    assert sorted(trainer.finals) == sorted(f"{spends}, seed 0" for spends in others)
    assert result.outcome.epochs == 9 + 3  # one a round and at the end
    told = f"the joint choice is {harmless} alone: both rows are the same model"
    assert told in result.outcome.notes
    beyond = [note for note in result.outcome.notes if "nothing was observed below" in note]
    assert len(beyond) == (harmless == "resolution")  # 21 px after 23; of width, only a rounding
