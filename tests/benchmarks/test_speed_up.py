"""The speed-up's script measures what it says, and its page is what the results say."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK = ("--rounds", 2, "--threads", 1, "--bar", 0.01)


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("results") / "small.json"
    asked = ("--model", "resnet20", "--resolution-px", 32, "--round-to", 1, "--batch", 1)
    done = run("speed_up.py", "--out", out, *asked, "--runtime", "torch", *QUICK)
    assert done.returncode == 0, done.stderr
    return out


def test_every_cut_is_within_half_the_macs(measured):
    rows = json.loads(measured.read_text())["rows"]
    assert [row["name"] for row in rows] == ["original", "joint", "depth", "width", "resolution"]
    whole = rows[0]["macs"]
    assert all(0.35 * whole <= row["macs"] <= 0.5 * whole for row in rows[1:])
    assert 0.46 * whole <= rows[1]["macs"]
    assert all(0 < kept < 1 for kept in rows[1]["scale"])
    assert rows[0]["times_faster"] == 1.0


def test_the_page_tells_the_verdict(measured, tmp_path):
    page = tmp_path / "speed_up.md"
    asked = ("--results", measured.parent, "--page", page)
    assert run("speed_up_report.py", *asked).returncode == 0
    text = page.read_text()
    assert "joint in torch, batch of 1:" in text
    assert "(bar 0.01 ×): met" in text
    assert run("speed_up_report.py", *asked, "--check").returncode == 0
    page.write_text(text + "more")
    assert "out of date" in run("speed_up_report.py", *asked, "--check").stderr


def test_the_page_in_the_repository_is_what_the_results_say():
    done = run("speed_up_report.py", "--check")
    assert done.returncode == 0, done.stderr
