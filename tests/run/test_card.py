"""The model card: valid for Hugging Face, true to the run, safe against odd names."""

from dataclasses import replace

import pytest
from huggingface_hub import ModelCard

from triprune.core.measured import Judged
from triprune.core.scale import Scale
from triprune.export.front import Front
from triprune.run.about import About, Making
from triprune.run.card import model_card
from triprune.run.usage import GraphFile

ROWS = (
    Judged("original", Scale(), 32, (0.93,), 125_747_840, 855_770, 12.0),
    Judged("joint", Scale(0.8, 0.8, 0.9), 29, (0.92, 0.94), 62_000_000, 400_000, 7.0),
)
MAKING = Making("resnet56", "cifar10", 0.5, "macs", 0, 99, {"rate": 0.1}, "cpu", "0.1.0")
ABOUT = About((3, 32, 32), 29, ("cat", "dog"), (0.5,) * 3, (0.2,) * 3, ROWS, MAKING, ("a note",))


def test_hugging_face_reads_it():
    card = ModelCard(model_card(ABOUT))
    (result,) = card.data.eval_results
    assert card.data.pipeline_tag == "image-classification"
    assert result.metric_value == pytest.approx(0.93)
    assert result.dataset_name == "cifar10"
    assert "| joint | 0.9300 ± 0.0141 | 62,000,000 | 400,000 | 29 | 7.00 |" in card.text
    assert "over 2 seeds (mean ± standard deviation)" in card.text
    assert 'build=lambda: triprune.build_model("resnet56", num_classes=2)' in card.text
    assert "29×29; pixels scaled to [0, 1], then mean (0.5, 0.5, 0.5)" in card.text
    assert "- note: a note" in card.text


def test_names_from_files_stay_text():
    odd = 'x": {evil}\n---\n# <script>|`rm`'
    about = replace(ABOUT, making=replace(MAKING, data=odd, model=odd), classes=(odd, "b"))
    card = ModelCard(model_card(about))
    assert card.data.eval_results[0].dataset_name == odd
    assert "<script>" not in card.text.replace("\\<", "").replace("\\>", "")
    assert "build=make_the_original_model" in card.text


def test_one_seed_says_so_and_a_task_without_classes_is_no_classification():
    single = replace(ROWS[1], accuracies=(0.7,))
    text = model_card(replace(ABOUT, rows=(ROWS[0], single), classes=(), mean=(), std=()))
    assert "over 1 seed (no spread is known)" in text
    assert "pipeline_tag" not in text
    assert "as in your training" in text


def test_a_class_is_no_name_to_build_by():
    about = replace(ABOUT, making=replace(MAKING, model="cifarnet"))
    assert "build=make_the_original_model" in model_card(about)


def test_a_graph_is_used_without_triprune():
    front = Front(29, 32, ABOUT.mean, ABOUT.std)
    text = model_card(ABOUT, GraphFile("model.onnx", front))
    assert 'onnxruntime.InferenceSession("model.onnx")' in text
    assert "uint8 pixels, 0 to 255, of any size (the centred square is cut out" in text
    assert "import triprune" not in text
    own = replace(ABOUT, classes=(), mean=(), std=())
    text = model_card(own, GraphFile("model.pt2", Front()))
    assert 'torch.export.load("model.pt2")' in text
    assert "np.zeros((1, 3, 29, 29), np.float32)" in text
    assert "normalised float32 of 29 px a side, as in your training" in text


def test_about_comes_back_as_it_was():
    assert About.from_json(ABOUT.to_json()) == ABOUT
