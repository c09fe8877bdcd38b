"""The budget as a part of macs, params, latency or the paper's formula: one path for all."""

import pytest

from triprune.core.choice import quote
from triprune.core.scale import Scale
from triprune.errors import BudgetError, RunChangedError
from triprune.network.hardware import device_name
from triprune.network.latency import measure_latency
from triprune.network.profile import profile
from triprune.run.artifacts import Survey
from triprune.run.collected import read_collected
from triprune.run.compress import compress
from triprune.run.fake import FakeTrainer
from triprune.run.spec import Settings
from triprune.run.store import Store


def known_accuracy(scale: Scale) -> float:
    losses = (0.03, 0.06, 0.045)
    return 0.97 - sum(loss * (1 / kept - 1) for loss, kept in zip(losses, scale, strict=True))


@pytest.fixture(scope="module")
def shrunk(small, tmp_path_factory):
    """Return the original and, by cost, the folder and the result of a run with a fake trainer."""
    model = small.SmallResNet(channels=20, stride=1)  # its arithmetic outweighs the calls

    def run(cost: str, **changes):
        out = tmp_path_factory.mktemp(cost)
        settings = Settings(0.5, rounds=2, cost=cost, device="cpu", **changes)
        trainer = FakeTrainer(known_accuracy)
        return out, compress(model, trainer, budget=0.5, settings=settings, out=out)

    return model, run


def test_params_are_counted_and_do_not_cost_resolution(shrunk):
    model, run = shrunk
    out, result = run("params", controls=True)
    built, whole = (profile(m, 32).params for m in (result.model, model))
    assert 0.97 * 0.5 <= built / whole <= 0.5
    assert result.choice.cost == pytest.approx(built / whole)
    assert result.choice.scale.resolution == 1.0
    notes = result.outcome.notes
    assert "resolution is left out: it does not change the params" in notes
    assert any(n.startswith("budget 50.0% on resolution alone: at least 100.0%") for n in notes)
    assert [row.name for row in result.outcome.rows] == ["original", "joint", "depth", "width"]
    assert not list(out.glob("chains/resolution-*"))
    assert result.outcome.cost == "params"
    known, fitted, _ = read_collected(out)
    assert known.cost.flat_axes == ("resolution",)
    for each in quote(fitted.predictor, ["80%", "50%"], cost=known.cost):
        assert each.choice.scale.resolution == 1.0
        assert each.choice.cost == pytest.approx(each.budget)


def test_the_paper_s_formula_is_what_is_spent(shrunk):
    _, result = shrunk[1]("paper")
    d, w, r = result.choice.scale
    assert 0.97 * 0.5 <= d * w**2 * r**2 <= 0.5


@pytest.fixture(scope="module")
def by_latency(shrunk):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("triprune.network.latency._WARM_UP_S", 0.05)
        return shrunk[1]("latency")


@pytest.mark.alone
def test_choosing_by_latency_is_at_least_as_fast_as_choosing_by_macs(shrunk, by_latency):
    """At the same budget, timed in turns; a tenth is allowed for a busy machine."""
    chosen = {"latency": by_latency[1], "macs": shrunk[1]("macs")[1]}
    timed = measure_latency(
        {name: each.model for name, each in chosen.items()},
        {name: each.plan.resolution_px for name, each in chosen.items()},
        rounds=60,
        device="cpu",
    )
    assert timed["latency"].median_ms <= 1.1 * timed["macs"].median_ms


@pytest.mark.alone
def test_latency_is_timed_beside_the_original_and_the_device_is_named(shrunk, by_latency):
    model, _ = shrunk
    out, result = by_latency
    assert result.choice.cost <= 0.5
    assert result.choice.cost >= 0.7 * 0.5  # 97 % where the grid and a busy machine allow it
    known = Store(out).read("survey", Survey)
    assert known.cost(Scale(0.5, 0.7, 0.7)) < 0.9
    assert Store(out).facts()["device"] == device_name("cpu") == result.outcome.latency_device
    (note,) = (n for n in result.outcome.notes if n.startswith("latency of the joint model"))
    assert "timed again on this machine" in note
    settings = Settings(0.5, rounds=2, cost="macs", device="cpu")
    with pytest.raises(RunChangedError, match=r"its device changed: device was cpu \("):
        compress(model, FakeTrainer(known_accuracy), budget=0.5, settings=settings, out=out)


@pytest.mark.parametrize(
    ("cost", "told"), [("params", "of its params"), ("paper", "of its compute by d·w²·r²")]
)
def test_a_budget_out_of_reach_is_told_in_its_own_cost(shrunk, cost, told):
    settings = Settings(1e-8, cost=cost)
    with pytest.raises(BudgetError, match=told):
        compress(shrunk[0], FakeTrainer(known_accuracy), budget=1e-8, settings=settings)
