r"""Run a config of configs/ in slices of time, and carry what is done from machine to machine.

    python benchmarks/paper_run.py run configs/cifar10-resnet56.toml --baseline --seconds 540 \
        --pack OUT/state
    python benchmarks/paper_run.py unpack OUT/state
    python benchmarks/paper_run.py choose configs/cifar10-resnet56.toml

``run`` collects, chooses and fine-tunes in ``runs/NAME``; with ``--baseline`` it first trains the
config's weights where they are missing, and with ``--together`` all that several configs have to
train trains side by side. Called again, it goes on. It needs torch, numpy and safetensors. The
choice alone needs scipy: without it ``run`` ends before, and ``choose`` does that step elsewhere.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from bundles import pack, unpack
from kept_answers import KeptMemory
from kept_kernels import keep_by_source
from paper_calls import Call, Clock, command_of
from triprune.core.budget import run_budget
from triprune.errors import InputError, RunError, RunStoppedError, TripruneError
from triprune.learning.deadline import Deadline
from triprune.learning.turns import Work, drive, in_turns
from triprune.network.profile import profile
from triprune.run.artifacts import Fitted, Survey
from triprune.run.baseline import Baseline
from triprune.run.case import Case
from triprune.run.executors.inline import Inline
from triprune.run.keys import PREDICTOR, SURVEY
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
    if settings.kernels is not None:
        keep_by_source(settings.kernels)
    deadline = Deadline(settings.seconds)
    specs: dict[Path, RunSpec] = {}
    try:
        specs.update(read_spec(Path(config), settings) for config in settings.what)
        require_sound(settings, [folder.name for folder in specs])
        if settings.action == "choose":
            for folder, spec in specs.items():
                choose(folder, spec, settings)
        else:
            run(specs, settings, deadline)
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


def require_sound(settings: argparse.Namespace, names: list[str]) -> None:
    """Refuse runs of one name, and budgets that are none or are for a run not asked for."""
    if len(names) < len(settings.what):
        raise InputError(
            f"running {' '.join(settings.what)}",
            "two of these configs have one name, and would share a folder",
            "give each once, or rename one",
        )
    for each in settings.budget or ():
        name, named, budget = each.rpartition("=")
        if name not in names and (name or named):
            raise InputError(
                f"--budget {each}", f"no run here is called {name!r}", f"name {' or '.join(names)}"
            )
        run_budget(budget)


def rehearsal(spec: RunSpec) -> RunSpec:
    """Return the run with all its steps and hardly any epochs: what fails, fails in a minute."""
    recipe = replace(spec.settings.recipe, epochs=2, round_epochs=1, final_epochs=1)
    seeds = min(2, spec.settings.seeds)
    return replace(spec, settings=replace(spec.settings, rounds=1, seeds=seeds, recipe=recipe))


def run(specs: dict[Path, RunSpec], settings: argparse.Namespace, deadline: Deadline) -> None:
    """Bring every run as far as is asked: one after the other, or all of them in turns.

    A run that fails ends no other; the first error is raised at the end.
    """
    clock, begun, errors = Clock(), set[str](), list[TripruneError]()
    calls = {folder: Call(folder.name, command_of(settings), clock) for folder in specs}
    groups = [list(specs)] if settings.together else [[folder] for folder in specs]
    try:
        for group in groups:
            asked = [(folder, specs[folder], calls[folder]) for folder in group]
            works = [apart(trained(*each, deadline, settings, begun), errors) for each in asked]
            for folder, pipeline in zip(group, drive(works), strict=True):
                if pipeline is not None:
                    drive([apart(measured(pipeline, calls[folder], settings), errors)])
    finally:
        clock.settle()
        for folder, call in calls.items():
            call.write(folder)
    if errors:
        raise errors[0]


def apart(work: Work[Pipeline | None], errors: list[TripruneError]) -> Work[Pipeline | None]:
    """Do the work; that its time is up, or that it fails, is told and ends no other."""
    try:
        return (yield from work)
    except RunStoppedError as stop:
        print(f"stopped: {stop}", flush=True)
    except TripruneError as error:
        print(f"failed: {error}", flush=True)
        errors.append(error)
    return None


def trained(
    folder: Path,
    spec: RunSpec,
    call: Call,
    deadline: Deadline,
    settings: argparse.Namespace,
    begun: set[str],
) -> Work[Pipeline | None]:
    """Train all that a run is asked for; return it if only the test images are left to be opened.

    ``begun`` are the baselines that some run of this process sees to.
    """
    if spec.weights is not None and not Path(spec.weights).exists():
        if not settings.baseline:
            raise InputError(
                f"the weights {spec.weights} of {folder.name}",
                "there is no such file",
                "put them there, or train them: --baseline",
            )
        yield from original(spec, spec.weights, call, deadline, begun)
    if settings.until == "baseline":
        return None
    with call.alone("open"):
        pipeline = open_pipeline(folder, spec, call, deadline, settings)
    with pipeline.store.locked():
        pipeline.store.begin(pipeline.case.facts())
        return (yield from chosen_and_trained(pipeline, call, settings))


def original(
    spec: RunSpec, weights: str, call: Call, deadline: Deadline, begun: set[str]
) -> Work[None]:
    """Train the weights that a run begins with, or wait for another run that does."""
    deadline.require_time(f"training {weights}")
    if weights not in begun:
        begun.add(weights)
        baseline = Baseline.of(spec)
        call.macs = profile(baseline.job.model, baseline.splits.train.resolution_px).macs
        with call.beside("baseline"):
            yield from baseline.train([call], deadline)
    while not Path(weights).exists():
        deadline.require_time(f"waiting for {weights}")
        yield


def chosen_and_trained(
    pipeline: Pipeline, call: Call, settings: argparse.Namespace
) -> Work[Pipeline | None]:
    here = Inline(pipeline.pieces)
    with call.alone("survey"):
        known = pipeline.survey(here)
    if settings.until == "survey":
        return None
    call.macs = known.macs
    if not pipeline.store.has(PREDICTOR):
        with call.beside("collect"):
            yield from in_turns([piece(pipeline.pieces) for piece in pipeline.chains(known)])
    with call.alone("collect"):
        known, fitted = pipeline.collect(here)
    if settings.until == "collect":
        return None
    budgets = budgets_of(pipeline, settings)
    if not all(map(pipeline.chosen, budgets)) and not has_scipy():
        print("collected; the choice needs scipy: use `choose` where it is", flush=True)
        return None
    with call.alone("choose"):
        chosen = {budget: pipeline.choose_all(known, fitted, budget) for budget in budgets}
    if settings.until == "choose":
        return None
    for budget in budgets:
        pipeline.ask(budget)
    finals = [pipeline.finals(known, each, budget).values() for budget, each in chosen.items()]
    with call.beside("finals"):
        yield from in_turns([piece(pipeline.pieces) for group in finals for piece in group])
    return pipeline


def measured(pipeline: Pipeline, call: Call, settings: argparse.Namespace) -> Work[None]:
    """Open the test images for the original and all final models; nothing trains meanwhile."""
    yield
    for budget in budgets_of(pipeline, settings):
        with call.alone("measure"):
            outcome = pipeline.run(budget).outcome
        for row in outcome.rows:
            scores = ", ".join(f"{score:.2%}" for score in row.accuracies)
            told = f"{row.name}: {row.macs:,} macs, test {scores}"
            print(f"{call.name}, budget {budget:.0%}, {told}", flush=True)


def choose(folder: Path, spec: RunSpec, settings: argparse.Namespace) -> None:
    """Choose for a collected run, without any training."""
    store = Store(folder)
    if not store.has(PREDICTOR):
        raise RunError(f"choosing for {folder}", "its chains are not finished", "run it further")
    call = Call(folder.name, command_of(settings), Clock())
    with call.alone("open"):
        pipeline = open_pipeline(folder, spec, call, None, settings)
    with store.locked():
        store.begin(pipeline.case.facts())
        known, fitted = store.read(SURVEY, Survey), store.read(PREDICTOR, Fitted)
        for budget in budgets_of(pipeline, settings):
            with call.alone("choose"):
                chosen = pipeline.choose_all(known, fitted, budget)
            for spends, each in chosen.items():
                told = each.note if each.choice is None else str(tuple(each.choice.scale))
                print(f"{call.name}, budget {budget:.0%}, {spends}: {told}", flush=True)
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
    # The slice ends cleanly, so a checkpoint every epoch would only cost time; so would validation.
    trainer = replace(
        case.trainer,
        checkpoint_every=settings.checkpoint_every,
        validate_every=settings.validate_every,
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


def budgets_of(pipeline: Pipeline, settings: argparse.Namespace) -> list[float]:
    """Return the budgets asked of this run by name or of every run; without any, its own."""
    asked = [each.rpartition("=") for each in settings.budget or ()]
    own = [budget for name, _, budget in asked if name in ("", pipeline.store.folder.name)]
    return [run_budget(each) for each in own or [pipeline.case.settings.budget]]


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
        "--together", action="store_true", help="everything of all configs side by side"
    )
    parser.add_argument(
        "--budget", action="append", help="instead of the config's; NAME=70%% for one; repeatable"
    )
    parser.add_argument("--seeds", type=int, help="instead of the config's; more can follow")
    parser.add_argument("--data", help="instead of the config's")
    parser.add_argument("--unpack", type=Path, help="folder of bundles to begin from")
    parser.add_argument("--pack", type=Path, help="folder to write bundles to at the end")
    parser.add_argument("--kernels", type=Path, help="folder of kernels: compile_ahead.py")
    parser.add_argument("--checkpoint-every", type=int, default=10)
    parser.add_argument("--validate-every", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
