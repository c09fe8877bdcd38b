import json

import pytest
from safetensors.torch import save_file

from triprune import build_model
from triprune.errors import InputError, ModelError


def test_the_table_fits_eighty_columns_and_says_what_is_counted(triprune):
    told = triprune("profile", "resnet20")
    assert "resnet20 at 3×32×32: 40.55 M macs, 269.7 k params" in told
    assert "multiply-adds" in told
    assert "layer3.2.conv2" in told
    assert max(len(line) for line in told.splitlines()) <= 80


def test_json_holds_the_same_numbers(triprune):
    asked = ("resnet20", "--json", "--input-size", 16, "--num-classes", 5)
    content = json.loads(triprune("profile", *asked))
    assert content["input_shape"] == [3, 16, 16]
    assert content["macs"] == sum(layer["macs"] for layer in content["layers"])
    assert content["layers"][-1]["output_shape"] == [5]
    assert content["latency"] is None
    assert len(content["blocks"]["blocks"]) == 7
    assert [axis["axis"] for axis in content["axes"]] == ["depth", "width", "resolution"]


def test_blocks_and_axes_are_printed(triprune):
    told = triprune("profile", "resnet20")
    assert "layer3.2" in told
    assert "7 of 9 blocks can go" in told
    assert "stays: layer2.0" in told
    assert "16×16 px" in told
    assert "no block can go" in triprune("profile", "vgg16-bn")


def test_latency_and_weights(triprune, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(build_model("resnet20").state_dict(), path)
    asked = ("resnet20", "--json", "--latency", "--batch-size", 2, "--weights", path)
    content = json.loads(triprune("profile", *asked))
    assert content["latency"]["median_ms"] > 0
    assert content["latency"]["batch_size"] == 2
    assert "latency" in triprune("profile", "resnet20", "--latency")


def test_what_was_not_counted_is_printed(triprune, tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Far(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.cdist(x, x)\n"
    )
    told = triprune("profile", f"{tmp_path}/net.py:Far", "--input-size", "8x6")
    assert "not counted: aten::_cdist_forward" in told


@pytest.mark.parametrize("size", ["0", "x", "3x3x3x3", "32px", "-4"])
def test_a_senseless_size_is_refused(triprune, size):
    with pytest.raises(InputError, match="write 32, 24x32 or 3x24x32"):
        triprune("profile", "resnet20", "--input-size", size)


def test_an_unknown_model_is_refused(triprune):
    with pytest.raises(ModelError, match="near it"):
        triprune("profile", "resnet21")
