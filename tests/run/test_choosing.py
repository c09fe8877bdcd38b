"""What a run chooses jointly: never held back by where its chains happened to end."""

import pytest

from triprune import build_model
from triprune.core.scale import AXES, Scale
from triprune.run.artifacts import Chosen
from triprune.run.compress import compress
from triprune.run.fake import FakeTrainer
from triprune.run.spec import Settings
from triprune.run.store import Store


@pytest.mark.parametrize("harmless", ["width", "resolution"])
def test_an_axis_that_costs_hardly_any_accuracy_takes_the_whole_budget(tmp_path, harmless):
    """At half of its macs a ResNet-20 has fewer channels and pixels than its chains end at."""

    def accuracy(scale: Scale) -> float:
        dear = [kept for axis, kept in zip(AXES, scale, strict=True) if axis != harmless]
        return 0.9 - 0.1 * sum(1 - kept for kept in dear) - 0.002 * (1 - getattr(scale, harmless))

    settings = Settings(0.5, rounds=3, device="cpu", controls=True)
    trainer = FakeTrainer(accuracy)
    compress(build_model("resnet20"), trainer, budget=0.5, settings=settings, out=tmp_path / "run")
    store = Store(tmp_path / "run")
    joint, alone = (
        store.read(f"budget-50/{spends}", Chosen).choice for spends in ("joint", harmless)
    )
    assert joint.scale == alone.scale
    assert alone.extrapolated == (harmless,)
