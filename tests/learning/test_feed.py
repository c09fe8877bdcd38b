import torch

from triprune.learning.feed import Feed
from triprune.learning.ranks import Ranks
from triprune.learning.recipe import Recipe

RECIPE = Recipe(epochs=4, batch_size=16)


def epoch_of(feed: Feed, epoch: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return all images, labels and the first random draw of ``epoch``."""
    feed.start(epoch)
    batches = [feed.next()[:2] for _ in range(feed.steps)]
    images, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    return images, labels, torch.rand(8, generator=feed.generator)


def rows_of(images: torch.Tensor, source: torch.Tensor) -> list[int]:
    keys = {image.numpy().tobytes(): row for row, image in enumerate(source)}
    return [keys[image.numpy().tobytes()] for image in images]


def test_every_epoch_shows_every_image_once_in_a_new_order_with_its_own_label(coloured_images):
    source = coloured_images()
    feed = Feed(source, RECIPE, seed=3, ranks=Ranks())
    orders = []
    for epoch in range(4):
        images, labels, _ = epoch_of(feed, epoch)
        rows = rows_of(images, source.images)
        assert sorted(rows) == list(range(96))
        assert torch.equal(labels, source.labels[rows])
        orders.append(rows)
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])


def test_every_epoch_and_seed_has_randomness_of_its_own(coloured_images):
    draws = [
        epoch_of(Feed(coloured_images(), RECIPE, seed=seed, ranks=Ranks()), epoch)[2]
        for seed in (0, 1)
        for epoch in range(3)
    ]
    assert all(not torch.equal(a, b) for i, a in enumerate(draws) for b in draws[:i])


def test_an_epoch_started_again_is_the_same(coloured_images):
    feed = Feed(coloured_images(), RECIPE, seed=3, ranks=Ranks())
    first, _, again = (epoch_of(feed, epoch) for epoch in (1, 2, 1))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_what_fills_no_batch_waits_for_another_epoch(coloured_images):
    source = coloured_images(90)
    feed = Feed(source, RECIPE, seed=0, ranks=Ranks())
    assert feed.steps == 5
    seen = {row for epoch in range(4) for row in rows_of(epoch_of(feed, epoch)[0], source.images)}
    assert len(seen) == 90
