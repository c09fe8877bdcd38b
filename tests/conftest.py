"""What tests of several folders share."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from triprune.cli import app
from triprune.network import latency

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Triton reads it once, when it is first imported


WARM_UP_S = latency._WARM_UP_S


@pytest.fixture(scope="session", autouse=True)
def short_warm_up():
    """Warm models up for a moment: most runs in tests time models, and few tests ask how fast."""
    latency._WARM_UP_S = 0.02
    yield
    latency._WARM_UP_S = WARM_UP_S


@pytest.fixture(autouse=True)
def whole_warm_up_where_times_are_compared(request, short_warm_up):
    if request.node.get_closest_marker("alone") is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(latency, "_WARM_UP_S", WARM_UP_S)
        yield


@pytest.fixture(scope="session")
def behind_fsspec():
    """Know the protocol ``shared``; return the folder that teaches it to other processes."""
    folder = Path(__file__).parent / "behind_fsspec"
    spec = importlib.util.spec_from_file_location("behind_fsspec", folder / "sitecustomize.py")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return folder


@pytest.fixture(scope="session")
def triprune():
    """Run a command in this process; return what it printed, or raise what it raised."""

    def run(*arguments: object, code: int = 0, columns: int = 80) -> str:
        asked = [str(each) for each in arguments]
        result = CliRunner().invoke(app, asked, env={"COLUMNS": str(columns)})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.output

    return run
