"""What tests of several folders share."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def behind_fsspec():
    """Know the protocol ``shared``; return the folder that teaches it to other processes."""
    folder = Path(__file__).parent / "behind_fsspec"
    spec = importlib.util.spec_from_file_location("behind_fsspec", folder / "sitecustomize.py")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return folder
