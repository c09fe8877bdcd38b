import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path

import pytest
import torch

from triprune.core.scale import AXES, Scale
from triprune.errors import (
    ArchitectureError,
    ArtifactError,
    BudgetError,
    InputError,
    RunChangedError,
    TrainingError,
)
from triprune.learning.zoo.densenet import CifarDenseNet
from triprune.run.artifacts import TrainedModel
from triprune.run.block_worth import scores_of_blocks
from triprune.run.case import Case
from triprune.run.compress import compress
from triprune.run.fake import FakeTrainer
from triprune.run.own_training import OwnTraining
from triprune.run.pipeline import Pipeline
from triprune.run.progress import status
from triprune.run.spec import Settings
from triprune.run.steps import survey
from triprune.run.store import Store
from triprune.run.subject import Subject
from triprune.run.trainer import ImageTrainer


def known_accuracy(scale: Scale) -> float:
    return (
        0.97
        - 0.030 * (1 / scale.depth - 1)
        - 0.060 * (1 / scale.width - 1)
        - 0.045 * (1 / scale.resolution - 1)
    )


def counted(scale: Scale) -> int:
    """Return by hand the macs of a SmallResNet of 32 channels at full stride, from 32 px."""
    blocks, channels, side = (round(whole * x) for whole, x in zip((4, 32, 32), scale, strict=True))
    return side**2 * (27 * channels + blocks * 18 * channels**2) + 10 * channels


@pytest.mark.parametrize("budget", [0.6, 0.35])
def test_a_known_optimum_is_found(small, budget):
    model = small.SmallResNet(channels=32, stride=1)
    result = compress(model, FakeTrainer(known_accuracy), budget=budget)
    sides = [n / 4 for n in range(1, 5)], *[[n / 32 for n in range(8, 33)]] * 2
    costs = {Scale(*point): counted(Scale(*point)) / counted(Scale()) for point in product(*sides)}
    used = [scale for scale, cost in costs.items() if 0.97 * budget <= cost <= budget]
    best = max(used, key=known_accuracy)
    assert result.macs == counted(result.choice.scale)
    assert 0.97 * budget <= result.macs / counted(Scale()) <= budget
    assert result.accuracy == known_accuracy(result.choice.scale)
    assert result.accuracy > known_accuracy(best) - 5e-4
    assert max(abs(a - b) for a, b in zip(result.choice.scale, best, strict=True)) < 0.1


def test_chains_may_go_on_below_the_budget(small, tmp_path):
    model = small.SmallResNet(channels=32, stride=1)
    ended = {}
    for chains_to in (None, "35%"):
        out = tmp_path / f"{chains_to}"
        settings = Settings("60%", chains_to=chains_to, device="cpu")
        result = compress(
            model, FakeTrainer(known_accuracy), budget="60%", settings=settings, out=out
        )
        store = Store(out)
        assert 0.97 * 0.6 <= result.macs / counted(Scale()) <= 0.6
        last = {axis: store.keys(f"chains/{axis}-*")[-1] for axis in AXES}
        kept = [store.read(key, TrainedModel).plan.realised for key in last.values()]
        ended[chains_to] = [min(scale) for scale in kept]
        told = status(out)
        assert told.rounds == told.planned
    # In whole blocks, channels and pixels of a network of 4, 32 and 32.
    assert ended[None] == pytest.approx([0.5, 0.6**0.5, 0.6**0.5], abs=0.02)
    assert ended["35%"] == pytest.approx([0.25, 0.35**0.5, 0.35**0.5], abs=0.02)
    other = replace(settings, chains_to=0.4)
    with pytest.raises(RunChangedError, match=r"chains_to was 0\.35"):
        compress(model, FakeTrainer(known_accuracy), budget="60%", settings=other, out=out)
    with pytest.raises(
        InputError, match=r"chains to 0\.35 for a budget of 0\.3: the choice would lie"
    ):
        compress(model, Unused(), budget="30%", settings=settings)


def test_real_training_end_to_end(real_run, small):
    _, model, result = real_run
    names = [row.name for row in result.outcome.rows]
    assert names == ["original", "joint", *AXES]
    original, joint = result.outcome.row("original"), result.outcome.row("joint")
    assert 0.97 * 0.5 <= joint.macs / original.macs <= 0.5
    assert len(joint.accuracies) == 2
    assert joint.spread is not None
    assert all(row.macs <= 0.5 * original.macs for row in result.outcome.rows[1:])
    assert all(row.latency_ms > 0 for row in result.outcome.rows)
    assert result.outcome.epochs == 2 * 6 + 2 * 2 * 4
    assert result.plan.apply(model).state_dict().keys() == result.model.state_dict().keys()


def test_the_result_is_saved_and_loaded(real_run, small, tmp_path):
    from triprune.saving import load

    _, _, result = real_run
    loaded = load(result.save(tmp_path / "small"), build=small.make)
    images = torch.rand(2, 3, result.plan.resolution_px, result.plan.resolution_px)
    assert torch.equal(loaded.eval()(images), result.model(images))


def test_a_stored_result_needs_no_weights_but_the_joints(real_run, small, tmp_path):
    folder, model, result = real_run
    run = Path(shutil.copytree(folder, tmp_path / "run"))
    for weights in run.rglob("*.safetensors"):
        if not weights.name.startswith(("joint-seed-0", "sample")):
            weights.unlink()
    settings = small.settings(controls=True, seeds=2, executor="inline")
    trainer = ImageTrainer(small.splits(), settings.spent_recipe)
    case = Case(Subject(model, trainer.input_size), trainer, settings)
    pipeline = Pipeline(case, Store(run))
    stored = pipeline.stored_result(0.5)
    assert stored.outcome == result.outcome
    for name, tensor in stored.model.state_dict().items():
        assert torch.equal(tensor, result.model.state_dict()[name]), name
    with pytest.raises(ArtifactError, match=r"budget-60.joint.json: No such file"):
        pipeline.stored_result(0.6)


def test_a_result_and_its_plan_are_told_in_a_line(real_run):
    _, _, result = real_run
    assert len(repr(result)) < 200
    assert f"macs={result.macs:,}" in repr(result)
    assert f"accuracy={result.accuracy:.4g}" in repr(result)
    assert "Scale(depth=" in repr(result)


@dataclass(frozen=True, slots=True)
class Spoiling(FakeTrainer):
    """Trains one final model to NaN without a word."""

    def fine_tune(self, task):
        if task.final:
            task.model.stem.weight.data[0] = float("nan")
        return (yield from FakeTrainer.fine_tune(self, task))


def test_a_model_that_came_out_undefined_is_not_stored(small, tmp_path):
    for _ in "twice":  # nothing of it is kept that the same call would stumble over
        with pytest.raises(TrainingError, match=r"joint, seed 0.*stem\.weight holds NaN.*rate"):
            compress(small.make(), Spoiling(known_accuracy), budget=0.5, out=tmp_path)
    assert not list(tmp_path.glob("budget-50/joint-seed-0*"))
    compress(small.make(), FakeTrainer(known_accuracy), budget=0.5, out=tmp_path)


def test_each_round_is_cut_from_the_round_before(real_run):
    from triprune.run.artifacts import TrainedModel
    from triprune.run.store import Store

    store = Store(real_run[0])
    for axis in AXES:
        first, second = (store.read(f"chains/{axis}-{n}", TrainedModel) for n in (1, 2))
        assert getattr(second.plan.realised, axis) < getattr(first.plan.realised, axis) < 1.0
        assert set(first.plan.removed_blocks) <= set(second.plan.removed_blocks)
        for name, cut in first.plan.cuts.layers.items():
            if cut.out is not None:
                assert set(second.plan.cuts.layers[name].out) <= set(cut.out)


def test_a_finished_run_is_not_trained_again_and_side_by_side_is_the_same(real_run, small):
    folder, model, result = real_run
    before = {path: path.read_bytes() for path in folder.rglob("*.json")}
    settings = small.settings(controls=True, seeds=2, executor="side-by-side")
    again = compress(model, small.splits(), budget=0.5, settings=settings, out=folder)
    assert again.outcome == result.outcome
    assert {path: path.read_bytes() for path in folder.rglob("*.json")} == before


def test_executors_give_the_same_bits(small, tmp_path):
    parts, outcomes = small.splits(100), []
    for executor in ("inline", "side-by-side"):
        settings = small.settings(rounds=1, executor=executor)
        out = tmp_path / executor
        compress(small.make(), parts, budget=0.5, settings=settings, out=out)
        files = sorted(out.rglob("*.safetensors"))
        outcomes.append([(path.relative_to(out), path.read_bytes()) for path in files])
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0]) == 6  # three rounds, the final model, its feature maps, the sample


def test_a_run_that_distils_learns_from_the_original(small, tmp_path):
    parts, model = small.splits(100), small.make()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    losses = []
    for weight in (0.0, 0.9):
        recipe = replace(small.RECIPE, distillation=weight, final_rate=0.02)
        settings = small.settings(rounds=1, recipe=recipe)
        folder = tmp_path / f"{weight}"
        compress(model, parts, budget=0.5, settings=settings, out=folder)
        losses.append(Store(folder).read("chains/resolution-1", TrainedModel).history[0].loss)
    assert losses[0] != losses[1]
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in before.items())


def test_blocks_go_by_probes_or_by_the_change_of_the_output(small):
    parts, model = small.splits(100), small.make()

    def scored(by: str) -> dict[str, float]:
        settings = small.settings(block_importance=by)
        trainer = ImageTrainer(parts, settings.spent_recipe, "cpu")
        return survey(Case(Subject(model, trainer.input_size), trainer, settings)).block_scores

    scores = {by: scored(by) for by in ("probe", "output")}
    assert scores["probe"].keys() == scores["output"].keys()
    assert scores["probe"] != scores["output"]
    with torch.no_grad():
        model.blocks[2].bn2.weight.zero_()
        model.blocks[2].bn2.bias.zero_()  # a block that does nothing
    changed = scored("output")
    assert min(changed, key=changed.__getitem__) == "blocks.2"
    with pytest.raises(InputError, match="block_importance"):
        small.settings(block_importance="taste")


def test_a_finished_chain_is_no_longer_asked_for_its_weights(small, tmp_path):
    settings = small.settings(rounds=2)
    asked = {"budget": 0.5, "settings": settings, "out": tmp_path}
    compress(small.make(), small.splits(100), **asked)
    before = (tmp_path / "predictor.json").read_bytes()
    for axis in AXES:
        (tmp_path / f"chains/{axis}-1.safetensors").unlink()
    (tmp_path / "predictor.json").unlink()
    compress(small.make(), small.splits(100), **asked)
    assert (tmp_path / "predictor.json").read_bytes() == before
    (tmp_path / "predictor.json").unlink()
    (tmp_path / "chains/depth-2.json").unlink()
    with pytest.raises(ArtifactError, match="depth-1"):
        compress(small.make(), small.splits(100), **asked)


def test_a_chain_of_another_architecture_is_refused(small, real_run, tmp_path):
    others = small.SmallResNet(channels=8)
    asked = {"budget": 0.5, "settings": small.settings(), "out": tmp_path}
    compress(others, small.splits(100), **asked)
    (tmp_path / "predictor.json").unlink()
    for path in (real_run[0] / "chains").glob("*.json"):
        shutil.copy(path, tmp_path / "chains")
    with pytest.raises(ArchitectureError, match="another architecture"):
        compress(others, small.splits(100), **asked)


@dataclass(frozen=True, slots=True)
class Probed(FakeTrainer):
    """Probes that found what each block adds."""

    gains: Mapping[str, float] = field(default_factory=dict)

    def block_scores(self, model, blocks):
        return {name: self.gains[name] for name in blocks}


def scored_for_cost(model, gains, *, cost="macs"):
    trainer = Probed(known_accuracy, gains=gains)
    settings = Settings(0.5, rounds=1, cost=cost, block_importance="probe_per_cost")
    case = Case(Subject(model, trainer.input_size), trainer, settings)
    return scores_of_blocks(case, case.subject.blocks())


def test_a_dense_layer_costs_what_it_takes_from_all_that_follow():
    subject = Subject(CifarDenseNet(10), (3, 32, 32))
    freed = subject.freed(subject.blocks())
    # Two layers a block, 12 channels each, from 16 channels at 32 px, 40 at 16, 64 at 8.
    macs = [1024 * 12 * (28 * 9 + 40), 256 * 12 * (52 * 9 + 64), 12 * (64 * 76 * 9 + 10)]
    assert [found for found, _ in freed.values()] == [each for each in macs for _ in range(2)]


def test_blocks_go_by_what_they_give_for_what_they_cost():
    model = CifarDenseNet(10)
    names = [f"stages.block{stage}.{layer}" for stage in (1, 2, 3) for layer in (0, 1)]
    by_macs = scored_for_cost(model, dict.fromkeys(names, 0.01))
    assert sorted(by_macs, key=by_macs.__getitem__) == names  # the early layers are the dearest
    by_params = scored_for_cost(model, dict.fromkeys(names, 0.01), cost="params")
    assert sorted(by_params, key=by_params.__getitem__) == [*names[4:], *names[2:4], *names[:2]]
    harm = scored_for_cost(model, {**dict.fromkeys(names, 0.01), names[0]: -0.01, names[5]: -0.01})
    assert sorted(harm, key=harm.__getitem__)[:2] == [names[0], names[5]]
    idle = scored_for_cost(model, dict.fromkeys(names, 0.0))
    assert sorted(idle, key=idle.__getitem__) == names


def test_the_only_dense_layer_costs_what_it_has_itself():
    model = CifarDenseNet(7)
    model.stages = torch.nn.Sequential(model.stages.block1)
    model.bn, model.linear = torch.nn.BatchNorm2d(28), torch.nn.Linear(28, 10)
    assert scored_for_cost(model, {"stages.0.0": 0.01}) == {"stages.0.0": pytest.approx(0.01)}


def test_residual_blocks_of_one_price_go_as_the_probes_say(small):
    model = small.SmallResNet(channels=8)
    names = Subject(model, (3, 32, 32)).blocks().names
    gains = dict(zip(names, (0.03, 0.01, 0.02, 0.04), strict=False))
    assert scored_for_cost(model, gains) == pytest.approx(gains)


def test_a_changed_model_data_or_setting_is_refused(real_run, small):
    folder, model, _ = real_run
    parts = small.splits()
    with pytest.raises(RunChangedError, match="its weights changed"):
        compress(small.make(), parts, budget=0.5, settings=small.settings(), out=folder)
    with pytest.raises(RunChangedError, match="its data changed"):
        compress(model, small.splits(100), budget=0.5, settings=small.settings(), out=folder)
    with pytest.raises(RunChangedError, match=r"budget was 0\.5, is 0\.4"):
        compress(model, parts, budget=0.4, settings=small.settings(), out=folder)


def test_a_network_without_removable_blocks_leaves_depth_out(small):
    plain = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    )
    settings = Settings(0.5, rounds=2, controls=True)
    result = compress(plain, FakeTrainer(known_accuracy), budget=0.5, settings=settings)
    assert result.choice.scale.depth == 1.0
    assert "depth is left out: no block can go" in result.outcome.notes
    assert any("depth alone" in note for note in result.outcome.notes)
    assert [row.name for row in result.outcome.rows] == ["original", "joint", *AXES[1:]]


def test_a_network_that_only_resolution_can_shrink():
    single = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    result = compress(single, FakeTrainer(known_accuracy), budget=0.5)
    assert result.choice.scale.cut_axes() == ("resolution",)
    assert any(note.startswith("width is left out: ") for note in result.outcome.notes)


def test_a_score_that_is_counted_on_few_images_is_known_the_less(small):
    """The trainer answers without noise; that it counts on 500 images must show all the same."""
    exact, counted = (
        compress(small.make(), FakeTrainer(known_accuracy, judges=judges), budget=0.5)
        for judges in (None, 500)
    )
    assert counted.choice.scale == exact.choice.scale
    low, high = counted.choice.interval
    assert high - low > 0.01
    assert high - low > exact.choice.interval[1] - exact.choice.interval[0]


class Unused:
    """Stands where a trainer must not be asked to train."""

    input_size = (3, 32, 32)

    def facts(self):
        return {}

    def block_scores(self, model, blocks):
        return None

    def fine_tune(self, task):
        raise AssertionError("trained")

    validate = test = epochs = fine_tune


def test_bad_input_is_caught_before_any_training(small, tmp_path):
    model = small.make()
    for budget, message in ((0, "not a part"), (1.2, "not a part"), ("1", "nothing would have")):
        with pytest.raises(InputError, match=message):
            compress(model, Unused(), budget=budget)
    with pytest.raises(BudgetError, match="the smallest this model can become"):
        compress(model, Unused(), budget=1e-5)
    with pytest.raises(InputError, match="it gives 7 answers"):
        compress(small.make(7), small.splits(50), budget=0.5)
    with pytest.raises(InputError, match="there is no such choice"):
        Settings(0.5, executor="elsewhere")


def test_resolution_stops_at_the_networks_minimum():
    unpadded = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 9, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.Conv2d(8, 8, 9),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
    )
    subject = Subject(unpadded, (3, 20, 20))
    assert subject.lattice(subject.blocks()).least_px == 17
    result = compress(unpadded, FakeTrainer(known_accuracy, (3, 20, 20)), budget=0.3)
    assert result.plan.resolution_px >= 17


def test_the_users_own_training(small):
    seen = []

    def train(model, resolution_px):
        seen.append(resolution_px)
        with torch.no_grad():
            model.head.bias += torch.rand(10)

    def score(model, resolution_px):
        assert not model.training
        return -float(model(torch.ones(1, 3, resolution_px, resolution_px)).var())

    settings = Settings(0.5, rounds=1)
    functions = {"train": train, "evaluate": score, "input_size": 16}
    first = compress(small.make(), **functions, budget=0.5, settings=settings)
    own = OwnTraining(train, score, (3, 16, 16))
    second = compress(small.make(), own, budget=0.5, settings=settings)
    assert torch.equal(first.model.head.bias, second.model.head.bias)
    assert len(seen) == 2 * 4
    assert min(seen) < 16
    with pytest.raises(InputError, match="not a finite number"):
        compress(small.make(), OwnTraining(train, lambda *_: float("nan"), (3, 16, 16)), budget=0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "there is nothing to train it with"),
        ({"train": print}, "it lacks evaluate= and input_size="),
        ({"train": print, "evaluate": print, "input_size": "big"}, "it is not a size of an image"),
        ({"train": print, "evaluate": 3, "input_size": 16}, "evaluate=3: it is no function"),
        ({"train": print, "evaluate": print, "epochs": 3}, "compress with epochs"),
        ({"data": "somewhere", "rounds": 2}, r"compress with rounds=.*triprune\.Settings\(budget"),
        ({"data": "somewhere", "train": print}, "both say how"),
        ({"data": "nowhere"}, "there is no such folder"),
    ],
)
def test_a_training_that_cannot_be_meant_is_refused(small, given, message):
    with pytest.raises(InputError, match=message):
        compress(small.make(), **given, budget=0.5)


@pytest.mark.parametrize("importance", ["fpgm", "random", "l1"])
def test_rounds_are_nested_by_any_importance(small, importance, tmp_path):
    """What a round removed stays removed, though the next begins from the original's shape.

    Training moves all filters far from zero, where those that are gone would stand out to fpgm.
    """
    from triprune.run.artifacts import TrainedModel
    from triprune.run.store import Store

    def train(model, resolution_px):
        for parameter in model.parameters():
            parameter.data += 1.0 + 0.1 * torch.randn_like(parameter)

    compress(
        small.make(),
        train=train,
        evaluate=lambda model, _: -float(model.head.weight.shape[1]),
        input_size=32,
        budget=0.3,
        settings=Settings(0.3, rounds=3, importance=importance),
        out=tmp_path,
    )
    rounds = [Store(tmp_path).read(f"chains/width-{n}", TrainedModel) for n in (1, 2, 3)]
    for before, after in pairwise(rounds):
        for name, cut in before.plan.cuts.layers.items():
            for side in ("out", "into"):
                kept = getattr(cut, side)
                if kept is not None:
                    assert set(getattr(after.plan.cuts.layers[name], side)) < set(kept)


def test_an_importance_that_needs_gradients_is_refused():
    with pytest.raises(InputError, match="importance 'taylor': there is no such choice"):
        Settings(0.5, importance="taylor")
