"""A GPU's compiler takes every kernel that training asks for: the interpreter cannot tell."""

import pytest

pytest.importorskip("triton")


@pytest.mark.parametrize(
    ("capability", "model", "kernels"), [(90, "densenet40", 30), (80, "resnet20", 15)]
)
def test_kernels_are_compiled_without_a_gpu_and_found_elsewhere(
    run, monkeypatch, tmp_path, capability, model, kernels
):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    asked = [model, "--batch", 8, "--capability", capability]
    told = run("compile_ahead.py", *asked, "--out", tmp_path / "here")
    assert int(told.splitlines()[-1].split()[0]) > kernels
    (tmp_path / "here").rename(tmp_path / "there")
    told = run("compile_ahead.py", *asked, "--out", tmp_path / "there")
    assert told.splitlines()[-1].startswith("0 kernels")
