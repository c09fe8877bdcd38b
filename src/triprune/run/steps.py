"""Owns the steps of a run: each a function from typed artifacts to one typed artifact; no files."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from torch import Tensor, nn

from triprune.core.cost import paper_cost
from triprune.core.fitting import fit_predictor
from triprune.core.lattice import Lattice
from triprune.core.measured import Judged
from triprune.core.observation import Observation
from triprune.core.scale import AXES, Scale
from triprune.core.schedule import Schedule, schedule
from triprune.errors import BudgetError, TrainingError
from triprune.learning.turns import Work
from triprune.network.hardware import device_name
from triprune.network.latency import Latency, measure_latency
from triprune.network.plan import Plan
from triprune.network.regrowing import regrow
from triprune.network.running import all_finite
from triprune.places import Place
from triprune.run.artifacts import Chosen, Epoch, Fitted, Outcome, Spends, Survey, TrainedModel
from triprune.run.block_worth import scores_of_blocks
from triprune.run.case import Case
from triprune.run.choosing import Chooser
from triprune.run.contamination import notes_after, notes_before
from triprune.run.costing import Meter
from triprune.run.feature_maps import FeatureMaps, feature_maps
from triprune.run.guessing import notes_on_guessing
from triprune.run.spec import Settings
from triprune.run.trainer import ImageTrainer, Task, Trainer


def survey(case: Case) -> Survey:
    """Score the original, find its blocks, calibrate its cost; refuse a hopeless budget."""
    subject = case.subject
    blocks = subject.blocks()
    stiff = subject.fixed_width()
    lattice = subject.lattice(blocks, fixed_width=bool(stiff))
    scores = scores_of_blocks(case, blocks)
    macs, params = subject.whole_cost
    known = Survey(0.0, macs, params, lattice, paper_cost, scores)
    meter = case.meter(scores)
    _require_reachable(meter, lattice, case.settings)
    cost = meter.calibrated(targets_of(case.settings, known))
    left_out = {"depth": "" if len(blocks) else "no block can go", "width": stiff}
    for axis in cost.flat_axes:
        known = replace(known, lattice=known.lattice.whole_along(axis))
        left_out[axis] = f"it does not change the {meter.noun}"
    told = tuple(f"{axis} is left out: {why}" for axis, why in left_out.items() if why)
    accuracy = case.trainer.validate(original_task(case))
    told += notes_on_guessing(case.trainer, accuracy)
    told += notes_before(case.trainer, case.spec, subject.model, accuracy)
    told += _replaced_images(case.trainer)
    return replace(
        known,
        accuracy=accuracy,
        cost=cost,
        notes=targets_of(case.settings, known).notes + told,
        layers=subject.layers(),
    )


def _require_reachable(meter: Meter, lattice: Lattice, settings: Settings) -> None:
    least = Scale(*(float(lattice.fractions(axis)[0]) for axis in AXES))
    smallest = meter(least)
    if smallest > settings.chains_end:
        what = "budget" if settings.chains_to is None else "chains to"
        raise BudgetError(
            f"{what} {settings.chains_end:.1%}",
            f"the smallest this model can become has {smallest:.2%} of its {meter.noun}",
            "ask for more",
        )


def targets_of(settings: Settings, known: Survey) -> Schedule:
    """Return the targets of the three chains (Wang et al. 2021, Algorithm 1)."""
    return schedule(settings.chains_end, rounds=settings.rounds, lattice=known.lattice)


def chain_round(
    case: Case, known: Survey, target: Scale, previous: TrainedModel | None, *, checkpoint: Place
) -> Work[TrainedModel]:
    """Prune the previous round's model to ``target``, a fraction of the original; fine-tune it."""
    start = None
    if previous is not None:
        start = regrow(case.subject.model, previous.plan, previous.tensors)
    model, plan = case.subject.cut(target, known.block_scores, start=start)
    name = next(iter(target.cut_axes()), "whole")
    task = task_of(f"{name} {getattr(plan.realised, name):.2f}", model, plan, checkpoint=checkpoint)
    return (yield from _trained(case, replace(task, seed=case.settings.seed), plan))


def fit(case: Case, known: Survey, rounds: Sequence[TrainedModel]) -> Fitted:
    """Fit the predictor to the original and every round."""
    original = Observation(Scale(), known.accuracy, known.macs, known.params)
    observations = [original, *(each.observation for each in rounds)]
    return Fitted(fit_predictor(observations, images=case.trainer.judges))


def choose(
    case: Case, known: Survey, fitted: Fitted, *, budget: float, spends: Spends = "joint"
) -> Chosen:
    """Choose a scale by measured cost: jointly, or spending all of the budget on one axis."""
    chooser = Chooser(case.meter(known.block_scores), known, fitted.predictor, budget)
    try:
        choice = chooser.jointly() if spends == "joint" else chooser.along(spends)
    except BudgetError as error:
        if spends == "joint":
            raise
        return Chosen(spends, None, note=f"{error.asked}: {error.found}")
    cut = case.subject.model_at(choice.scale, known.block_scores)
    return Chosen(spends, choice, case.subject.cost_of(*cut)[0])


def finish(
    case: Case, known: Survey, chosen: Chosen, seed: int, *, checkpoint: Place
) -> Work[TrainedModel]:
    """Prune the *original* to the choice and fine-tune it at the chosen resolution."""
    assert chosen.choice is not None
    model, plan = case.subject.cut(chosen.choice.scale, known.block_scores)
    task = task_of(f"{chosen.spends}, seed {seed}", model, plan, checkpoint=checkpoint)
    return (yield from _trained(case, replace(task, final=True, seed=seed), plan))


def measure(
    case: Case,
    known: Survey,
    finals: Mapping[str, Sequence[TrainedModel]],
    *,
    budget: float,
    notes: Sequence[str] = (),
) -> Outcome:
    """Open the test split, once, for the original and every finished model."""
    subject = case.subject
    tasks = {"original": [original_task(case)]} | {
        name: [_restored(case, name, each) for each in trained] for name, trained in finals.items()
    }
    costs = {"original": (known.macs, known.params)} | {
        name: (trained[0].macs, trained[0].params) for name, trained in finals.items()
    }
    timed = measure_latency(
        {name: first.model for name, (first, *_) in tasks.items()},
        {name: (subject.input_size[0], *[t[0].resolution_px] * 2) for name, t in tasks.items()},
        device=case.device,
    )
    rows = tuple(
        Judged(
            name=name,
            scale=each[0].scale,
            resolution_px=each[0].resolution_px,
            accuracies=tuple(case.trainer.test(task) for task in each),
            macs=costs[name][0],
            params=costs[name][1],
            latency_ms=timed[name].median_ms,
        )
        for name, each in tasks.items()
    )
    flattered = notes_after(case.trainer, known.accuracy, rows[0].accuracy)
    told = [
        *known.notes,
        *notes,
        *flattered,
        *(n for each in finals.values() for n in each[0].plan.notes),
        *(n for each in finals.values() for trained in each for n in trained.notes),
        *_replaced_images(case.trainer),
    ]
    if case.settings.cost == "latency":
        told.append(_timing_note(timed, budget))
    return Outcome(
        budget,
        rows,
        latency_device=device_name(case.device),
        cost=case.settings.cost,
        epochs=_epochs(case, known, finals, case.trainer.epochs),
        paper_epochs=_epochs(case, known, finals, case.settings.paper_epochs),
        notes=tuple(dict.fromkeys(told)),
    )


def _replaced_images(trainer: Trainer) -> tuple[str, ...]:
    """Return what is to be said of images that broke while they were read."""
    return trainer.splits.replaced if isinstance(trainer, ImageTrainer) else ()


def _timing_note(timed: Mapping[str, Latency], budget: float) -> str:
    """Say what was timed again at the end, and how far such timings can be trusted."""
    joint, original = timed["joint"], timed["original"]
    scatter = max((each.upper_ms - each.lower_ms) / (2 * each.median_ms) for each in timed.values())
    return (
        f"latency of the joint model: {joint.median_ms / original.median_ms:.1%} of the "
        f"original's, budget {budget:.1%}, timed again on this machine, where half of all "
        f"timings lie within ±{scatter:.1%} of their median"
    )


def illustrate(case: Case, finals: Mapping[str, Sequence[TrainedModel]]) -> FeatureMaps:
    """Show the same validation images to the original and to the first seed of every choice."""
    if not isinstance(case.trainer, ImageTrainer):
        return FeatureMaps()
    tasks = {"original": original_task(case)} | {
        name: _restored(case, name, trained[0]) for name, trained in finals.items()
    }
    for task in tasks.values():
        task.model.to(case.device)
    return feature_maps(tasks, case.trainer.splits.validation)


def _epochs(
    case: Case,
    known: Survey,
    finals: Mapping[str, Sequence[TrainedModel]],
    epochs: Callable[[bool], int],
) -> int:
    """Return the epochs of all rounds and final fine-tunings together, the same models once."""
    targets = targets_of(case.settings, known)
    rounds = sum(len(targets.targets(axis)) for axis in AXES)
    trained = {each[0].plan.asked: len(each) for each in finals.values()}
    return rounds * epochs(False) + sum(trained.values()) * epochs(True)


def task_of(name: str, model: nn.Module, plan: Plan, *, checkpoint: Place | None = None) -> Task:
    """Return what is to be done with a model that ``plan`` made."""
    return Task(
        name,
        model,
        plan.resolution_px,
        scale=plan.realised,
        checkpoint=checkpoint,
        plan=plan,
    )


def _trained(case: Case, task: Task, plan: Plan) -> Work[TrainedModel]:
    macs, params = case.subject.cost_of(task.model, task.resolution_px)
    tuned = yield from case.trainer.fine_tune(replace(task, original=case.subject.model))
    tensors = {name: tensor.detach().cpu() for name, tensor in task.model.state_dict().items()}
    _require_finite(task, tensors)
    epochs = case.trainer.epochs(task.final)
    history = tuple(Epoch(e.loss, e.train_accuracy, e.accuracy, e.rate) for e in tuned.history)
    return TrainedModel(plan, tensors, tuned.accuracy, macs, params, epochs, history, tuned.notes)


def _require_finite(task: Task, tensors: Mapping[str, Tensor]) -> None:
    """Refuse what a training spoiled in its last steps, where no loss told of it any more."""
    spoiled = [name for name, tensor in tensors.items() if not all_finite(tensor)]
    if spoiled:
        raise TrainingError(
            f"training {task.name}, at {task.resolution_px} px",
            f"{spoiled[0]} holds NaN or infinity at its end ({len(spoiled)} such tensors); "
            "the model was not stored",
            "begin another run with a smaller rate or larger images, or in precision fp32",
        )


def original_task(case: Case) -> Task:
    """Return a copy of the original, to be measured."""
    subject = case.subject
    return Task("original", copy.deepcopy(subject.model), subject.resolution_px)


def _restored(case: Case, name: str, trained: TrainedModel) -> Task:
    return task_of(name, restore(case.subject.model, trained), trained.plan)


def restore(original: nn.Module, trained: TrainedModel) -> nn.Module:
    """Return a stored model: the plan replayed on the original, with the stored tensors."""
    model = trained.plan.apply(original)
    model.load_state_dict(trained.tensors)
    return model.eval()
