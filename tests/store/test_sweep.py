from pipeline.store.keys import fresh_key
from pipeline.store.payloads import PayloadStore
from pipeline.store.sweep import sweep, sweep_partition

from .conftest import StoreMaker


def written(store: PayloadStore, *groups: str) -> dict[str, str]:
    keys = {group: fresh_key(store.run, group, 0, 0) for group in groups}
    store.put_many([(key, b"x") for key in keys.values()], 3_600_000)
    return keys


def left(store: PayloadStore) -> set[str]:
    return {key for keys in store.scan() for key in keys}


def test_only_groups_that_ended_are_swept(store: PayloadStore) -> None:
    keys = written(store, "1@0", "2@0", "5@0", "6@0", "1@1")
    assert set(sweep(store, lambda n, partition: (n, partition) == (1, 0), 5)) == {keys["2@0"], keys["1@1"]}
    assert left(store) == {keys["1@0"], keys["5@0"], keys["6@0"]}
    assert sweep(store, lambda n, partition: False, 0) == []


def test_the_highest_group_opened_may_differ_by_partition(store: PayloadStore) -> None:
    keys = written(store, "3@0", "3@1")
    assert sweep(store, lambda n, partition: False, {0: 3, 1: 4}.__getitem__) == [keys["3@1"]]


def test_what_is_no_payload_is_left_alone(store: PayloadStore) -> None:
    foreign = f"tamis:{store.run}:{{1@0}}:someone else's"
    store.put_many([(foreign, b"x")], 3_600_000)
    assert sweep(store, lambda n, partition: False, 9) == sweep_partition(store, 0) == []
    assert left(store) == {foreign}


def test_the_end_of_a_run_sweeps_one_partition_of_that_run(make_store: StoreMaker) -> None:
    ended, other = make_store("b"), make_store("b1")
    keys = written(ended, "1@1", "2@1", "1@11", "1@0")
    others = written(other, "1@1")
    assert set(sweep_partition(ended, 1)) == {keys["1@1"], keys["2@1"]}
    assert left(ended) == {keys["1@11"], keys["1@0"]}
    assert left(other) == set(others.values())


def test_a_sweep_of_thousands_drops_each_once(store: PayloadStore) -> None:
    keys = written(store, *(f"{n}@{n % 3}" for n in range(3000)))
    dropped = sweep(store, lambda n, partition: n % 2 == 0, 3000)
    assert sorted(dropped) == sorted(key for group, key in keys.items() if int(group.split("@")[0]) % 2)
    assert store.count_keys() == 1500
