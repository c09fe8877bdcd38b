# Ray ships partial types:
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportMissingTypeStubs=false
"""Owns the connection to a Ray cluster, and is the only importer of ray; keeps no results.

A piece of work is a Ray task. Its worker writes to the run folder, so a task whose worker is lost
is given to another and goes on after its last epoch.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import ray
import torch
from ray import cloudpickle
from ray._private import services
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from triprune import __version__
from triprune.errors import ClusterError, InputError, RunStoppedError, TripruneError
from triprune.places import RemotePath
from triprune.run.executors.inline import Piece
from triprune.run.executors.shares import Resources, Share, share_of
from triprune.run.executors.travelling import (
    Ears,
    Listener,
    News,
    Teller,
    Travelling,
    knock,
    look,
    modules_of_model_files,
    work,
)
from triprune.run.spec import Settings

_LOSSES = 8  # workers that a piece may lose: one that kills its worker must not go round for ever
_TURN_S = 0.3


class Connection:
    """A cluster that answers, and what was sent to it."""

    def __init__(self, settings: Settings) -> None:
        self._by_value = list(modules_of_model_files())
        self._owned = not ray.is_initialized()
        if self._owned:
            _connect(settings.ray_address)
        for module in self._by_value:
            cloudpickle.register_pickle_by_value(module)
        try:
            self._share = share_of(_nodes(), settings.device, together=settings.gpus_per_chain)
            here = ray.get_runtime_context().get_node_id()
            self._ears = _remote(Ears, num_cpus=0, scheduling_strategy=_on(here)).remote()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the cluster; what still runs there for this run ends with it."""
        for module in self._by_value:
            cloudpickle.unregister_pickle_by_value(module)
        if self._owned:
            ray.shutdown()

    def send(self, shared: Travelling) -> None:
        """Put what all pieces share within every worker's reach; ask each node if it can work."""
        store = shared.store.for_workers()
        try:
            self._sent = ray.put(shared.on_worker(store, (), self._share.cores))
        except TypeError as error:
            raise InputError(
                "sending the model and the data to workers",
                f"they cannot be sent ({error.__cause__ or error})",
                "keep out of them what no other process can have, as open files",
            ) from error
        options = {"num_cpus": 0, "max_retries": 0}
        asked = [_remote(look, **options, scheduling_strategy=_on(n)) for n in self._share.nodes]
        for answer in [each.remote(store, __version__) for each in asked]:
            _result(answer)

    def run(self, pieces: Sequence[Piece[Any, Any]], listener: Listener, *, ranks: int) -> None:
        """Wait until every piece is done; the first that fails ends the others."""
        share, options = self._share, {"max_retries": _LOSSES}
        if ranks > 1:
            # In a list, so that only the ranks fetch it.
            task = partial(_remote(_work_together, num_cpus=0, **options).remote, [self._sent])
        else:
            options |= {"num_cpus": share.cores, "num_gpus": share.gpus}
            task = partial(_remote(_work, **options).remote, self._sent)
        waiting = [
            task(piece, Teller(number, self._ears.hear.remote), share, ranks)
            for number, piece in enumerate(pieces)
        ]
        stopped: RunStoppedError | None = None
        try:
            while waiting:
                done, waiting = ray.wait(waiting, timeout=_TURN_S)
                self._pass_on(listener)
                for each in done:
                    try:
                        _result(each)
                    except RunStoppedError as error:
                        stopped = error
        except BaseException:
            for each in waiting:
                ray.cancel(each, force=True)
            raise
        if stopped is not None:
            raise stopped

    def _pass_on(self, listener: Listener) -> None:
        try:
            heard: list[News] = ray.get(self._ears.take.remote(), timeout=10 * _TURN_S)
        except (GetTimeoutError, RayError):
            return  # news are a comfort: without them the work goes on
        for news in heard:
            listener.hear(news)


def _work(shared: Any, piece: Any, teller: Teller, share: Share, _: int) -> None:
    work(shared, piece, teller, share.cores)


def _work_together(sent: list[Any], piece: Any, teller: Teller, share: Share, ranks: int) -> None:
    """Have several workers train the models of one piece, by Ray's own trainer."""
    from pyarrow.fs import FSSpecHandler, PyFileSystem
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchConfig, TorchTrainer

    shared: Any = ray.get(sent[0])
    home = shared.store.trainers_home()
    files, path = None, str(home)
    if isinstance(home, RemotePath):
        files, path = PyFileSystem(FSSpecHandler(home.opened[0])), home.opened[1]
    scaling = ScalingConfig(
        num_workers=ranks, use_gpu=share.gpus > 0, resources_per_worker=share.resources
    )
    lost: Exception | None = None
    for _ in range(_LOSSES):
        trainer = TorchTrainer(
            partial(_work_as_rank, sent, piece, teller, share),
            torch_config=TorchConfig(backend="nccl" if share.gpus else "gloo"),
            scaling_config=scaling,
            run_config=RunConfig(
                name=f"ranks-{uuid4().hex}",
                storage_path=path,
                storage_filesystem=files,
                # Ray would also try an error of ours again, which is final.
                failure_config=FailureConfig(max_failures=0),
            ),
        )
        try:
            trainer.fit()
            return
        except TrainingFailedError as error:
            failures: Mapping[int, BaseException] = getattr(error, "worker_failures", {})
            for failure in failures.values():
                if isinstance(failure, TripruneError):
                    raise failure from None
            lost = error
    assert lost is not None
    raise _lost(lost)


def _work_as_rank(sent: list[Any], piece: Any, teller: Teller, share: Share) -> None:
    from ray.train.torch import get_device

    if share.gpus:
        torch.cuda.set_device(get_device())
    work(ray.get(sent[0]), piece, teller, share.cores)


def _connect(address: str | None) -> None:
    try:
        find: Any = services.get_ray_address_from_environment
        try:  # Ray itself goes on asking for minutes
            knock(find(address, None) or "")
        except OSError:
            if address is not None or os.environ.get("RAY_ADDRESS"):
                raise
            address = "local"  # a cluster was here, and went without a word
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise ClusterError(
            f"the Ray cluster at {address}" if address else "a Ray cluster",
            f"it does not answer ({str(error).splitlines()[0].rstrip('.')})",
            "start one with: ray start --head, and join it elsewhere with: ray start --address; "
            "one that asks for a token needs RAY_AUTH_MODE=token",
        ) from error


def _nodes() -> dict[str, Resources]:
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def _on(node: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(node, soft=False)


def _remote(function: Any, **options: Any) -> Any:
    made: Any = ray.remote(function)
    return made.options(**options)


def _result(reference: Any) -> None:
    try:
        ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, TripruneError):
            raise error.cause from None
        raise
    except RayError as error:
        raise _lost(error) from error


def _lost(error: BaseException) -> ClusterError:
    return ClusterError(
        "a piece of the run",
        f"its worker was lost too often ({str(error).splitlines()[0]})",
        "see that workers have memory enough; the same command goes on after the last epoch",
    )
