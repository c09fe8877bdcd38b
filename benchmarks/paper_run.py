r"""Run a config of configs/ in slices of time, and carry what is done from machine to machine.

    python benchmarks/paper_run.py run configs/cifar10-resnet56.toml --baseline --seconds 540 \
        --pack OUT/state
    python benchmarks/paper_run.py unpack OUT/state
    python benchmarks/paper_run.py choose configs/cifar10-resnet56.toml

``run`` collects, chooses and fine-tunes in ``runs/NAME``; with ``--baseline`` it first trains the
config's weights where they are missing, and with ``--together`` the chains of several configs train
side by side. Called again, it goes on. It needs torch, numpy and
safetensors. The choice alone needs scipy: without it ``run`` ends before, and ``choose`` does that
step elsewhere.
"""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bundles import pack, unpack
from kept_answers import KeptMemory
from paper_calls import Call, command_of, timed_together
from triprune.core.budget import read_budget
from triprune.errors import RunError, RunStoppedError, TripruneError
from triprune.learning.deadline import Deadline
from triprune.run.artifacts import Fitted, Survey, TrainedModel
from triprune.run.baseline import train_baselines
from triprune.run.case import Case
from triprune.run.executors.opening import open_executor
from triprune.run.executors.turns import Inline, Work, drive
from triprune.run.opening import open_case
from triprune.run.pipeline import Pipeline
from triprune.run.spec import RunSpec
from triprune.run.store import Store
from triprune.run.trainer import ImageTrainer

RUNS = Path("runs")
_OPENED: dict[str, Case] = {}


def main() -> None:
    settings = parse()
    if settings.action == "unpack":
        unpack(Path(settings.what[0]), RUNS)
        return
    if settings.unpack is not None:
        unpack(settings.unpack, RUNS)
    deadline = Deadline(settings.seconds)
    specs: dict[Path, RunSpec] = {}
    try:
        specs.update(read_spec(Path(config), settings) for config in settings.what)
        if settings.action == "choose":
            for folder, spec in specs.items():
                choose(folder, spec, settings)
        else:
            run(specs, settings, deadline)
    except RunStoppedError as stop:
        print(f"stopped: {stop}", flush=True)
    except TripruneError as error:
        raise SystemExit(f"{error}") from error
    finally:
        if settings.pack is not None:
            for bundle in pack(settings.pack, RUNS, files_to_carry(specs)):
                print(f"{bundle}: {bundle.stat().st_size:,} bytes", flush=True)


def read_spec(config: Path, settings: argparse.Namespace) -> tuple[Path, RunSpec]:
    """Return where the run of a config lives, and what it is."""
    spec = RunSpec.from_toml(config)
    if settings.data is not None:
        spec = replace(spec, data=settings.data)
    if settings.seeds is not None:
        spec = replace(spec, settings=replace(spec.settings, seeds=settings.seeds))
    if not settings.rehearse:
        return RUNS / config.stem, spec
    if settings.baseline and spec.weights is not None:
        weights = Path(spec.weights)
        spec = replace(spec, weights=str(weights.with_stem(f"{weights.stem}-rehearsal")))
    return RUNS / f"{config.stem}-rehearsal", rehearsal(spec)


def rehearsal(spec: RunSpec) -> RunSpec:
    """Return the run with all its steps and hardly any epochs: what fails, fails in a minute."""
    recipe = replace(spec.settings.recipe, epochs=2, round_epochs=1, final_epochs=1)
    seeds = min(2, spec.settings.seeds)
    return replace(spec, settings=replace(spec.settings, rounds=1, seeds=seeds, recipe=recipe))


def run(specs: dict[Path, RunSpec], settings: argparse.Namespace, deadline: Deadline) -> None:
    """Train the missing baselines side by side, then do one run after the other."""
    missing = {f: s for f, s in specs.items() if s.weights and not Path(s.weights).exists()}
    if missing and settings.baseline:
        baseline = Call(command_of(settings))
        try:
            with baseline.timed("baseline"):
                train_baselines(unique(missing), [baseline], deadline)
        finally:
            for folder in missing:
                baseline.write(folder)
    if settings.until == "baseline":
        return
    if settings.together and settings.until != "survey":
        collect_together(specs, deadline, settings)
    for folder, spec in specs.items():
        call = Call(command_of(settings))
        try:
            advance(folder, spec, call, deadline, settings)
        finally:
            call.write(folder)


def unique(specs: dict[Path, RunSpec]) -> list[RunSpec]:
    """Return one spec for each baseline: several runs may start from the same."""
    return list({spec.weights: spec for spec in specs.values()}.values())


def collect_together(
    specs: dict[Path, RunSpec], deadline: Deadline, settings: argparse.Namespace
) -> None:
    """Drive the chains of all runs side by side: three leave a large GPU half idle."""
    with ExitStack() as stack:
        calls: list[Call] = []
        works: list[Work[list[TrainedModel]]] = []
        for folder, spec in specs.items():
            if Store(folder).has("predictor"):
                continue
            call = Call(command_of(settings))
            stack.callback(call.write, folder)
            with call.timed("open"):
                pipeline = open_pipeline(folder, spec, call, deadline, settings)
            stack.enter_context(pipeline.store.locked())
            pipeline.store.begin(pipeline.case.facts())
            with call.timed("survey"):
                known = pipeline.survey(Inline(pipeline))
            calls.append(call)
            works += [piece(pipeline) for piece in pipeline.chains(known)]
        with timed_together(calls, "collect"):
            drive(works)


def advance(
    folder: Path, spec: RunSpec, call: Call, deadline: Deadline, settings: argparse.Namespace
) -> None:
    """Bring one run as far as is asked, or as the time allows."""
    with call.timed("open"):
        pipeline = open_pipeline(folder, spec, call, deadline, settings)
    store = pipeline.store
    with store.locked(), open_executor(spec.settings, pipeline) as executor:
        store.begin(pipeline.case.facts())
        with call.timed("survey"):
            pipeline.survey(executor)
        if settings.until == "survey":
            return
        with call.timed("collect"):
            known, fitted = pipeline.collect(executor)
        if settings.until == "collect":
            return
        for budget in budgets_of(spec, settings):
            if not pipeline.chosen(budget) and not has_scipy():
                print("collected; the choice needs scipy: use `choose` where it is", flush=True)
                return
            with call.timed("choose"):
                pipeline.choose_all(known, fitted, budget)
    if settings.until == "choose":
        return
    for budget in budgets_of(spec, settings):
        with call.timed("finals"):
            outcome = pipeline.run(budget).outcome
        for row in outcome.rows:
            scores = ", ".join(f"{score:.2%}" for score in row.accuracies)
            print(f"{row.name}: {row.macs:,} macs, test {scores}", flush=True)


def choose(folder: Path, spec: RunSpec, settings: argparse.Namespace) -> None:
    """Choose for a collected run, without any training."""
    store = Store(folder)
    if not store.has("predictor"):
        raise RunError(f"choosing for {folder}", "its chains are not finished", "run it further")
    call = Call(command_of(settings))
    with call.timed("open"):
        pipeline = open_pipeline(folder, spec, call, None, settings)
    with store.locked():
        store.begin(pipeline.case.facts())
        known, fitted = store.read("survey", Survey), store.read("predictor", Fitted)
        for budget in budgets_of(spec, settings):
            with call.timed("choose"):
                chosen = pipeline.choose_all(known, fitted, budget)
            for spends, each in chosen.items():
                told = each.note if each.choice is None else str(tuple(each.choice.scale))
                print(f"budget {budget:.0%}, {spends}: {told}", flush=True)
    call.write(folder)


def open_pipeline(
    folder: Path,
    spec: RunSpec,
    call: Call,
    deadline: Deadline | None,
    settings: argparse.Namespace,
) -> Pipeline:
    case = open_case(spec, [call], deadline)
    assert isinstance(case.trainer, ImageTrainer)
    # The slice ends cleanly, so a checkpoint every epoch would only cost time.
    trainer = replace(
        case.trainer,
        checkpoint_every=settings.checkpoint_every,
        memory=KeptMemory(RUNS / "answers"),
    )
    return Pipeline(sharing(replace(case, trainer=trainer)), Store(folder))


def sharing(case: Case) -> Case:
    """Return the case with the original and images of an earlier one that has the same.

    Runs of one process then hold them once, and a teacher's answers to them too.
    """
    chosen = case.settings
    rules = chosen.importance, chosen.block_importance, chosen.round_to
    key = json.dumps([case.subject.facts(), case.trainer.facts(), rules])
    first = _OPENED.setdefault(key, case)
    assert isinstance(case.trainer, ImageTrainer)
    assert isinstance(first.trainer, ImageTrainer)
    held = first.trainer.splits
    splits = replace(case.trainer.splits, train=held.train, validation=held.validation)
    trainer = replace(case.trainer, splits=splits, memory=first.trainer.memory)
    return replace(case, subject=first.subject, trainer=trainer)


def budgets_of(spec: RunSpec, settings: argparse.Namespace) -> list[float]:
    return [read_budget(each) for each in settings.budget or [spec.settings.budget]]


def has_scipy() -> bool:
    try:
        import scipy.special  # noqa: F401
    except ImportError:
        return False
    return True


def files_to_carry(specs: dict[Path, RunSpec]) -> list[Path]:
    """Return what another machine needs to go on: a fitted run no longer its rounds' weights."""
    found: dict[Path, None] = {}
    for folder, spec in specs.items():
        weights = Path(spec.weights or "")
        for file in (weights, weights.with_suffix(".under-way")):
            if file.is_file() and file.is_relative_to(RUNS):
                found[file] = None
        fitted = (folder / "predictor.json").exists()
        for file in sorted(folder.rglob("*")):
            spent = fitted and file.parent.name == "chains" and file.suffix == ".safetensors"
            if file.is_file() and file.name != "lock" and not spent:
                found[file] = None
    return list(found)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=["run", "choose", "unpack"])
    parser.add_argument("what", nargs="+", help="configs; for unpack, the folder of bundles")
    parser.add_argument("--seconds", type=float, default=540, help="stop after about so long")
    parser.add_argument(
        "--until", choices=["baseline", "survey", "collect", "choose", "finish"], default="finish"
    )
    parser.add_argument("--baseline", action="store_true", help="train weights that are missing")
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="every step with hardly any epochs, in NAME-rehearsal",
    )
    parser.add_argument(
        "--together", action="store_true", help="the chains of all configs side by side"
    )
    parser.add_argument("--budget", action="append", help="instead of the config's; repeatable")
    parser.add_argument("--seeds", type=int, help="instead of the config's; more can follow")
    parser.add_argument("--data", help="instead of the config's")
    parser.add_argument("--unpack", type=Path, help="folder of bundles to begin from")
    parser.add_argument("--pack", type=Path, help="folder to write bundles to at the end")
    parser.add_argument("--checkpoint-every", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    main()
