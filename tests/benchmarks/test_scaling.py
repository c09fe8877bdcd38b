import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "scaling.py"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_page_in_the_repository_is_what_the_measurements_say():
    done = run("--check")
    assert done.returncode == 0, done.stderr


def test_the_known_answer_of_round_speeds(tmp_path):
    """A GPU of 1 s an epoch: 30 epochs of each round, at 2.75, 2.70 and 2.70 of the whole."""
    images = 1_281_167 * (0.9 + 0.1 / 3)  # an epoch, and its validation forward only
    rows = {
        "ordinary": 1e9,
        "tf32-nhwc x1 (cuda graph)": 1.0,
        "tf32-nhwc x3 (cuda graph)": images * 4_089_184_256 / 125_485_696,
    }
    (tmp_path / "engine").mkdir()
    (tmp_path / "scaling").mkdir()
    speeds = [{"what": name, "images_per_second": speed} for name, speed in rows.items()]
    (tmp_path / "engine" / "speed_h200.json").write_text(json.dumps({"rows": speeds}))
    decode = [{"resolution_px": 224, "images_per_core_second": 100.0}]
    (tmp_path / "scaling" / "decode.json").write_text(json.dumps({"rows": decode}))
    page = tmp_path / "page.md"
    assert run("--results", tmp_path, "--page", page).returncode == 0
    lines = [line for line in page.read_text().splitlines() if "ImageNet, paper" in line]
    assert lines[0].startswith(
        "| ResNet-50, ImageNet, paper | 1 | the GPU, in turn | 4 min | 2 min"
    )
    assert "| 2 GPUs | 1 min | 0 min | 1 min |" in lines[1]  # 41 s, then four at once: 15 s
    assert "out of date" in run("--results", tmp_path, "--check").stderr
