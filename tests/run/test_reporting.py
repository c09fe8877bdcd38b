"""A report from a run folder: finished, unfinished, benched, and for another budget."""

import shutil
from pathlib import Path

import pytest

from triprune.core.measured import Timed
from triprune.core.scale import AXES
from triprune.errors import ArtifactError, InputError, RunError
from triprune.report.page import to_page
from triprune.report.text import to_text
from triprune.run.artifacts import Bench
from triprune.run.compress import compress
from triprune.run.fake import FakeTrainer
from triprune.run.keys import bench_key
from triprune.run.reporting import report_on_run
from triprune.run.spec import Settings
from triprune.run.store import Store


@pytest.fixture(scope="module")
def report(real_run):
    return report_on_run(real_run[0])


def test_a_finished_run_tells_everything(real_run, report):
    folder, _, result = real_run
    assert report.state == "finished"
    assert report.subject == f"the run in {folder.name}"
    assert len(report.observations) == 7
    assert [m.name for m in report.comparison.models] == ["original", "joint", *AXES]
    assert report.comparison.model("joint").accuracy == result.accuracy
    assert [q.budget for q in report.chosen] == [0.5]
    assert report.chosen[0].choice.cost == result.macs / report.spending.whole
    groups = [curve.group for curve in report.curves]
    assert {name: groups.count(name) for name in groups} == dict.fromkeys(AXES, 2) | {"final": 8}
    facts = dict(report.facts)
    assert "torch" in facts["versions"]
    assert facts["rounds of each chain"] == "2"
    page = to_page(report)
    assert "Against the controls" in page
    assert "What it still sees" in page
    assert len(page) < 1_000_000
    assert "joint: all axes" in to_text(report)


def test_the_surgery_is_what_the_model_has(real_run, report):
    _, _, result = real_run
    small = dict(result.model.named_modules())
    for layer in report.surgery.layers:
        kept = getattr(small.get(layer.name), "out_channels", 0)
        assert layer.kept == kept
        assert layer.whole == 12
    assert report.surgery.removed == set(result.plan.removed_blocks)


def copied(source: Path, target: Path, *, without: tuple[str, ...]) -> Path:
    shutil.copytree(source, target)
    for pattern in without:
        for path in target.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return target


def test_an_unfinished_run_tells_what_is_there(real_run, tmp_path):
    parts = ("budget-*", "predictor.json", "chains/width-2.*", "chains/resolution-*")
    some = report_on_run(copied(real_run[0], tmp_path / "some", without=parts))
    assert some.state == "stopped, not finished: 3 of at most 6 rounds so far"
    assert len(some.observations) == 4
    assert some.comparison is None
    assert "Not finished yet" in to_page(some)
    assert "3 of at most 6 rounds" in to_text(some)
    parts = ("budget-*", "predictor.json", "chains", "survey.json")
    begun = report_on_run(copied(real_run[0], tmp_path / "begun", without=parts))
    assert begun.observations == ()
    assert "Not finished yet" in to_page(begun)


def test_a_bench_is_shown(real_run, tmp_path):
    folder = copied(real_run[0], tmp_path / "run", without=())
    rows = (
        Timed("original", 1.0, 1, 9.0, 8.0, 10.0, 30, 2**20),
        Timed("joint", 0.5, 1, 3.0, 2.9, 3.1, 30, None),
    )
    bench = Bench("cpu", "onnxruntime", "a CPU", 2, {"onnxruntime": "1.31"}, "2026-11-16", rows)
    Store(folder).write(bench_key(bench), bench)
    found = report_on_run(folder)
    assert found.speed[0].rows == rows
    page = to_page(found)
    assert "3.00 ×" in page
    assert "measured by onnxruntime on cpu, batch of 1" in page
    assert "a CPU, 2 threads, onnxruntime 1.31; 2026-11-16" in page


@pytest.mark.parametrize("cost", ["macs", "params", "paper"])
def test_a_run_without_images_or_epochs_is_reported_in_what_it_spends(small, tmp_path, cost):
    trainer = FakeTrainer(lambda scale: 0.9 * (scale.depth * scale.width * scale.resolution) ** 0.1)
    settings = Settings(0.6, rounds=2, cost=cost, device="cpu")
    result = compress(small.make(), trainer, budget=0.6, settings=settings, out=tmp_path)
    found = report_on_run(tmp_path)
    assert found.gallery is None
    assert found.curves == ()
    noun = {"macs": "macs", "params": "parameters", "paper": "compute"}[cost]
    assert f"At 60 % of the {noun}" in to_page(found)
    original, joint = found.comparison.models
    assert found.share(joint, original) <= 0.6
    if cost == "params":
        assert found.share(joint, original) == joint.params / original.params
        assert found.chosen[0].choice.cost == pytest.approx(joint.params / original.params)
    assert result.outcome.budget == found.comparison.budget


def test_a_run_behind_a_url_is_reported_and_its_page_put_there(triprune, real_run):
    import fsspec

    system = fsspec.filesystem("memory")
    system.put(str(real_run[0]), "/reported/run", recursive=True)
    try:
        told = triprune("report", "memory://reported/run")
        assert "memory://reported/run/report.html" in told
        assert "observations; fitted" in triprune("quote", "memory://reported/run")
        assert b"Against the controls" in system.cat_file("/reported/run/report.html")
    finally:
        system.rm("/reported", recursive=True)


def test_what_cannot_be_reported_is_refused(real_run, tmp_path):
    with pytest.raises(RunError, match="there is none"):
        report_on_run(tmp_path)
    with pytest.raises(InputError, match=r"a report on 35 % .* finished budgets are 50 %"):
        report_on_run(real_run[0], 0.35)
    folder = copied(real_run[0], tmp_path / "run", without=())
    survey = folder / "survey.json"
    survey.write_bytes(survey.read_bytes().replace(b'"macs"', b'"mscs"'))
    with pytest.raises(ArtifactError, match="checksum does not fit"):
        report_on_run(folder)
