"""The study of fine-tuning recipes: rows side by side on a bare machine, and what it refuses."""

import importlib
import json
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "fine_tuning" / "resnet56_distillation_h200.json"
CONFIG = f"""
model = "{ROOT / "tests" / "run" / "small_case.py"}:make"
data = "{{data}}"
[settings]
budget = "50%"
device = "cpu"
[settings.recipe]
preset = "demo"
warmup_epochs = 0.0
batch_size = 32
precision = "fp32"
final_rate = 0.05
"""


@pytest.fixture
def folder(cifar10, tmp_path):
    (tmp_path / "small.toml").write_text(CONFIG.format(data=cifar10))
    return tmp_path


@pytest.fixture
def study(folder, monkeypatch, capsys):
    """Return a function that runs a study in this process; returns what it says and writes."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.chdir(folder)
    script = importlib.import_module("fine_tuning")

    def go(*arguments: object) -> tuple[str, dict]:
        words = ["small.toml", "--out", "found.json", *arguments]
        monkeypatch.setattr("sys.argv", ["fine_tuning.py", *map(str, words)])
        script.main()
        return capsys.readouterr().out, json.loads(Path("found.json").read_text())

    return go


def test_variants_and_seeds_side_by_side_on_a_bare_machine(run, folder):
    told = run(
        *("fine_tuning.py", "small.toml", "--out", "deep/found.json"),
        *("--scale", "0.5,0.7,0.8", "--epochs", 2, "--seeds", 3, 4),
        *("--variant", "fp32", "fp32+distillation=0.9+temperature=8"),
        cwd=folder,
    )
    found = json.loads((folder / "deep" / "found.json").read_text())
    assert [(row["what"], row["seed"]) for row in found["rows"]] == [
        ("fp32", 3),
        ("fp32", 4),
        ("fp32+distillation=0.9+temperature=8", 3),
        ("fp32+distillation=0.9+temperature=8", 4),
    ]
    for row in found["rows"]:
        assert len(row["accuracy"]) == 2
        assert all(0 <= accuracy <= 1 for accuracy in [*row["accuracy"], row["train_accuracy"]])
        assert not row["stopped"]
        assert "test_accuracy" not in row
    assert 0 <= found["original"]["accuracy"] <= 1
    assert found["scale"] == {"depth": 0.5, "width": 0.7, "resolution": 0.8}
    assert found["realised"]["depth"] == 0.5
    assert found["resolution_px"] == 26
    assert found["epochs"] == 2
    assert found["circumstances"]["torch"]
    assert "test" not in found
    plain, distilled = found["recipes"].values()
    assert (plain["rate"], plain["epochs"], plain["distillation"]) == (0.05, 2, 0.0)
    assert (distilled["distillation"], distilled["temperature"]) == (0.9, 8)
    assert "fp32 seed 4: 2 of 2 epochs, mean of the last 2 " in told
    kept = json.loads(KEPT.read_text())
    assert kept.keys() - {"note"} == found.keys()
    assert all(row.keys() == found["rows"][0].keys() for row in kept["rows"])


def test_the_decision_tells_what_was_measured():
    text = (ROOT / "docs" / "adr" / "0095-how-to-fine-tune.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| distillation")]
    rows = json.loads(KEPT.read_text())["rows"]
    for line, pair in zip(lines, zip(rows[::2], rows[1::2], strict=True), strict=True):
        assert [row["seed"] for row in pair] == [0, 1]
        scores = [statistics.fmean(row["accuracy"][-5:]) for row in pair]
        trained = statistics.fmean(row["train_accuracy"] for row in pair)
        told = " | ".join([f"{100 * score:.2f} %" for score in scores] + [f"{100 * trained:.1f} %"])
        assert told in line


def test_the_original_itself_and_the_test_split(study):
    told, found = study(
        "--scale", "1,1,1", "--epochs", 1, "--seeds", 0, "--variant", "fp32", "--test"
    )
    (row,) = found["rows"]
    assert found["realised"] == {"depth": 1.0, "width": 1.0, "resolution": 1.0}
    stem, blocks, head = 9 * 3 * 12 * 16**2, 8 * 9 * 12 * 12 * 16**2, 12 * 10
    assert found["macs"] == stem + blocks + head
    assert "nothing is chosen by it" in found["test"]["note"]
    assert 0 <= found["test"]["original"] <= 1
    assert f"test {row['test_accuracy']:.2%}" in told


def test_a_row_that_stops_keeps_its_epochs_and_one_that_fails_ends_no_other(study):
    told, found = study(
        *("--scale", "0.75,1,1", "--epochs", 9, "--seeds", 0, "--seconds", 0, "--test"),
        *("--variant", "fp32+final_rate=1e9", "fp32", "fp32+weight_decay=0.01"),
    )
    broken, *stopped = found["rows"]
    assert "the mean loss is nan" in broken["error"]
    assert not broken["stopped"]
    assert [row["stopped"] for row in stopped] == [True, True]
    assert [len(row["accuracy"]) for row in stopped] == [1, 1]
    assert all("test_accuracy" not in row for row in found["rows"])
    assert "fp32 seed 0: stopped after epoch 1" in told
    assert "fp32 seed 0: 1 of 9 epochs" in told


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--variant": ["fp32+heat=3"]}, "a recipe with heat: there are no such settings"),
        ({"--variant": ["fp32+temperature"]}, "temperature has no value"),
        ({"--variant": ["fp16"]}, "precision fp16 on cpu"),
        ({"--variant": ["fp32+rate=1+final_epochs=3"]}, "does not follow final_epochs, rate"),
        ({"--variant": ["fp32", "fp32+final_rate=0.05"]}, "would be the same"),
        ({"--seeds": [1, 1]}, "fp32 seed 1 beside fp32 seed 1"),
        ({"--epochs": [0]}, "final_epochs = 0"),
        ({"--scale": ["0.5,0.7"]}, "it is no three numbers"),
        ({"--scale": ["0.5,0.7,1.5"]}, "resolution"),
        ({"--out": ["small.toml"]}, "it is there already"),
        ({"--weights": ["none.safetensors"]}, "there is no such file"),
    ],
)
def test_what_cannot_be_done_is_named_before_any_training(study, changes, message):
    given = {"--scale": ["0.5,0.7,1"], "--variant": ["fp32"], "--epochs": [1], **changes}
    with pytest.raises(SystemExit, match=re.escape(message)):
        study(*(word for name, values in given.items() for word in (name, *values)))
    assert not Path("found.json").exists()
