"""From a finished run to files that other programs read, and what is refused on the way."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image

import triprune as tp
from triprune.errors import (
    ArchitectureError,
    ExportError,
    InputError,
    MissingExtraError,
    RunError,
    TruncatedFileError,
)
from triprune.learning.images import resize
from triprune.places import place
from triprune.run.artifacts import Outcome, TrainedModel
from triprune.run.benching import contestants_of
from triprune.run.exporting import ExportOrder, export
from triprune.run.finished import read_finished
from triprune.run.reporting import report_on_run
from triprune.run.shipping import Wanted, open_shipment
from triprune.run.store import Store


@pytest.fixture(scope="module")
def constructor(small):
    return f"{small.__file__}:make"


@pytest.fixture(scope="module")
def shipment(real_run, constructor):
    return open_shipment(real_run[0], Wanted(model=constructor))


def logits(model, images):
    with torch.no_grad():
        return model(images).numpy()


def test_onnx_takes_old_pixels_and_answers_as_the_run(
    triprune, real_run, shipment, constructor, tmp_path
):
    told = triprune(
        *("export", real_run[0], "--model", constructor, "--format", "onnx", "--out", tmp_path),
        *("--with-resize", "--with-normalisation"),
    )
    assert "from PyTorch on 16 images, the same class for 16 of them (of the run's val" in told
    assert "uint8 pixels, 0 to 255, of any size" in told
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert session.get_inputs()[0].shape == ["batch", 3, "height", "width"]
    images, about = shipment.images, shipment.about
    (found,) = session.run(None, {"images": images.numpy()})
    # As training and evaluation see them: resized to whole levels, then normalised.
    mean, std = (torch.tensor(x).view(1, -1, 1, 1) for x in (about.mean, about.std))
    seen = (resize(images, about.resolution_px).float() / 255 - mean) / std
    expected = logits(real_run[2].model, seen)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
    assert (found.argmax(1) == expected.argmax(1)).mean() > 0.9
    larger = resize(images, 45).numpy()
    assert session.run(None, {"images": larger[:3]})[0].shape == (3, 10)


def shown_in(folder: Path) -> str:
    """Return the code of a model card."""
    return (folder / "MODEL_CARD.md").read_text().partition("```python\n")[2].partition("```")[0]


@pytest.fixture(scope="module")
def uneven(shipment, tmp_path_factory):
    """Return a wide picture and a tall one, with different things beside the centred square."""
    home = tmp_path_factory.mktemp("uneven")
    first, second, third = (each.permute(1, 2, 0).numpy() for each in shipment.images[:3])
    pictures = [np.concatenate([second, first, 255 - third], axis=axis) for axis in (1, 0)]
    large = [Image.fromarray(each).resize((95, 60)) for each in pictures[:1]]
    large += [Image.fromarray(each).resize((41, 130)) for each in pictures[1:]]
    files = [home / "wide.png", home / "tall.png"]
    for file, picture in zip(files, large, strict=True):
        picture.save(file)
    return files


@pytest.fixture
def as_predicted(triprune, real_run, constructor):
    """Return what the command ``predict`` says of an image: a chance for each class."""

    def ask(file: Path) -> dict[str, float]:
        told = triprune("predict", real_run[0], file, "--model", constructor, "--top", 10)
        pairs = [each.rpartition(" ") for each in told.strip().rpartition(": ")[2].split(", ")]
        return {name: float(chance.rstrip("%")) / 100 for name, _, chance in pairs}

    return ask


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("onnx", {"with_resize": True, "with_normalisation": True}),
        ("torch-export", {"with_resize": True, "with_normalisation": True, "pixels": "float"}),
        ("onnx", {}),
        ("torch-export", {"with_normalisation": True}),
        ("torch-export", {"with_resize": True}),
    ],
)
def test_the_card_s_code_answers_as_predict_on_uneven_pictures(
    as_predicted, shipment, uneven, tmp_path, monkeypatch, name, inside
):
    export(shipment, tmp_path, ExportOrder(name, **inside))
    monkeypatch.chdir(tmp_path)
    for file in uneven:
        expected = as_predicted(file)
        Path("image.png").write_bytes(file.read_bytes())
        place = {}
        exec(shown_in(tmp_path), place)
        chances = torch.as_tensor(place["logits"]).softmax(1)[0]
        classes = shipment.about.classes
        found = dict(zip(classes, chances.tolist(), strict=True))
        # predict tells tenths of a percent; the graph leaves the rounding to whole levels out.
        assert max(abs(found[each] - expected[each]) for each in classes) < 0.002


def test_a_graph_that_stretches_is_found_by_parity(shipment, tmp_path, monkeypatch):
    monkeypatch.setattr("triprune.export.front._centred_square", lambda images: images)
    with pytest.raises(ExportError, match="answers otherwise than PyTorch"):
        export(shipment, tmp_path / "out", ExportOrder("torch-export", with_resize=True))
    assert not (tmp_path / "out").exists()


def test_a_resize_to_no_square_is_refused(shipment, tmp_path):
    oblong = replace(shipment, plan=replace(shipment.plan, input_size=(3, 32, 48)))
    with pytest.raises(InputError, match="32×48 images: the graph would make squares"):
        export(oblong, tmp_path, ExportOrder("onnx", with_resize=True))


def test_each_format_goes_to_a_folder_of_its_own_with_its_own_card(
    triprune, real_run, constructor, tmp_path
):
    run = shutil.copytree(real_run[0], tmp_path / "run")
    for name in ("torch-export", "safetensors"):
        triprune("export", run, "--model", constructor, "--format", name)
    program, weights = (shown_in(run / "export/50" / n) for n in ("torch-export", "safetensors"))
    assert 'torch.export.load("model.pt2")' in program
    assert "triprune" not in program
    assert "triprune.load" in weights


def test_a_run_of_several_budgets_means_its_own(real_run, constructor, tmp_path):
    run = shutil.copytree(real_run[0], tmp_path / "run")
    store = Store(run)
    for key in store.keys("budget-50/outcome-*"):
        outcome = replace(store.read(key, Outcome), budget=0.7)
        store.write(key.replace("budget-50", "budget-70"), outcome)
    for key in store.keys("budget-50/*-seed-*"):
        store.write(key.replace("budget-50", "budget-70"), store.read(key, TrainedModel))
    shipped = {b: open_shipment(run, Wanted(b, constructor)) for b in (None, "70%", "50%")}
    assert {b: each.about.making.budget for b, each in shipped.items()} == {
        None: 0.5,
        "70%": 0.7,
        "50%": 0.5,
    }
    assert read_finished(run).outcome.budget == report_on_run(run).finished[0].budget == 0.5
    timed = {each.budget for each in contestants_of(run, Wanted(model=constructor))}
    assert timed == {1.0, 0.7, 0.5}
    shutil.rmtree(run / "budget-50")
    assert read_finished(run).outcome.budget == report_on_run(run).finished[0].budget == 0.7


def test_metadata_and_card_travel_with_the_file(real_run, shipment, tmp_path):
    exported = export(shipment, tmp_path, ExportOrder("onnx"))
    props = {p.key: p.value for p in onnx.load(exported.file).metadata_props}
    outcome = real_run[2].outcome
    assert json.loads(props["classes"]) == list(shipment.about.classes)
    assert float(props["accuracy"]) == pytest.approx(outcome.row("joint").accuracy, abs=1e-6)
    assert int(props["macs"]) == outcome.row("joint").macs
    assert int(props["resolution_px"]) == real_run[2].plan.resolution_px
    assert tp.Plan.from_json(props["plan"]) == real_run[2].plan
    assert (tmp_path / "MODEL_CARD.md").is_file()


def test_torch_export_keeps_graph_and_metadata(shipment, tmp_path):
    order = ExportOrder("torch-export", with_normalisation=True, pixels="float")
    exported = export(shipment, tmp_path, order)
    extra = {"triprune.json": ""}
    program = torch.export.load(exported.file, extra_files=extra)
    assert json.loads(extra["triprune.json"])["input"].startswith("float32 pixels, 0 to 1")
    pictures = resize(shipment.images, shipment.plan.resolution_px).float() / 255
    mean, std = (
        torch.tensor(x).view(1, -1, 1, 1) for x in (shipment.about.mean, shipment.about.std)
    )
    expected = logits(shipment.model, (pictures - mean) / std)
    assert np.abs(logits(program.module(), pictures) - expected).max() < 1e-4


def test_safetensors_is_a_folder_that_loads_and_exports_again(real_run, shipment, small, tmp_path):
    exported = export(shipment, tmp_path / "a", ExportOrder("safetensors"))
    assert exported.parity.difference == 0.0
    loaded = tp.load(tmp_path / "a", build=small.make).eval()
    images = torch.rand(2, 3, shipment.plan.resolution_px, shipment.plan.resolution_px)
    assert np.array_equal(logits(loaded, images), logits(real_run[2].model, images))
    again = open_shipment(tmp_path / "a", Wanted(model=f"{small.__file__}:make"))
    assert again.about == replace(shipment.about)
    found = export(again, tmp_path / "b", ExportOrder("torch-export"))
    assert not found.real_images


def test_a_mismatch_fails_and_leaves_nothing(shipment, tmp_path, monkeypatch):
    from triprune.run import exporting

    def asking_wrongly(session):
        answer = asking(session)
        return lambda batch: [each + 1e-2 for each in answer(batch)]

    asking = exporting.asking
    monkeypatch.setattr(exporting, "asking", asking_wrongly)
    with pytest.raises(ExportError, match="answers otherwise than PyTorch"):
        export(shipment, tmp_path / "out", ExportOrder("onnx"))
    assert not (tmp_path / "out").exists()


def test_a_model_that_cannot_be_traced_is_refused(shipment, tmp_path):
    class Stubborn(torch.nn.Module):
        def forward(self, x):
            return x.mean((2, 3)) if float(x.sum()) > 1e9 else x.amax((2, 3))

    stubborn = replace(shipment, model=Stubborn())
    for name in ("onnx", "torch-export"):
        with pytest.raises(ExportError, match="failed"):
            export(stubborn, tmp_path / "out", ExportOrder(name))
    assert not (tmp_path / "out").exists()


def test_the_missing_extra_is_named(shipment, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"'onnx' is not installed. run: pip install tri"):
        export(shipment, tmp_path / "out", ExportOrder("onnx"))


def test_what_cannot_be_exported_is_said(triprune, real_run, constructor, small, tmp_path):
    run = real_run[0]
    with pytest.raises(InputError, match="no such format"):
        triprune("export", run, "--format", "tflite", "--model", constructor)
    with pytest.raises(InputError, match="weights have no graph"):
        triprune("export", run, "--format", "safetensors", "--with-resize")
    with pytest.raises(InputError, match=r"the run was made from Python.*--model"):
        triprune("export", run)
    with pytest.raises(RunError, match="it has finished 50%"):
        triprune("export", run, "--budget", "20%", "--model", constructor)
    with pytest.raises(ArchitectureError, match="another architecture"):
        triprune("export", run, "--model", "resnet20")
    with pytest.raises(InputError, match="neither a run folder nor a saved model"):
        triprune("export", tmp_path)
    with pytest.raises(InputError, match="there is no such kind"):
        triprune("export", run, "--model", constructor, "--with-normalisation", "--input", "int4")
    (tmp_path / "run.json").write_bytes((run / "run.json").read_bytes())
    with pytest.raises(RunError, match="has not finished one yet"):
        triprune("export", tmp_path)


def test_a_run_at_a_url_is_exported_from_there(triprune, real_run, constructor, tmp_path):
    files = real_run[0].rglob("*")
    for file in filter(Path.is_file, files):
        (place("memory://shipped") / str(file.relative_to(real_run[0]))).write_whole(
            file.read_bytes()
        )
    wanted = ("memory://shipped", "--model", constructor, "--format", "torch-export")
    with pytest.raises(InputError, match="not on this machine"):
        triprune("export", *wanted)
    assert "of the run's validation split" in triprune("export", *wanted, "--out", tmp_path)


def test_damaged_folders_are_refused(triprune, real_run, constructor, tmp_path):
    home = real_run[2].save(tmp_path / "small")
    weights = home / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-10])
    with pytest.raises(TruncatedFileError, match="ends too early"):
        triprune("export", home, "--model", constructor)
    weights.write_bytes(whole)
    with pytest.raises(InputError, match="holds one model"):
        triprune("export", home, "--model", constructor, "--budget", "50%")
    with pytest.raises(
        InputError, match=r"only as a SmallResNet, which does not tell.*--model.*--num-"
    ):
        triprune("export", home)
    about = json.loads((home / "about.json").read_text())
    spoiled = [{**about["rows"][0], "macs": "many"}, *about["rows"][1:]]
    changes = [{"std": [0, 1, 1]}, {"rows": []}, {"version": 9}, {"classes": [1]}]
    changes += [{"rows": [{"name": "joint"}]}, {"rows": [{**spoiled[0], "more": 1}]}]
    changes += [{"rows": spoiled}, {"making": {**about["making"], "budget": "half"}}]
    for change in changes:
        (home / "about.json").write_text(json.dumps({**about, **change}))
        with pytest.raises(InputError, match=r"about\.json.*does not say what it should") as caught:
            triprune("export", home, "--model", constructor)
        assert "__init__" not in str(caught.value)
        assert "Error" not in str(caught.value)


def test_predict_names_classes_and_bad_files(triprune, real_run, shipment, constructor, tmp_path):
    images = shipment.images
    for number in range(2):
        picture = Image.fromarray(images[number].permute(1, 2, 0).numpy())
        picture.save(tmp_path / f"{number}.png")
    (tmp_path / "bad.png").write_bytes(b"not a picture")
    files = [tmp_path / name for name in ("0.png", "bad.png", "1.png", "gone.png")]
    told = triprune("predict", real_run[0], *files, "--model", constructor, code=2)
    lines = told.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == [str(files[0]), str(files[2])]
    assert all(line.count("%") == 3 for line in lines[:2])
    assert "bad.png cannot be read: cannot identify image file" in told
    assert "gone.png cannot be read: there is no such file. name images" in told
    mean, std = (
        torch.tensor(x).view(1, -1, 1, 1) for x in (shipment.about.mean, shipment.about.std)
    )
    seen = (resize(images[:1], shipment.plan.resolution_px).float() / 255 - mean) / std
    with torch.no_grad():
        chances = real_run[2].model(seen).softmax(1)[0]
    best = int(chances.argmax())
    assert f"0.png: {shipment.about.classes[best]} {float(chances[best]):.1%}" in lines[0]
    assert "Missing argument" in triprune("predict", real_run[0], code=2)


def test_predict_refuses_to_guess_a_normalisation(triprune, real_run, small, constructor, tmp_path):
    result = real_run[2]
    tp.save(result.model, result.plan, tmp_path, build=small.make)
    with pytest.raises(InputError, match="nothing says what they were normalised with"):
        triprune("predict", tmp_path, tmp_path / "x.png", "--model", constructor)
    with pytest.raises(InputError, match="nothing there says which model"):
        triprune("predict", tmp_path, tmp_path / "x.png")
