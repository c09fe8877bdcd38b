"""The command line on a real folder of images and a user's own model file."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import save_file

from triprune.errors import (
    ArtifactError,
    BudgetError,
    InputError,
    ModelError,
    RunChangedError,
    RunError,
    WeightsError,
)
from triprune.run.sealing import sealed

MODEL = f"{Path(__file__).parent / 'small_case.py'}:make"
CONFIG = """
model = "{model}"
weights = "{weights}"
data = "{data}"
[settings]
budget = "50%"
rounds = 1
effort = "paper"
device = "cpu"
[settings.recipe]
preset = "demo"
batch_size = 25
final_epochs = 1
"""


@pytest.fixture(scope="module")
def home(small, image_home, tmp_path_factory):
    """Return a folder with images in folders, weights, and a TOML file that names them."""
    home = tmp_path_factory.mktemp("home")
    (home / "data").symlink_to(image_home)
    save_file(small.make().state_dict(), home / "w.safetensors")
    text = CONFIG.format(model=MODEL, weights=home / "w.safetensors", data=home / "data")
    (home / "run.toml").write_text(text)
    return home


@pytest.fixture(scope="module")
def finished(triprune, home):
    return triprune("run", "--config", home / "run.toml", "--out", home / "out")


def test_run_tells_the_plan_the_result_and_where_it_is(finished, home):
    assert "to do: 3 models in three chains, then 1 final fine-tunings; 4 epochs" in finished
    assert re.search(r"about \d+:\d\d", finished)
    assert re.search(r"note: the original answers .* hardly better than guessing", finished)
    assert re.search(r"original +[\d.]+ +2\.10 \(100\.0%\)", finished)
    assert re.search(r"joint +[\d.]+ +1\.\d\d \((49|50)\.\d%\)", finished)
    assert (home / "out" / "small" / "50" / "plan.json").is_file()
    assert f"The report:        {home / 'out' / 'report.html'}" in finished
    page = (home / "out" / "report.html").read_text()
    assert "small_case.py:make on data" in page
    assert "No controls were run" in page


def test_a_finished_run_that_is_started_again_says_so(triprune, finished, home):
    again = triprune("run", "--config", home / "run.toml", "--out", home / "out")
    assert f"finished already: {home / 'out'}; nothing was trained again" in again
    assert "to do:" not in again
    assert re.search(r"joint +[\d.]+ +1\.\d\d \((49|50)\.\d%\)", again)


def test_status_of_a_finished_and_of_a_stopped_run(triprune, finished, home, tmp_path):
    assert "finished" in triprune("status", home / "out")
    (tmp_path / "run.json").write_bytes((home / "out" / "run.json").read_bytes())
    assert "stopped" in triprune("status", tmp_path, code=4)
    with pytest.raises(RunError, match="there is none"):
        triprune("status", home)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("chains/width-1.json", "rounds: depth 1 of 1, width 0 of 1, resolution 1 of 1"),
        ("chains/width-1.safetensors", "rounds: depth 1 of 1, width 0 of 1, resolution 1 of 1"),
        ("predictor.json", "predictor not fitted yet"),
        ("budget-50/joint-seed-0.safetensors", "budget 0.5: finished"),
        ("budget-50/joint.json", "finished, but not whole"),
        ("budget-50/feature-maps-1.safetensors", "finished, but not whole"),
        ("sample.json", "finished, but not whole"),
        ("sample.safetensors", "finished, but not whole"),
        ("small/50/plan.json", "finished, but not whole"),
        ("small/50/weights.safetensors", "finished, but not whole"),
    ],
)
def test_status_names_a_damaged_file_instead_of_counting_it(
    triprune, finished, home, tmp_path, file, told
):
    shutil.copytree(home / "out", tmp_path / "out")
    spoiled = bytearray((tmp_path / "out" / file).read_bytes())
    spoiled[-9] ^= 1
    (tmp_path / "out" / file).write_bytes(spoiled)
    printed = triprune("status", tmp_path / "out", code=2)
    assert told in printed
    assert f"damaged: reading {tmp_path / 'out' / file}: " in printed
    known = "the command that made it" if file.startswith("small") else "restore it from a copy"
    assert known in printed
    (tmp_path / "out" / "budget-50" / "outcome-1x1.json").write_text("{}")
    with pytest.raises(ArtifactError, match=r"outcome-1x1\.json: its checksum does not fit"):
        triprune("status", tmp_path / "out")


@pytest.mark.parametrize(
    ("file", "state"),
    [
        ("chains/width-1.json", "finished"),
        ("predictor.json", "finished"),
        ("sample.json", "finished"),
        ("budget-50/joint.json", "finished"),
        ("budget-50/joint-seed-0.json", "stopped"),
        ("budget-50/joint-seed-0.safetensors", "finished"),
        ("budget-50/feature-maps-1.json", "finished"),
        ("small/50/weights.safetensors", "finished"),
    ],
)
def test_status_names_what_is_gone_of_a_finished_run(
    triprune, finished, home, tmp_path, file, state
):
    out = Path(shutil.copytree(home / "out", tmp_path / "out"))
    (out / file).unlink()
    printed = triprune("status", out, code=2)
    assert f"{state}, but not whole: {out}" in printed
    assert f"{out / file}" in printed


def test_status_does_not_miss_the_weights_of_finished_chains(triprune, finished, home, tmp_path):
    out = Path(shutil.copytree(home / "out", tmp_path / "out"))
    for weights in out.glob("chains/*.safetensors"):
        weights.unlink()
    assert f"finished: {out}" in triprune("status", out)


def test_a_run_that_lost_its_final_model_is_not_finished_already(
    triprune, finished, home, tmp_path
):
    out = Path(shutil.copytree(home / "out", tmp_path / "out"))
    asked = ["run", "--config", home / "run.toml", "--out", out]
    (out / "budget-50" / "joint-seed-0.json").unlink()
    again = triprune(*asked)
    assert "finished already" not in again
    assert "to do: 1 final fine-tunings; 1 epochs in all" in again
    assert f"finished: {out}" in triprune("status", out)
    (out / "budget-50" / "joint-seed-0.safetensors").unlink()
    with pytest.raises(ArtifactError, match=r"joint-seed-0\.safetensors: No such file") as caught:
        triprune(*asked)
    assert "delete joint-seed-0.json beside it" in str(caught.value)


def test_nothing_is_called_finished_before_a_change_is_refused(
    triprune, finished, home, small, tmp_path, monkeypatch
):
    (tmp_path / "run.toml").write_text(
        (home / "run.toml").read_text().replace("rounds = 1", "rounds = 2")
    )
    said = []
    monkeypatch.setattr("typer.echo", lambda text, **_: said.append(text))
    with pytest.raises(RunChangedError, match="rounds was 1, is 2"):
        triprune("run", "--config", tmp_path / "run.toml", "--out", home / "out")
    assert not any("finished already" in each for each in said)


def test_another_budget_needs_no_chain(triprune, finished, home):
    chains = {p: p.stat().st_mtime_ns for p in (home / "out" / "chains").iterdir()}
    quoted = " ".join(triprune("quote", home / "out").split())
    assert "4 observations" in quoted
    assert re.search(r"macs are estimated unless .* off by at most \d+\.\d% where they", quoted)
    own = json.loads(triprune("quote", home / "out", "--budget", "50%", "--json"))["quotes"][0]
    assert own["chosen_by_the_run"]
    assert "macs are estimated" not in triprune("quote", home / "out", "--budget", "50%")
    told = triprune("choose", home / "out", "--budget", "85%")
    assert re.search(r"budget 85\.0%: .* macs \((8[234])\.\d%\)", told)
    rounded = triprune("choose", home / "out", "--budget", "85%", "--round-to", 4)
    assert "note: channels in multiples of 4: predicted accuracy" in rounded
    # 0.729 is not 72.9 / 100 to the last bit, and the same budget all the same.
    told = triprune("finish", home / "out", "--budget", "0.729", "--seconds", 600)
    assert "to do: 1 final fine-tunings; 1 epochs in all" in told
    assert re.search(r"^joint ", told, re.MULTILINE)
    assert "At 72.9 % of the macs" in (home / "out" / "report.html").read_text()
    assert "At 50 % of the macs" in triprune("report", home / "out", "--text")
    told = triprune("report", home / "out", "--text", "--budget", "72.9%")
    assert "At 72.9 % of the macs" in told
    assert {p: p.stat().st_mtime_ns for p in (home / "out" / "chains").iterdir()} == chains
    with pytest.raises(RunError, match="there is none"):
        triprune("quote", home)


def test_relative_paths_are_looked_for_where_the_command_is_given(
    triprune, finished, home, small, tmp_path, monkeypatch
):
    text = (home / "out" / "run.json").read_text()
    facts = json.loads(text)
    facts["values"]["spec"] |= {"model": "net.py:make", "weights": "w.safetensors"}
    run = Path(shutil.copytree(home / "out", tmp_path / "out"))
    (run / "run.json").write_bytes(sealed({"kind": "run", "values": facts["values"]}))
    monkeypatch.chdir(tmp_path)
    asked = rf"there is no {tmp_path / 'net.py'}.*begin where the run was begun"
    for command in (["choose", run, "--budget", "85%"], ["finish", run, "--budget", "85%"]):
        with pytest.raises(RunError, match=asked):
            triprune(*command)
    with pytest.raises(RunError, match=asked):
        triprune("predict", run, "x.png")
    for name, source in (("net.py", small.__file__), ("w.safetensors", home / "w.safetensors")):
        (tmp_path / name).symlink_to(source)
    assert "budget 85.0%" in triprune("choose", run, "--budget", "85%")
    with pytest.raises(
        InputError, match=r"cut from small_case\.py:make.*give --model small_case\.py"
    ):
        triprune("predict", run / "small" / "50", "x.png")


def test_a_predictor_that_knows_nothing_is_told_wherever_it_is_asked(triprune, finished, home):
    """One round a chain leaves no freedom to judge the fit: the interval is 0 to 100 %."""
    guess = "hardly better than a guess: 90 % of measurements fall anywhere from 0% to 100%"
    assert f"note: the joint choice: {guess}" in " ".join(finished.split())
    chosen = triprune("choose", home / "out", "--budget", "50%")
    assert f"warning: {guess}; observe more rounds, or train each for more epochs" in chosen
    quoted = " ".join(triprune("quote", home / "out").split())
    assert f"warning: at every budget, {guess}" in " ".join(quoted.split())


def test_quote_and_choose_go_beyond_the_observations_at_the_same_budgets(triprune, finished, home):
    told = {}
    for budget in ("30%", "20%", "10%"):
        chosen = triprune("choose", home / "out", "--budget", budget)
        quoted = triprune("quote", home / "out", "--budget", budget, "--json")
        (quote,) = json.loads(quoted)["quotes"]
        told[budget] = "warning: extrapolates: nothing was observed below" in chosen
        assert told[budget] == bool(quote["extrapolated"])
        assert told[budget] == quote["doubts"][0].startswith("extrapolates: nothing was observed")
    assert told == {"30%": False, "20%": False, "10%": True}


def test_ctrl_c_tells_how_to_go_on(triprune, finished, home, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("triprune.run.pipeline.Pipeline.run", interrupted)
    monkeypatch.setattr("sys.argv", ["triprune", "run", "--out", "a b"])
    told = triprune("run", "--config", home / "run.toml", "--out", home / "out", code=130)
    assert "To go on: triprune run --out 'a b'" in told


@pytest.mark.alone
def test_a_real_ctrl_c_stops_cleanly_and_the_same_command_goes_on(triprune, home):
    command = [sys.executable, "-m", "triprune.cli", "run", "--config", "run.toml", "--out", "cut"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    options = {"cwd": home, "env": environment, "text": True}
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's jobs may not
    with subprocess.Popen(command, **pipes, **options, preexec_fn=listen) as process:
        assert "reading the data" in process.stderr.readline()
        assert "epoch 1/1" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == 130
    assert "To go on: triprune run --config run.toml --out cut" in told
    assert "Traceback" not in told
    before = {p: p.read_bytes() for p in (home / "cut" / "chains").glob("*.json")}
    assert "budget 0.5: stopped, 0 final models so far" in triprune("status", home / "cut", code=4)
    again = subprocess.run(command, capture_output=True, check=True, **options)
    assert re.search(r"joint +[\d.]+", again.stdout)
    assert (
        before.items()
        <= {p: p.read_bytes() for p in (home / "cut" / "chains").glob("*.json")}.items()
    )
    assert "budget 0.5: finished" in triprune("status", home / "cut")


def test_bad_input_is_named_before_any_training(triprune, finished, home, small, tmp_path):
    good = ["--weights", home / "w.safetensors", "--data", home / "data", "--out", tmp_path]
    with pytest.raises(ModelError, match="no model has this name"):
        triprune("run", "--model", "resnet57", "--budget", "50%", *good)
    with pytest.raises(WeightsError, match="missing"):
        triprune("run", "--model", "resnet20", "--budget", "50%", *good)
    with pytest.raises(InputError, match="not a part of the original compute"):
        triprune("run", "--model", MODEL, "--budget", "150%", *good)
    with pytest.raises(BudgetError, match="the smallest this model can become"):
        triprune("run", "--model", MODEL, "--budget", "0.001%", *good)
    other = [*good[:-1], tmp_path / "other", "--chains-to", "0.001%"]
    with pytest.raises(BudgetError, match=r"chains to 0\.0%: the smallest this model can become"):
        triprune("run", "--model", MODEL, "--budget", "50%", *other)
    with pytest.raises(InputError, match=r"chains to 0\.6 for a budget of 0\.5"):
        triprune("run", "--model", MODEL, "--budget", "50%", "--chains-to", "60%", *good)
    with pytest.raises(InputError, match="without weights it is not a trained model"):
        triprune("run", "--model", "resnet20", "--budget", "50%", "--out", tmp_path)
    with pytest.raises(InputError, match="no model or no budget"):
        triprune("run", "--out", tmp_path)
    with pytest.raises(InputError, match="a folder without a name"):
        triprune("run", "--config", home / "run.toml", "--out", "")
    assert not list(tmp_path.glob("chains/*"))
    text = (home / "run.toml").read_text()
    (tmp_path / "other.toml").write_text(text.replace("rounds = 1", "rounds = 2"))
    with pytest.raises(RunChangedError, match="rounds was 1, is 2"):
        triprune("run", "--config", tmp_path / "other.toml", "--out", home / "out")
    flags = ["--seeds", 3, "--validation", "test:20", "--seconds", 1]
    with pytest.raises(InputError, match="--config with --seeds, --validation: the file says"):
        triprune("run", "--config", home / "run.toml", "--out", tmp_path, *flags)
    (tmp_path / "bad.toml").write_text("model = ")
    with pytest.raises(InputError, match="it is no TOML file"):
        triprune("run", "--config", tmp_path / "bad.toml", "--out", tmp_path)
    (tmp_path / "bad.toml").write_text("model = 'm'\nbudgte = 1")
    with pytest.raises(InputError, match="a run with budgte"):
        triprune("run", "--config", tmp_path / "bad.toml", "--out", tmp_path)
