from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from triprune.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "resnet56_cifar10.csv"


@pytest.fixture
def shell(monkeypatch, capsys):
    """Run the command line as a shell does; return its exit code and what it printed."""

    def run(*arguments: str | Path):
        monkeypatch.setattr(sys, "argv", ["triprune", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "80")
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return stopped.value.code or 0, printed.out, printed.err

    return run


def test_the_table_has_a_row_for_every_budget_and_fits_80_columns(shell):
    code, out, _ = shell("quote", EXAMPLE)
    assert code == 0
    assert "13 observations" in out
    for budget in ("90%", "50%", "20%"):
        assert f" {budget} " in out
    assert "extrapolates: nothing was observed below width 0.60" in out
    assert max(map(len, out.splitlines())) <= 80


def test_one_budget_gives_one_row(shell):
    _, out, _ = shell("quote", EXAMPLE, "--budget", "50%")
    assert " 50% " in out
    assert " 60% " not in out


def test_json_for_machines(shell):
    _, out, _ = shell("quote", EXAMPLE, "--budget", "0.5", "--json")
    values = json.loads(out)
    (answer,) = values["quotes"]
    assert values["observations"] == 13
    assert answer["cost"] == pytest.approx(0.5)
    assert answer["interval"][0] < answer["predicted_accuracy"] < answer["interval"][1]


def test_what_was_read_as_percentages_is_told(shell, tmp_path):
    path = tmp_path / "percent.csv"
    path.write_text("depth,width,resolution,accuracy\n1,1,1,93\n0.5,1,1,90\n")
    code, out, _ = shell("quote", path, "--budget", "62.5%")
    assert code == 0
    assert "read as percentages" in out
    assert " 62.5% " in out
    _, out, _ = shell("quote", path, "--budget", "62.5%", "--json")
    assert json.loads(out)["read_as_percentages"] is True


def test_an_unknown_interval_is_null_in_json(shell, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("depth,width,resolution,accuracy\n1,1,1,-3\n")
    _, out, _ = shell("quote", path, "--budget", "1", "--json")
    assert json.loads(out)["quotes"][0]["interval"] == [None, None]


def test_scores_that_are_no_fractions_are_printed_as_they_are(shell, tmp_path):
    path = tmp_path / "scores.csv"
    rows = [f"{d},1,1,{-2 - 1 / d}" for d in (1, 0.8, 0.6, 0.5)]
    path.write_text("depth,width,resolution,accuracy\n" + "\n".join(rows))
    code, out, _ = shell("quote", path, "--budget", "50%")
    assert code == 0
    assert " -4.0" in out or " -3.9" in out
    assert " %" not in out.partition("kept fractions")[0]


@pytest.mark.parametrize("name", ["out.html", "out.png"])
def test_the_picture_is_written_where_it_was_asked_for(shell, tmp_path, name):
    code, out, _ = shell("quote", EXAMPLE, "--plot", tmp_path / name)
    assert code == 0
    assert f"Drawn to {tmp_path / name}".split("/")[-1] in out.replace("\n", "")
    assert (tmp_path / name).stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("nothing.csv",), "No such file"),
        ((EXAMPLE, "--budget", "abc"), "part of the original compute"),
        ((EXAMPLE, "--budget", "150%"), "part of the original compute"),
        ((EXAMPLE, "--plot", "picture.gif"), "use .html or .png"),
        ((EXAMPLE, "--plot", "missing/picture.png"), "its folder does not take files"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line_and_nothing_is_written(
    shell, tmp_path, monkeypatch, arguments, reason
):
    monkeypatch.chdir(tmp_path)
    code, out, err = shell("quote", *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("triprune: ")
    assert reason in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
