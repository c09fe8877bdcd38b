"""The driver of the paper's runs: in slices, on a bare machine, carried to and fro."""

import importlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = f"""
model = "{ROOT / "tests" / "run" / "small_case.py"}:make"
weights = "runs/baselines/small.safetensors"
data = "{{data}}"
[settings]
budget = "50%"
rounds = 1
effort = "paper"
controls = true
seeds = 2
device = "cpu"
[settings.recipe]
preset = "demo"
epochs = 1
warmup_epochs = 0.0
batch_size = 32
final_epochs = 2
"""


@pytest.fixture
def places(cifar10, tmp_path):
    """Return two machines' folders, each with the config: a bare one and one with scipy."""
    places = tmp_path / "bare", tmp_path / "home"
    for place in places:
        place.mkdir()
        (place / "small.toml").write_text(CONFIG.format(data=cifar10))
    return places


def run_here(cwd: Path, *arguments: object) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / "paper_run.py"), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_in_slices_on_two_machines(run, places):
    bare, home = places
    command = ("paper_run.py", "run", "small.toml", "--baseline")
    told = run(*command, "--pack", "out", cwd=bare)
    assert "collected; the choice needs scipy" in told
    run_here(home, "unpack", bare / "out")
    assert "budget 50%, joint: (" in run_here(home, "choose", "small.toml", "--pack", "back")
    with tarfile.open(home / "back" / "bundle-0.tar") as bundle:
        names = bundle.getnames()
    assert "small/chains/depth-1.json" in names
    assert "small/chains/depth-1.safetensors" not in names
    begun = run(*command, "--unpack", home / "back", "--seconds", 0, "--pack", "out", cwd=bare)
    assert "the time that was given is up" in begun
    assert begun.count("stopped after epoch 1") == 8
    ended = run(*command, "--pack", "out", cwd=bare)
    assert all(f"{name}: " in ended for name in ("original", "joint", "depth", "width"))
    run_here(home, "unpack", bare / "out")
    folder = home / "runs" / "small"
    outcome = json.loads((folder / "budget-50" / "outcome-4x2.json").read_text())["values"]
    assert [len(row["accuracies"]) for row in outcome["rows"]] == [1, 2, 2, 2, 2]
    calls = [json.loads(path.read_text()) for path in sorted((folder / "calls").iterdir())]
    epochs = {
        stage: sum(call["epochs"].get(stage, 0) for call in calls)
        for stage in ("baseline", "collect", "finals")
    }
    assert epochs == {"baseline": 1, "collect": 3, "finals": 16}
    assert all(call["circumstances"]["torch"] for call in calls)


def test_a_rehearsal_takes_every_step_in_a_folder_of_its_own(run, places):
    command = ("paper_run.py", "run", "small.toml", "--baseline", "--rehearse", "--seeds", 1)
    told = run(*command, cwd=places[0])
    assert "small-rehearsal: epoch 2/2" in told
    runs = {path.name for path in (places[0] / "runs").iterdir()}
    assert runs == {"baselines", "small-rehearsal"}
    rehearsed = places[0] / "runs" / "small-rehearsal"
    assert len(list((rehearsed / "chains").glob("*.json"))) == 3
    facts = json.loads((rehearsed / "run.json").read_text())["values"]
    assert facts["spec"]["settings"]["seeds"] == 1


def test_a_survey_can_be_taken_on_its_own(run, places):
    command = ("paper_run.py", "run", "small.toml", "--baseline", "--together")
    told = run(*command, "--until", "survey", cwd=places[0])
    assert "[survey: " in told
    assert "[collect: " not in told
    folder = places[0] / "runs" / "small"
    assert (folder / "survey.json").exists()
    assert not (folder / "chains").exists()


def test_what_cannot_be_done_is_named(run, places):
    with pytest.raises(AssertionError, match="there is no such file"):
        run("paper_run.py", "run", "small.toml", cwd=places[0])
    with pytest.raises(AssertionError, match="its chains are not finished"):
        run("paper_run.py", "choose", "small.toml", cwd=places[0])
    with pytest.raises(AssertionError, match=r"^seeds = 0: it is no count") as told:
        run("paper_run.py", "run", "small.toml", "--seeds", 0, cwd=places[0])
    assert "Traceback" not in str(told.value)
    for budget, found in {
        "smal=40%": r"no run here is called 'smal'\. name small\.",
        "=40%": r"no run here is called ''",
        "small=abc": "abc",
        "150%": "150%",
    }.items():
        with pytest.raises(AssertionError, match=found):
            run("paper_run.py", "run", "small.toml", "--budget", budget, cwd=places[0])
    (places[0] / "x").mkdir()
    (places[0] / "x" / "small.toml").write_text((places[0] / "small.toml").read_text())
    with pytest.raises(AssertionError, match="two of these configs have one name"):
        run("paper_run.py", "run", "small.toml", "x/small.toml", cwd=places[0])


@pytest.mark.parametrize("config", sorted((ROOT / "configs").glob("*.toml")), ids=lambda p: p.stem)
def test_every_config_is_a_run_and_says_what_to_expect(config):
    from triprune.run.spec import RunSpec

    spec = RunSpec.from_toml(config)
    of_the_joint_model_alone = config.stem.endswith(("-finals160", "-deeper"))
    assert spec.settings.controls != of_the_joint_model_alone
    assert spec.settings.paper_epochs(True) == spec.settings.spent_recipe.final_epochs
    header = config.read_text().partition("\nmodel")[0]
    for said in (f"--config configs/{config.name}", "Hardware:", "Expected time:"):
        assert said in header
    assert "Expected accuracy:" in header


def test_chains_of_several_configs_train_together_and_alike(run, places):
    bare, _ = places
    config = (bare / "small.toml").read_text()
    (bare / "longer.toml").write_text(config + "round_epochs = 2\n")
    run("paper_run.py", "run", "small.toml", "--baseline", "--until", "collect", cwd=bare)
    alone = {
        path.name: path.read_bytes() for path in (bare / "runs" / "small" / "chains").iterdir()
    }
    (bare / "runs" / "small").rename(bare / "runs" / "before")
    command = ("paper_run.py", "run", "small.toml", "longer.toml", "--until", "collect")
    told = run(*command, "--together", cwd=bare)
    assert told.count("[collect: ") == 4  # together, and then each to see that nothing is left
    together = {
        path.name: path.read_bytes() for path in (bare / "runs" / "small" / "chains").iterdir()
    }
    assert together == alone
    for name, epochs in {"small": 3, "longer": 6}.items():
        calls = [
            json.loads(path.read_text()) for path in (bare / "runs" / name / "calls").iterdir()
        ]
        assert [call["epochs"] for call in calls] == [{"collect": epochs}]
        assert calls[0]["seconds"]["collect"] > 0
        assert calls[0]["command"].endswith("--together --until collect --seconds 540")
        assert (bare / "runs" / name / "predictor.json").exists()
    assert "0 epochs]" in run(*command, "--together", cwd=bare)


def test_whole_runs_train_together_from_one_baseline_and_end_alike(places):
    _, home = places
    config = (home / "small.toml").read_text()
    (home / "longer.toml").write_text(config + "round_epochs = 2\n")
    command = ("run", "small.toml", "--baseline", "--seeds", 1)
    assert "joint: " in run_here(home, *command)
    (home / "runs").rename(home / "alone")
    budgets = ("--budget", "longer=60%", "--budget", "longer=50%")
    told = run_here(home, "run", "small.toml", "longer.toml", *command[2:], "--together", *budgets)
    assert told.count("[baseline: ") == 1
    assert told.count("[measure: ") == told.count("original: ") == 3
    assert not (home / "runs" / "small" / "budget-60").exists()
    for name in ("depth", "joint"):
        final = Path("small", "budget-50", f"{name}-seed-0.safetensors")
        assert (home / "runs" / final).read_bytes() == (home / "alone" / final).read_bytes()


@pytest.mark.parametrize("together", [("--together",), ()])
def test_a_run_that_fails_ends_no_other(places, together):
    _, home = places
    config = (home / "small.toml").read_text()
    (home / "missing.toml").write_text(config.replace("small.safetensors", "none.safetensors"))
    run_here(home, "run", "small.toml", "--baseline", "--until", "baseline")
    command = ("run", "missing.toml", "small.toml", "--seeds", "1", *together)
    with pytest.raises(AssertionError, match=r"of missing: there is no such file.*--baseline"):
        run_here(home, *command)
    assert (home / "runs" / "small" / "budget-50" / "outcome-4x1.json").exists()
    assert not list((home / "runs" / "small" / "under-way").glob("*"))


def test_what_is_asked_is_known_before_the_finals_end(places):
    _, home = places
    command = ("run", "small.toml", "--baseline", "--seeds", "1")
    run_here(home, *command, "--until", "choose")
    assert "stopped: " in run_here(home, *command, "--seconds", 0)
    assert {"asked-4x1.json", "origin.json"} <= {
        path.name for path in (home / "runs" / "small" / "budget-50").iterdir()
    }


def test_a_run_that_waits_for_anothers_baseline_stops_with_it(places):
    _, home = places
    (home / "other.toml").write_text((home / "small.toml").read_text())
    command = ("run", "small.toml", "other.toml", "--baseline", "--rehearse", "--together")
    told = run_here(home, *command, "--seconds", 0)
    assert told.count("stopped: training small-rehearsal: the time that was given is up") == 1
    assert told.count("stopped: waiting for runs/baselines/small-rehearsal.safetensors") == 1


def test_time_side_by_side_is_charged_by_epochs_and_macs(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    calls = importlib.import_module("paper_calls")
    now = [0.0]
    monkeypatch.setattr(calls.time, "monotonic", lambda: now[0])
    clock = calls.Clock()
    small, large = (calls.Call("", "", clock, macs) for macs in (1.0, 3.0))
    with small.beside("collect"):
        with large.alone("survey"):
            now[0] += 5.0
        with large.beside("finals"):
            for call in (small, large):  # the second half of a resumed training's sixth epoch
                call.on_step("a training", epoch=6, done=0.5)
                call.on_step("a training", epoch=6, done=1.0)
            now[0] += 8.0
        small.on_step("a training", epoch=7, done=0.1)
        now[0] += 1.0
    assert small.seconds == {"collect": 3.0}
    assert large.seconds == {"survey": 5.0, "finals": 6.0}
