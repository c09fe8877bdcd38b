"""Ties are solved as connected components, whatever their order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from triprune.network.channels.ledger import FREE, Ledger


def test_ties_join_and_free_labels_do_not():
    ledger = Ledger()
    a, b, c = ledger.fresh(3), ledger.fresh(3), ledger.fresh(3)
    ledger.tie(a, b)
    ledger.tie(b[:2], c[1:])
    ledger.tie(np.full(3, FREE), c)
    classes = ledger.solve()
    assert (classes[a] == classes[b]).all()
    assert classes[a[0]] == classes[c[1]]
    assert classes[a[1]] == classes[c[2]]
    assert len(set(classes.tolist())) == 4
    assert sorted(set(classes.tolist())) == [0, 1, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=30))
def test_solving_agrees_with_merging_sets(pairs):
    ledger = Ledger()
    ledger.fresh(20)
    groups = [{n} for n in range(20)]
    for a, b in pairs:
        ledger.tie(np.array([a]), np.array([b]))
        joined = groups[a] | groups[b]
        for each in joined:
            groups[each] = joined
    classes = ledger.solve()
    for a in range(20):
        for b in range(20):
            assert (classes[a] == classes[b]) == (b in groups[a])
