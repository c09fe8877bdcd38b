"""The tool that takes the README's picture says what it lacks."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "screenshot_report.py"


def test_a_missing_browser_is_named(tmp_path):
    pytest.importorskip("playwright")
    found = subprocess.run(
        [sys.executable, TOOL, "report.html", tmp_path / "x.png"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    assert "none of chromium, chromium-browser, google-chrome is installed" in found.stderr
    assert "sh tools/install_chromium.sh" in found.stderr
    assert "Traceback" not in found.stderr
