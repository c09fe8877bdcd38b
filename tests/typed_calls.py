"""What the documents show must pass a user's type checker, which reads this file: it is not run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from torch import Tensor, nn
from torch.utils.data import Dataset

import triprune
from triprune import Observation, Scale


def compressed_on_data(model: nn.Module, mine: tuple[Dataset[Tensor], Dataset[Tensor]]) -> None:
    result = triprune.compress(model, "data/cifar10", budget=0.5, out="runs/r56")
    print(result.choice.scale, result.plan.realised, result.accuracy, result.macs)
    result.save("small")
    triprune.compress(model, mine, budget="50%")
    settings = triprune.Settings(0.5, seeds=3, controls=True, chains_to=0.25)
    triprune.compress(model, triprune.load_data(), budget=0.5, settings=settings)


def compressed_by_functions(model: nn.Module) -> None:
    def my_train(model: nn.Module, resolution_px: int) -> None: ...

    def my_score(model: nn.Module, resolution_px: int) -> float:
        return float(resolution_px)

    triprune.compress(
        model, train=my_train, evaluate=my_score, input_size=(3, 512, 512), budget=0.5
    )
    triprune.compress(
        model,
        train=my_train,
        evaluate=my_score,
        final_evaluate=my_score,
        input_size=512,
        budget=0.5,
    )
    triprune.compress(model, train=my_train, budget=0.5)  # pyright: ignore[reportCallIssue]
    triprune.compress(model, budget=0.5)  # pyright: ignore[reportCallIssue]
    triprune.compress(  # pyright: ignore[reportCallIssue]
        model, "data/cifar10", train=my_train, evaluate=my_score, input_size=512, budget=0.5
    )


def chosen(observations: list[Observation]) -> Scale:
    predictor = triprune.fit_predictor(observations, images=5000)
    triprune.fit_predictor(observations, rank=1, degree=3)
    choice = triprune.choose_scale(predictor, budget="50%", bounds={"resolution": (0.6, 1.0)})
    print(choice.predicted_accuracy, choice.interval, choice.binding)
    lattice = triprune.Lattice(27, 16, 32)
    print(triprune.quote(predictor, [0.5, 0.25]), triprune.schedule("50%", rounds=4))
    return triprune.choose_scale(predictor, budget=0.5, lattice=lattice).scale


def pruned(images: Tensor) -> nn.Module:
    model = triprune.build_model("resnet56", num_classes=10)
    triprune.load_weights(model, "weights.safetensors")
    print(triprune.profile(model, 32).macs, triprune.list_models())
    print(triprune.measure_latency({"before": model}, {"before": 32}))
    blocks = triprune.removable_blocks(model, images[:1])
    print(len(blocks), blocks.total, [(block.name, block.macs) for block in blocks], blocks.refused)
    smaller, plan = triprune.prune(model, Scale(0.7, 0.6, 0.8), example_input=images[:1])
    triprune.save(smaller, plan, "small", build=lambda: triprune.build_model("resnet56"))
    return triprune.load("small", build=lambda: triprune.build_model("resnet56"))


def trained(model: nn.Module, images: Tensor) -> float:
    splits = triprune.load_data("data/cifar10", validation="test:2000", seed=1)
    recipe = triprune.Recipe.preset("cifar10")
    job = triprune.Job(model, splits.train, recipe.fine_tuning(), validation=splits.validation)
    result = triprune.train(job)
    print(result.accuracy, result.history, triprune.train_side_by_side([job, job]))
    blocks = triprune.removable_blocks(model, images[:1]).names
    print(triprune.probe_blocks(model, blocks, train=splits.train, validation=splits.validation))
    return triprune.evaluate_final(result.model, splits.test).accuracy
