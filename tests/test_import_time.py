from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "code",
    [
        "import triprune",
        "import triprune; triprune.Scale, triprune.fit_predictor, triprune.choose_scale",
        "import triprune.cli",
        "from triprune.run.observations import read_observations",
    ],
)
def test_torch_is_loaded_only_where_it_is_used(code):
    check = f"{code}; import sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_scipy_and_plots_wait_until_they_are_needed():
    late = "{'scipy', 'matplotlib'}"
    check = f"import triprune, triprune.cli, sys; sys.exit(bool({late} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
