"""Owns ONNX files: writing one with its metadata, and asking one; refuses to keep a wrong one."""

from __future__ import annotations

import copy
import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from triprune.errors import ExportError, InputError, MissingExtraError

OPSET = 18  # the first whose Resize can antialias
_INPUT, _OUTPUT = "images", "logits"
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def to_onnx(
    model: nn.Module, example: Tensor, *, any_size: bool = False, metadata: Mapping[str, str]
) -> bytes:
    """Return ``model`` as an ONNX file; the batch is free, with ``any_size`` the sides are too.

    ``example`` holds two images or more: a batch of one would be taken for a constant.
    """
    onnx = _extra("onnx")
    _extra("onnxscript")
    asked = f"exporting a {type(model).__name__} to ONNX"
    try:
        with _quietly():
            program = torch.onnx.export(
                _without_inplace(model),
                (example,),
                dynamo=True,
                dynamic_shapes=(dict.fromkeys(_free(any_size), Dim.DYNAMIC),),
                opset_version=OPSET,
                input_names=[_INPUT],
                output_names=[_OUTPUT],
                verbose=False,
            )
    except Exception as error:
        raise ExportError(
            asked,
            f"torch's exporter failed ({_first_line(error)})",
            "rewrite that part of the model, or export with --format torch-export or safetensors",
        ) from error
    assert program is not None
    proto = program.model_proto
    _name_dimensions(proto.graph, any_size=any_size)
    proto.producer_name = "triprune"
    for key, value in metadata.items():
        proto.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(proto)
    return proto.SerializeToString()


def open_session(data: bytes, *, device: str = "cpu", keeps_memory: bool = True) -> Any:
    """Return ONNX Runtime's session of an ONNX file, with as many threads as torch.

    With ``keeps_memory=False`` it gives memory back after every run, so that its peak can be seen.
    """
    runtime = _extra("onnxruntime")
    provider = _PROVIDERS.get(device)
    if provider not in runtime.get_available_providers():
        raise InputError(
            f"ONNX Runtime on {device}",
            f"it has {', '.join(runtime.get_available_providers())} here",
            "try cpu" if device != "cuda" else "pip install onnxruntime-gpu, or try cpu",
        )
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.enable_cpu_mem_arena = keeps_memory
    options.log_severity_level = 3
    return runtime.InferenceSession(data, options, providers=[provider])


def asking(session: Any) -> Callable[[Tensor], Sequence[Tensor]]:
    """Return a function from a batch to the session's answers."""
    name = session.get_inputs()[0].name
    return lambda batch: list(map(torch.from_numpy, session.run(None, {name: batch.numpy()})))


def runtime_versions() -> dict[str, str]:
    """Return the versions of what exports and runs ONNX here."""
    return {name: _extra(name).__version__ for name in ("onnx", "onnxruntime")}


def _without_inplace(model: nn.Module) -> nn.Module:
    """Return a copy whose activations make new tensors: the exporter takes half as long over it."""
    twin = copy.deepcopy(model).requires_grad_(False)
    for module in twin.modules():
        if getattr(module, "inplace", False) is True:
            setattr(module, "inplace", False)  # noqa: B010
    return twin


def _free(any_size: bool) -> tuple[int, ...]:
    return (0, 2, 3) if any_size else (0,)


def _name_dimensions(graph: Any, *, any_size: bool) -> None:
    """Give the free dimensions names that a reader understands, everywhere in the graph."""
    sides = graph.input[0].type.tensor_type.shape.dim
    words = dict(zip(_free(any_size), ("batch", "height", "width"), strict=False))
    names = {sides[place].dim_param: word for place, word in words.items()}
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in names:
                dim.dim_param = names[dim.dim_param]


def _extra(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "ONNX",
            f"the package {error.name!r} is not installed",
            "run: pip install triprune[onnx]",
        ) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the exporter's own warnings from users: whatever matters is found by parity."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _first_line(error: Exception) -> str:
    told = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {told[0][:200] if told else 'no reason given'}"
