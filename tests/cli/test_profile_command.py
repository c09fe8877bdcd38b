import json

import pytest
from safetensors.torch import save_file
from typer.testing import CliRunner

from triprune import build_model
from triprune.cli import app
from triprune.errors import InputError, ModelError


@pytest.fixture
def run():
    def invoke(*arguments):
        return CliRunner().invoke(
            app, ["profile", *arguments], env={"COLUMNS": "80"}, catch_exceptions=False
        )

    return invoke


def test_the_table_fits_eighty_columns_and_says_what_is_counted(run):
    result = run("resnet20")
    assert result.exit_code == 0
    assert "resnet20 at 3×32×32: 40.55 M macs, 269.7 k params" in result.stdout
    assert "multiply-adds" in result.stdout
    assert "layer3.2.conv2" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_json_holds_the_same_numbers(run):
    content = json.loads(
        run("resnet20", "--json", "--input-size", "16", "--num-classes", "5").stdout
    )
    assert content["input_shape"] == [3, 16, 16]
    assert content["macs"] == sum(layer["macs"] for layer in content["layers"])
    assert content["layers"][-1]["output_shape"] == [5]
    assert content["latency"] is None
    assert len(content["blocks"]["blocks"]) == 7
    assert [axis["axis"] for axis in content["axes"]] == ["depth", "width", "resolution"]


def test_blocks_and_axes_are_printed(run):
    text = run("resnet20").stdout
    assert "layer3.2" in text
    assert "7 of 9 blocks can go" in text
    assert "stays: layer2.0" in text
    assert "16×16 px" in text
    assert "no block can go" in run("vgg16-bn").stdout


def test_latency_and_weights(run, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(build_model("resnet20").state_dict(), path)
    content = json.loads(
        run("resnet20", "--json", "--latency", "--batch-size", "2", "--weights", str(path)).stdout
    )
    assert content["latency"]["median_ms"] > 0
    assert content["latency"]["batch_size"] == 2
    assert "latency" in run("resnet20", "--latency").stdout


def test_what_was_not_counted_is_printed(run, tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Far(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.cdist(x, x)\n"
    )
    result = run(f"{tmp_path}/net.py:Far", "--input-size", "8x6")
    assert "not counted: aten::_cdist_forward" in result.stdout


@pytest.mark.parametrize("size", ["0", "x", "3x3x3x3", "32px", "-4"])
def test_a_senseless_size_is_refused(run, size):
    with pytest.raises(InputError, match="write 32, 24x32 or 3x24x32"):
        run("resnet20", "--input-size", size)


def test_an_unknown_model_is_refused(run):
    with pytest.raises(ModelError, match="near it"):
        run("resnet21")
