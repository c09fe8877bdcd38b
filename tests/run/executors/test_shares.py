import pytest
import torch

from triprune.errors import ClusterError, InputError
from triprune.run.executors.shares import share_of
from triprune.run.spec import Settings

GPUS = {"a": {"CPU": 64.0, "GPU": 8.0}, "b": {"CPU": 32.0, "GPU": 8.0}, "head": {"CPU": 4.0}}
CORES = {"a": {"CPU": 64.0}, "head": {"CPU": 0.0}}


def test_a_gpu_comes_with_its_part_of_the_cores():
    share = share_of(GPUS, None)
    assert (share.cores, share.gpus, share.nodes) == (4, 1, ("a", "b"))
    assert share.resources == {"CPU": 4, "GPU": 1}


def test_without_gpus_a_worker_gets_the_threads_of_this_process():
    for nodes, device in ((CORES, None), (GPUS, "cpu")):
        share = share_of(nodes, device)
        assert (share.cores, share.gpus) == (min(64, torch.get_num_threads()), 0)
        assert "a" in share.nodes
    assert "head" not in share_of(CORES, None).nodes


def test_what_no_machine_has_is_refused():
    with pytest.raises(ClusterError, match="no machine of the cluster has a GPU"):
        share_of(CORES, "cuda")
    with pytest.raises(ClusterError, match="17 GPUs for one chain: the cluster has 16"):
        share_of(GPUS, None, together=17)
    with pytest.raises(ClusterError, match="the cluster has 0"):
        share_of({"head": {"CPU": 0.0}}, None)


def test_settings_that_only_ray_can_follow():
    with pytest.raises(InputError, match="add --executor ray"):
        Settings(0.5, gpus_per_chain=2)
    with pytest.raises(InputError, match="add --executor ray"):
        Settings(0.5, ray_address="auto")
    with pytest.raises(InputError, match="it cannot be split evenly"):
        Settings(0.5, executor="ray", gpus_per_chain=3)
    with pytest.raises(InputError, match="gpus_per_chain = 0"):
        Settings(0.5, executor="ray", gpus_per_chain=0)
    one, two = (Settings(0.5, executor="ray", gpus_per_chain=n).deciding() for n in (1, 2))
    assert one == Settings(0.5).deciding()
    assert one != two
