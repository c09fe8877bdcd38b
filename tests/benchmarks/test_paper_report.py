"""The records of runs, and the page, table and figure that are written from them."""

import copy
import importlib
import json
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest

from triprune.core.predictor import Predictor
from triprune.core.scale import Scale
from triprune.run.compress import checked_subject
from triprune.run.fake import FakeTrainer
from triprune.run.pipeline import Pipeline
from triprune.run.spec import RunSpec
from triprune.run.steps import Case
from triprune.run.store import Store

ROOT = Path(__file__).parents[2]
DECISION = "docs/adr/0102-flat-along-the-budget.md"
SPENDS = ("joint", "depth", "width", "resolution")
README = """Before.
<!-- cifar10: written by benchmarks/paper_report.py -->
old
<!-- /cifar10 -->
After.
"""


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("paper_report")


def accuracy(scale: Scale) -> float:
    """Return a score that falls along each axis."""
    depth, width, resolution = (1 - each for each in scale)
    return 0.94 - 0.02 * depth - 0.05 * width - 0.10 * resolution


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a whole run, with a trainer that answers a known function."""
    from triprune.learning.models import build_model

    folder = tmp_path_factory.mktemp("runs") / "cifar10-resnet56"
    settings = {"budget": 0.5, "rounds": 2, "controls": True, "seeds": 2, "effort": "paper"}
    spec = RunSpec.from_mapping({"model": "resnet20", "settings": settings})
    trainer = FakeTrainer(accuracy)
    subject = checked_subject(build_model("resnet20"), trainer, spec.settings)
    Pipeline(Case(subject, trainer, spec.settings, spec), Store(folder)).run()
    (folder / "calls").mkdir()
    call = {
        "command": "python benchmarks/paper_run.py run configs/x.toml",
        "circumstances": {"gpu": "GPU", "torch": "2", "triprune": "0", "date": "2026-01-02T03"},
        "seconds": {"collect": 90.0, "finals": 30.0},
        "epochs": {"collect": 6, "finals": 8},
    }
    (folder / "calls" / "a.json").write_text(json.dumps(call))
    return folder


@pytest.fixture
def recorded(report, finished):
    """Return the record of the run, as if it had been of the paper's ResNet-56."""
    return {**report.record(finished), "model": "resnet56"}


def by_three_seeds(run: dict) -> dict:
    """Return the run as if its models had been tested with a third seed."""
    run = copy.deepcopy(run)
    for row in run["budgets"][0]["test"]["rows"]:
        if len(row["accuracies"]) == 2:
            row["accuracies"].append(sum(row["accuracies"]) / 2)
    return run


def root_of(folder: Path, *runs: dict) -> Path:
    (folder / "README.md").write_text(README)
    for run in runs:
        path = folder / "results" / "cifar10" / f"{run['name']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run))
    return folder


def test_the_pages_in_the_repository_are_what_the_records_say(report):
    report.write_page(ROOT, check=True)


def test_prose_tells_where_joint_stands_on_average(prose):
    told = prose("docs/results/cifar10.md").partition("On average over the originals")[2]
    depth, width, resolution = re.findall(r"\+(\d\.\d\d ± \d\.\d\d) points beside", told)
    of_depth, of_width, _ = (
        each.removeprefix("+") for each in re.findall(r"median ([+-]\d\.\d\d)", told)
    )
    decision = prose(DECISION)
    for text in (prose("README.md"), decision):
        assert f"stands {depth} points before depth alone" in text
        assert f"{width} before width alone" in text
        assert f"{resolution} before resolution alone" in text
    assert f"median is {of_depth}, beside width {of_width}" in decision


def test_prose_tells_how_often_intervals_held_and_what_is_lost_by_all_images(prose):
    page, readme, decision = map(prose, ("docs/results/cifar10.md", "README.md", DECISION))
    rows = re.findall(r"\| ([a-z0-9-]+) \| (?:\d+%)? ?\| (\d+) \| (\d+) \| \d+ \| (\d+) \|", page)
    counts = {name: [int(each) for each in found] for name, *found in rows}
    first = [
        counts[f"cifar10-{name}"]
        for name in ("resnet56", "public-resnet56", "resnet32", "densenet40")
    ]
    trained, held, _ = (sum(column) for column in zip(*first, strict=True))
    assert f"90 % intervals held {held} of the {trained} final models of the first four" in decision
    trained, held, fitted = counts["all"]
    assert f"{held} of {trained} in all" in decision
    assert f"fitted to these very models, they hold {fitted}." in decision
    assert f"({held} of {trained}) lie in the 90 % interval" in readme
    assert f"fitted afterwards, brings {fitted} in" in readme
    lost = {
        name: points
        for name, *points in re.findall(
            r"\| cifar10-([a-z0-9-]+) \| 50% \| ([+-][\d.]+) \| \+([\d.]+) \| -([\d.]+) \|", page
        )
    }
    (_, one, gain), (_, other, second) = lost["resnet56"], lost["resnet32"]
    assert f"(by validation {one} and {other} points)" in readme
    assert f"by validation they lose {one} and {other}, over all 15,000" in decision
    assert f"over all 15,000 images they gain {gain} and {second}." in decision


def test_the_decision_tells_what_a_run_off_would_have_picked(prose):
    page = prose("docs/results/cifar10.md").partition("## Validation against the test")[2]
    adr = prose("docs/adr/0107-a-run-off.md")
    close, far = re.findall(r"Of (\d+) pairs .*? validation has (\d+) .*? forecast (\d+)\.", page)
    assert f"Of {close[0]} pairs" in adr
    assert f"validation has {close[1]} in the order of the test, the forecast {close[2]}" in adr
    assert f"of {far[0]} pairs farther apart {far[1]} and {far[2]}." in adr
    rows = re.findall(r"\| \d+% \| ([a-z =]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", page)
    assert [row[0] for row in rows if "=" in row[0]] == ["joint = depth"]
    others = [row for row in rows if "=" not in row[0]]
    assert (len(rows), len(others)) == (11, 10)
    assert sum(won == "joint" for won, *_ in others) == 7
    assert sum(float(joint) >= float(best) for _, _, joint, best in others) == 4
    gains = [float(test) - float(joint) for won, test, joint, _ in others if won != "joint"]
    assert [round(each, 2) for each in gains] == [0.08, -0.48, 0.37]


def test_a_record_holds_everything_but_weights_and_paths(recorded):
    assert recorded["original"]["accuracy"] == pytest.approx(0.94)
    assert [each["axis"] for each in recorded["observations"]] == (
        ["depth"] * 2 + ["width"] * 2 + ["resolution"] * 2
    )
    for each in recorded["observations"]:
        assert each["accuracy"] == pytest.approx(accuracy(Scale(*each["scale"])))
        assert 0 < each["macs"] < recorded["original"]["macs"]
    (at,) = recorded["budgets"]
    assert set(at["choices"]) == set(at["finals"]) == {"joint", "depth", "width", "resolution"}
    assert [each["seed"] for each in at["finals"]["joint"]] == [0, 1]
    assert [row["name"] for row in at["test"]["rows"]][:2] == ["original", "joint"]
    text = json.dumps(recorded)
    assert len(text) < 100_000
    assert "tmp" not in text


def test_the_page_tells_what_was_measured_beside_the_paper(report, recorded, tmp_path):
    root = root_of(tmp_path, by_three_seeds(recorded))
    report.write_page(root, check=False)
    text = (root / "docs" / "results" / "cifar10.md").read_text()
    (at,) = recorded["budgets"]
    joint = next(row for row in at["test"]["rows"] if row["name"] == "joint")
    expected = 100 * accuracy(Scale(*joint["scale"]))
    assert f"| joint | {expected:.2f} ± 0.00 | +{94 - expected:.2f} |" in text
    assert "| 93.76 |" in text
    assert "is at least as good as every single axis" in text
    assert "the paper has -0.07" in text
    assert "The search took 6 epochs of fine-tuning; the paper's takes 480." in text
    assert "Minutes of wall-clock: 2.0 on GPU (collect 1.5, finals 0.5)." in text
    assert "of 8 measurements" in text
    assert "GPU, torch 2, triprune 0, 2026-01-02." in text
    readme = (root / "README.md").read_text()
    assert readme.startswith("Before.\n")
    assert readme.endswith("After.\n")
    assert f"| cifar10-resnet56 | 50% | 94.00 | {expected:.2f} ± 0.00 |" in readme
    assert "old" not in readme
    picture = ElementTree.parse(root / "docs" / "results" / "cifar10.svg").getroot()
    labels = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"original", "joint", "depth only", f"{expected:.2f}"} <= set(labels)
    report.write_page(root, check=True)
    (root / "README.md").write_text(readme.replace("94.00", "95.00"))
    with pytest.raises(SystemExit, match=r"README\.md is out of date"):
        report.write_page(root, check=True)


def test_minutes_are_told_by_device_and_say_what_they_leave_out(report, recorded):
    run = copy.deepcopy(recorded) | {"baseline": baseline_of(160)}
    (call,) = run["calls"]
    page = report.page([run])
    assert "finals 0.5). Training the original is not among them." in page
    on_cpu = copy.deepcopy(call) | {"seconds": {"survey": 60.0}, "epochs": {}}
    on_cpu["circumstances"] |= {"gpu": None, "cpu": "CPU", "threads": 2}
    call["seconds"]["baseline"], call["epochs"]["baseline"] = 120.0, 133
    page = report.page([run | {"calls": [on_cpu, call]}])
    assert (
        "Minutes of wall-clock: 1.0 on a CPU (survey 1.0); 4.0 on GPU (baseline 2.0, collect 1.5, "
        "finals 0.5). Of the original's 160 epochs 133 are among them."
    ) in page
    call["epochs"]["baseline"] = 160
    assert "finals 0.5).\n" in report.page([run])


def baseline_of(epochs: int) -> dict:
    images = {"images": 45_000, "validation_images": 5_000, "validation_accuracy": 0.93}
    return images | {"recipe": {"epochs": epochs}}


def at_budgets(recorded, *budgets):
    """Return the run as if it had been finished at several budgets: less macs, less accuracy."""
    run = copy.deepcopy(recorded) | {"name": "cifar10-resnet56-figure1", "budgets": []}
    for budget in budgets:
        (at,) = copy.deepcopy(recorded["budgets"])
        for row in at["test"]["rows"][1:]:
            row["macs"] = round(budget * run["original"]["macs"])
            lost = 0.02 if row["name"] == "joint" else 0.04
            row["accuracies"] = [0.94 - lost * (1 - budget)]
        run["budgets"].append(at | {"budget": budget})
    return run


def test_several_budgets_are_a_table_and_a_picture_of_their_own(report, recorded, tmp_path):
    root = root_of(tmp_path, recorded, at_budgets(recorded, 0.7, 0.25, 0.5))
    report.write_page(root, check=False)
    text = (root / "docs" / "results" / "cifar10.md").read_text()
    table = text.partition("### All budgets\n")[2].partition("\n\n!")[0].splitlines()[3:]
    assert [line.split(" | ")[0] for line in table] == ["| 70%", "| 50%", "| 25%"]
    assert table[-1].endswith("| 92.50 | 91.00 | 91.00 | 91.00 | +1.50 |")
    picture = ElementTree.parse(root / "docs" / "results" / "cifar10-resnet56-figure1.svg")
    lines = list(picture.getroot().iter("{http://www.w3.org/2000/svg}polyline"))
    assert [len(line.attrib["points"].split()) for line in lines] == [3] * 4
    labels = list(picture.getroot().iter("{http://www.w3.org/2000/svg}text"))
    named = {each.text: float(each.attrib["y"]) for each in labels if each.text in SPENDS}
    assert set(named) == set(SPENDS)
    heights = sorted(named.values())
    assert all(below - above >= 15 for above, below in pairwise(heights))
    alone = ElementTree.parse(root / "docs" / "results" / "cifar10.svg").getroot()
    assert not [each for each in alone.iter() if "figure1" in (each.text or "")]
    readme = (root / "README.md").read_text()
    assert re.findall(r"docs/results/[a-z0-9-]+\.svg", readme) == [
        "docs/results/cifar10-resnet56-figure1.svg"
    ]
    report.write_page(root, check=True)


def test_a_control_that_wins_and_a_drop_too_large_are_said(report, recorded, tmp_path):
    lost = copy.deepcopy(recorded)
    rows = {row["name"]: row for row in lost["budgets"][0]["test"]["rows"]}
    rows["joint"]["accuracies"] = [0.90, 0.91]
    rows["depth"]["accuracies"] = [0.92, 0.92]
    rows["width"]["accuracies"] = rows["resolution"]["accuracies"] = [0.89, 0.90]
    page = report.page([lost])
    assert "NOT as good as every single axis: -1.50 points against depth, the best of them" in page
    assert "with a standard error of 0.50 over the seeds (not clear: " in page
    rows["depth"]["accuracies"] = [0.97, 0.98]
    ahead = "-7.00 points against depth, the best of them, with a standard error of 0.71"
    assert f"{ahead} over the seeds (clear by the seeds)." in report.page([lost])
    rows["depth"]["accuracies"] = [0.92, 0.92]
    rows["joint"]["accuracies"] = [0.91, 0.94]
    page_of_luck = report.page([lost])
    assert "+0.50 points against depth" in page_of_luck
    assert "error of 1.50 over the seeds (not clear: other seeds may turn it round)" in page_of_luck
    rows["joint"]["accuracies"] = [0.92]
    assert "+0.00 points against depth, the best of them, by one seed." in report.page([lost])
    assert "a drop of at most 0.2 points: NOT met (+3.50)" in page
    assert "| joint | 90.50 ± 0.71 |" in page


def test_forecasts_are_held_against_what_followed(report, recorded):
    told = copy.deepcopy(recorded)
    (at,) = told["budgets"]
    at["choices"] = {"joint": at["choices"]["joint"], "depth": at["choices"]["depth"]}
    at["choices"]["joint"]["choice"] |= {"predicted_accuracy": 0.93, "interval": [0.92, 0.94]}
    at["choices"]["depth"]["choice"] |= {"predicted_accuracy": 0.90, "interval": [0.89, 0.91]}
    for spends, scores in {"joint": (0.932, 0.944), "depth": (0.92, 0.92)}.items():
        for final, score in zip(at["finals"][spends], scores, strict=True):
            final["accuracy"] = score
    page = report.page([told])
    assert "| joint | 93.00 | 92.00–94.00 | 93.80 ± 0.85 | 0.80 | 1 of 2 |" in page
    assert "| depth | 90.00 | 89.00–91.00 | 92.00 ± 0.00 | 2.00 | 0 of 2 |" in page
    assert "Mean absolute error 1.40 points; the interval covered 1 of 4 measurements." in page
    page = report.page([told | {"round_epochs": 80, "final_epochs": 80}])
    assert "no choice depends" not in page
    page = report.page([told | {"round_epochs": 10, "final_epochs": 80}])
    assert "rounds of 10 epochs reach; the final fine-tuning has 80" in page
    assert "+1.40 points from their forecasts" in page
    assert "the mean absolute error is 0.60 points" in page
    told["original"]["accuracy"] = 0.95  # forecast to lose 2 and 5 points, they lose 1.2 and 3
    page = report.page([told | {"round_epochs": 10, "final_epochs": 80}])
    assert "lose 0.60 of what was forecast" in page
    assert "With that factor instead, fitted to them, the error is 0.00 points." in page


def test_the_readme_shows_what_three_seeds_compare_and_the_page_everything(
    report, recorded, tmp_path
):
    compared = by_three_seeds(recorded)
    alone = copy.deepcopy(compared) | {"name": "cifar10-resnet56-alone", "validation": "test:9"}
    alone["budgets"][0]["test"]["rows"] = alone["budgets"][0]["test"]["rows"][:2]
    few = copy.deepcopy(recorded) | {"name": "cifar10-resnet56-few"}
    found = report.pages(root_of(tmp_path, compared, alone, few))
    readme, page = found[tmp_path / "README.md"], found[tmp_path / "docs/results/cifar10.md"]
    assert "| cifar10-resnet56 | 50% | 94.00 |" in readme
    assert "alone" not in readme
    assert "few" not in readme
    for name in ("cifar10-resnet56", "cifar10-resnet56-alone", "cifar10-resnet56-few"):
        assert f"| {name} | 50% | 94.00 |" in page
    assert "| – | – | – |" in page
    assert "(cifar10.svg)" in page
    picture = found[tmp_path / "docs" / "results" / "cifar10.svg"]
    assert "cifar10-resnet56, 50%" in picture
    assert "alone" not in picture


def test_without_single_axes_there_is_no_picture(report, recorded, tmp_path):
    alone = copy.deepcopy(recorded)
    alone["budgets"][0]["test"]["rows"] = alone["budgets"][0]["test"]["rows"][:2]
    found = report.pages(root_of(tmp_path, alone))
    assert not [path for path in found if path.suffix == ".svg"]
    assert not [text for text in found.values() if "svg" in text]
    assert "No run has been measured with three seeds yet" in found[tmp_path / "README.md"]


def test_a_run_that_was_given_observations_says_whose(report, recorded):
    longer = copy.deepcopy(recorded) | {"name": "cifar10-resnet56-finals160", "final_epochs": 160}
    gentle = copy.deepcopy(recorded) | {"name": "cifar10-resnet56-gentle"}
    gentle["settings"]["recipe"] |= {"distillation": 0.0, "final_rate": 0.02}
    page = report.page([recorded, longer, gentle])
    assert page.count("### Observations") == 1
    assert page.count("The search took") == 1
    assert page.count("No search: the observations are those of cifar10-resnet56.") == 2
    assert "80 at the end, from a rate of 0.02 without a teacher." in page
    shorter = copy.deepcopy(recorded) | {"name": "cifar10-shorter", "round_epochs": 10}
    for each in shorter["observations"]:
        each["epochs"] = 10
    page = report.page([recorded, longer, shorter])
    table = page.partition("## Epochs a round")[2]
    assert [line.split(" ")[1] for line in table.splitlines() if line[:3] in ("| 4", "| 1")] == [
        "40",
        "10",
    ]


def test_a_run_that_was_given_some_chains_and_final_models_says_which(report, recorded):
    first = recorded | {"validation": "test:1000"}
    judged = copy.deepcopy(first) | {"name": "cifar10-other-judge"}
    judged["settings"]["block_importance"] = "probe_per_cost"
    for each in judged["observations"]:
        if each["axis"] == "depth":
            each["accuracy"] += 0.001
    at = judged["budgets"][0]
    for spends in ("joint", "depth"):
        for final in at["finals"][spends]:
            final["accuracy"] += 0.001
    page = report.page([first, judged])
    lent = next(line for line in page.splitlines() if line.startswith("| cifar10-other-judge"))
    assert [cell.endswith("†") for cell in lent.split(" | ")[2:7]] == [False] * 3 + [True] * 2
    assert page.count("† Trained in a run above or in a study.") == 1
    told = page.partition("## cifar10-other-judge")[2]
    depth = [each["epochs"] for each in recorded["observations"] if each["axis"] == "depth"]
    assert f"The search took {sum(depth)} epochs of fine-tuning; the paper's takes 480." in told
    assert "The observations of width and resolution are those of cifar10-resnet56." in told
    assert "The final models of width and resolution are those of cifar10-resnet56." in told
    assert "Blocks are judged by probe_per_cost." in told
    assert "### Observations" in told
    assert "## Epochs a round" not in page
    # Two finals of the second run are trainings of its own; the rest are counted once.
    seeds = len(at["finals"]["joint"])
    assert f"(6 models, {6 * seeds} trainings)" in page


def test_a_run_of_the_joint_model_alone_is_told_beside_the_axes_of_another(
    report, recorded, tmp_path
):
    deeper = copy.deepcopy(recorded) | {"name": "cifar10-resnet56-deeper"}
    deeper["settings"] |= {"controls": False, "chains_to": 0.25}
    for each in deeper["observations"]:
        each["accuracy"] -= 0.001
    (at,) = deeper["budgets"]
    at["test"]["rows"] = at["test"]["rows"][:2]
    at["finals"] = {"joint": at["finals"]["joint"]}
    found = report.pages(root_of(tmp_path, recorded, deeper))
    page = found[tmp_path / "docs" / "results" / "cifar10.md"]
    told = page.partition("## cifar10-resnet56-deeper")[2]
    assert "it chose the joint model of cifar10-resnet56." in told
    assert "it chose" not in page.partition("## cifar10-resnet56-deeper")[0]
    assert "The final models of joint and depth and width and resolution are those of" in told
    rows = {row["name"]: row for row in recorded["budgets"][0]["test"]["rows"]}
    depth = f"| depth | {100 * sum(rows['depth']['accuracies']) / 2:.2f} ± 0.00 |"
    (line,) = [line for line in told.splitlines() if line.startswith(depth)]
    assert line.endswith("| – | 93.27 |")
    at["choices"]["joint"]["choice"]["scale"] = [0.5, 0.5, 0.5]
    found = report.pages(root_of(tmp_path, recorded, deeper))
    assert "it chose" not in found[tmp_path / "docs" / "results" / "cifar10.md"]
    deeper["observations"][0]["params"] += 1  # the same depth, by other blocks
    found = report.pages(root_of(tmp_path, recorded, deeper))
    page = found[tmp_path / "docs" / "results" / "cifar10.md"]
    assert "The final models of joint are those of cifar10-resnet56." in page


def test_the_noise_of_a_training_is_told_by_seeds_and_judges(report, recorded):
    assert "The noise of a training" not in report.page([recorded])  # it names no judges
    told = copy.deepcopy(recorded) | {"validation": "test:1000"}
    (at,) = told["budgets"]
    for spends, finals in at["finals"].items():
        predicted = at["choices"][spends]["choice"]["predicted_accuracy"]
        at["choices"][spends]["choice"]["interval"] = [predicted - 1e-6, predicted + 1e-6]
        for final, step in zip(finals, (0.004, -0.004), strict=True):
            final["accuracy"] = predicted + step
    page = report.page([told])
    shares = [
        2 * 0.004**2 * 1000 / (p * (1 - p))
        for p in (each["choice"]["predicted_accuracy"] for each in at["choices"].values())
    ]
    assert f"vary on validation with {sum(shares) / 4:.2f} of the variance" in page
    assert "(4 models, 8 trainings)" in page
    # Noiseless observations leave no interval of their own; 1,000 judges leave 0.7 points and more.
    assert "| cifar10-resnet56 | 50% | 8 | 0 | 8 | 8 |" in page
    assert "| all | | 8 | 0 | 8 | 8 |" in page
    twice = report.page([told, copy.deepcopy(told) | {"name": "cifar10-again"}])
    assert "| all | | 16 | 0 | 16 | 16 |" in twice


def test_a_drop_is_told_by_the_test_by_validation_and_by_all_images(report, recorded):
    run = copy.deepcopy(recorded) | {"validation": "test:2500"}
    (at,) = run["budgets"]
    rows = {row["name"]: row for row in at["test"]["rows"]}
    rows["joint"]["accuracies"] = [0.93, 0.93]  # a point lost of 94
    for final in at["finals"]["joint"]:
        final["accuracy"] = 0.91  # three points lost of 94
    assert "| cifar10-resnet56 | 50% | +1.00 | +3.00 | +1.50 |" in report.page([run])
    own = run | {"validation": None, "baseline": baseline_of(160)}  # 5,000 beside 10,000
    assert "| cifar10-resnet56 | 50% | +1.00 | +3.00 | +1.67 |" in report.page([own])
    assert "| +3.00 |" not in report.page([run | {"validation": None}])


def test_a_run_off_on_validation_is_held_against_the_test(report, recorded):
    def scored(name, validation, test):
        """Return the run with these percentages, and a pair of seeds about each."""
        run = copy.deepcopy(recorded) | {"name": name}
        (at,) = run["budgets"]
        rows = {row["name"]: row for row in at["test"]["rows"]}
        for spends, judged, tested in zip(SPENDS, validation, test, strict=True):
            for final, step in zip(at["finals"][spends], (0.1, -0.1), strict=True):
                final["accuracy"] = (judged + step) / 100
            rows[spends]["accuracies"] = [tested / 100, tested / 100]
        return run

    kept = scored("cifar10-kept", (93.0, 92.9, 92.0, 91.0), (92.5, 92.0, 92.2, 91.2))
    lost = scored("cifar10-lost", (93.05, 93.2, 92.4, 91.5), (92.5, 92.1, 92.6, 91.5))
    lost["original"]["accuracy"] += 0.001  # another original
    told = report.page([kept, lost]).partition("## Validation against the test")[2]
    assert "| cifar10-kept | 50% | joint | 92.50 | 92.50 | 92.20 |" in told
    assert "| cifar10-lost | 50% | depth | 92.10 | 92.50 | 92.60 |" in told
    # Joint leads depth by 0.5 and 0.4, width by 0.3 and -0.1, resolution by 1.3 and 1.0.
    assert (
        "stands +0.45 ± 0.05 points beside depth (2 comparisons of 2 originals, median +0.45), "
        "+0.10 ± 0.20 points beside width (2 comparisons of 2 originals, median +0.10), "
        "+1.15 ± 0.15 points beside resolution (2 comparisons of 2 originals, median +1.15) alone"
    ) in told
    again = [copy.deepcopy(kept) | {"name": f"cifar10-again{i}"} for i in range(2)]
    told_thrice = report.page([kept, *again, lost])
    assert (
        "+0.45 ± 0.05 points beside depth (4 comparisons of 2 originals, median +0.50)"
        in told_thrice
    )
    # Joint and depth are 0.1 and 0.15 points apart, and turn round in the second run; the forecast
    # puts joint before depth and depth before width.
    close = "validation has 1 in the order of the test and the forecast 2."
    assert "Of 2 pairs of joint, depth and width of one budget that are less than 0.3" in told
    assert close in told
    # Of the others both runs turn depth and width round, the second joint and width, too.
    far = "validation has 1 in the order of the test and the forecast 1."
    assert "Of 4 pairs of joint, depth and width of one budget that are 0.3 or more" in told
    assert far in told
    given = copy.deepcopy(lost)  # depth and width of the second run as of the first
    for spends in ("depth", "width"):
        given["budgets"][0]["finals"][spends] = kept["budgets"][0]["finals"][spends]
    told = report.page([kept, given]).partition("## Validation against the test")[2]
    assert "Of 2 pairs of joint" in told
    assert "Of 3 pairs of joint" in told
    same = copy.deepcopy(lost)  # a joint choice that is depth alone
    rows = {row["name"]: row for row in same["budgets"][0]["test"]["rows"]}
    rows["joint"]["scale"] = rows["depth"]["scale"]
    told = report.page([kept, same]).partition("## Validation against the test")[2]
    assert "| cifar10-lost | 50% | joint = depth |" in told
    assert "points beside depth (" not in told
    assert "points beside width (2 comparisons" in told
    assert "On average" not in report.page([kept])
    alone = copy.deepcopy(recorded)
    alone["budgets"][0]["test"]["rows"] = alone["budgets"][0]["test"]["rows"][:2]
    assert "## Validation against the test" not in report.page([alone])


def test_none_several_and_unfinished_runs(report, recorded, tmp_path):
    root = root_of(tmp_path)
    report.write_page(root, check=False)
    assert "Not measured yet." in (root / "docs" / "results" / "cifar10.md").read_text()
    assert "No run has been measured with three seeds yet" in (root / "README.md").read_text()
    shorter = copy.deepcopy(recorded) | {"name": "cifar10-resnet56-rounds10", "round_epochs": 10}
    shorter["budgets"] = [shorter["budgets"][0] | {"test": None, "finals": {}}]
    for each in shorter["observations"]:
        each["accuracy"] -= 0.004
        each["epochs"] = 10
    other = shorter["budgets"][0]["choices"]["joint"]["choice"]["scale"] = [1.0, 0.75, 0.9]
    begun = copy.deepcopy(shorter) | {"name": "cifar10-another", "model": "resnet32"}
    begun |= {"budgets": [], "calls": [], "predictor": None}
    begun["observations"] = begun["observations"][:1]
    report.write_page(root_of(tmp_path, by_three_seeds(recorded), shorter, begun), check=False)
    text = (root / "docs" / "results" / "cifar10.md").read_text()
    sections = [line for line in text.splitlines() if line.startswith("## ")]
    assert sections == [
        "## All runs",
        "## cifar10-resnet56",
        "## cifar10-another",
        "## cifar10-resnet56-rounds10",
        "## Epochs a round",
        "## Validation against the test",
    ]
    predictor = Predictor.from_dict(recorded["predictor"])
    best = recorded["budgets"][0]["choices"]["joint"]["choice"]["predicted_accuracy"]
    lost = 100 * (best - predictor(Scale(*other)))
    assert f"| 10 | 60 | 1.5 | 0.40 | 1.00 / 0.75 / 0.90 | {lost:.2f} |" in text
    assert "No final model has been measured yet." in text
    assert (root / "README.md").read_text().count("| cifar10-") == 1
