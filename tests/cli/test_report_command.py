"""``triprune report`` on a CSV; on a run it is tested with the run command."""

import subprocess
import sys
from pathlib import Path

import pytest

from triprune.errors import FileFormatError, InputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "resnet56_cifar10.csv"


def test_a_page_is_written_beside_the_csv(triprune, tmp_path):
    source = tmp_path / "a <b>.csv"
    source.write_bytes(EXAMPLE.read_bytes())
    assert str(tmp_path / "a <b>.report.html") in triprune("report", source)
    page = (tmp_path / "a <b>.report.html").read_text()
    assert "a &lt;b&gt;.csv" in page
    assert "a <b>" not in page
    assert [path.name for path in tmp_path.iterdir() if path != source] == ["a <b>.report.html"]


def test_text_writes_no_page_and_figures_go_where_they_are_asked(triprune, tmp_path):
    source = tmp_path / "o.csv"
    source.write_bytes(EXAMPLE.read_bytes())
    told = triprune("report", source, "--text", "--figures", tmp_path / "figures")
    assert "What every budget buys" in told
    assert "leave-one-out error" in told
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    kinds = ("axes", "budget", "surface")
    assert names == sorted(f"{name}.{kind}" for name in kinds for kind in ("png", "pdf"))
    assert not list(tmp_path.glob("*.html"))


def test_a_csv_needs_no_torch():
    code = f"""
import sys
from triprune.cli import app
app(["report", {str(EXAMPLE)!r}, "--text"], standalone_mode=False)
sys.exit("torch" in sys.modules or "matplotlib" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_read_is_named(triprune, tmp_path):
    with pytest.raises(FileFormatError, match="No such file"):
        triprune("report", tmp_path / "nothing.csv")
    with pytest.raises(InputError, match="not a part of the original compute"):
        triprune("report", EXAMPLE, "--budget", "150%")
    with pytest.raises(InputError, match="a budget of a CSV"):
        triprune("report", EXAMPLE, "--budget", "50%")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="it cannot be a folder"):
        triprune("report", EXAMPLE, "--figures", tmp_path / "file")
    with pytest.raises(InputError, match="its folder does not take files"):
        triprune("report", EXAMPLE, "--out", tmp_path / "missing" / "page.html")
