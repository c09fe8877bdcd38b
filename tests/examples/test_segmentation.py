import importlib.util
from pathlib import Path


def test_the_example_halves_a_segmenter(capsys):
    file = Path(__file__).parents[2] / "examples" / "segmentation.py"
    spec = importlib.util.spec_from_file_location("segmentation", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = module.main()
    original, joint = result.outcome.rows
    assert 0.97 * 0.5 <= joint.macs / original.macs <= 0.5
    assert joint.accuracy > original.accuracy - 0.1 > 0.4
    assert "joint: IoU" in capsys.readouterr().out
