"""Final models compared image by image: the lead is the run's own, and bad names are refused."""

import importlib
import json
from pathlib import Path

import pytest
import torch

from triprune.run.opening import open_case
from triprune.run.pipeline import Pipeline
from triprune.run.spec import RunSpec
from triprune.run.store import Store

ROOT = Path(__file__).parents[2]


@pytest.fixture
def paired(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("paired")


@pytest.fixture(scope="module")
def finished(cifar10, tmp_path_factory):
    """Return the folder and the outcome of a small run with controls and two seeds."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    recipe = {"preset": "demo", "batch_size": 32, "precision": "fp32"}
    settings = {"budget": "50%", "rounds": 1, "controls": True, "seeds": 2, "device": "cpu"}
    model = f"{ROOT / 'tests' / 'run' / 'small_case.py'}:make"
    spec = RunSpec.from_mapping(
        {"model": model, "data": str(cifar10), "settings": {**settings, "recipe": recipe}}
    )
    return folder, Pipeline(open_case(spec), Store(folder)).run().outcome


def test_the_lead_is_what_the_run_measured(paired, finished, tmp_path, monkeypatch, capsys):
    folder, outcome = finished
    out = tmp_path / "found.json"
    words = ["paired.py", str(folder), "joint", "resolution", "--out", str(out)]
    monkeypatch.setattr("sys.argv", words)
    paired.main()
    found = json.loads(out.read_text())
    rows = {row.name: row.accuracy for row in outcome.rows}
    test = found["leads"]["test"]
    assert test["images"] == 20
    assert test["points"] == pytest.approx(100 * (rows["joint"] - rows["resolution"]), abs=1e-4)
    assert found["leads"]["both"]["images"] == 20 + found["leads"]["validation"]["images"]
    assert found["seeds"] == {"joint": 2, "resolution": 2}
    assert f"joint leads resolution by {test['points']:+.2f} ±" in capsys.readouterr().out


def test_the_standard_error_is_that_of_the_images_they_differ_on(paired):
    one, other = torch.tensor([1.0, 1.0, 0.0, 0.5]), torch.tensor([1.0, 0.0, 0.0, 0.5])
    lead = paired.lead_of(one, other)
    assert lead == {"images": 4, "points": 25.0, "standard_error": 25.0, "differ": 0.25}


def test_a_model_that_the_run_has_not_is_named(paired, finished, tmp_path, monkeypatch):
    out = tmp_path / "found.json"
    words = ["paired.py", str(finished[0]), "joint", "height", "--out", str(out)]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit, match="no such final model"):
        paired.main()
    assert not out.exists()
