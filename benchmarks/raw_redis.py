"""The yardstick: one process SETs payloads and pushes a list of keys per group, another pops, MGETs and makes tensors.
Nothing durable, no groups that form, no filter, no log."""

from __future__ import annotations

import multiprocessing
import time
from array import array
from multiprocessing.synchronize import Event
from typing import Any

import redis

GROUP = 8
INTERLEAVED = 4
QUEUE = "bench:raw"


def measure(url: str, groups: int, payload_bytes: int) -> float:
    """Groups a second from the first SET until the last group is in tensors."""
    context = multiprocessing.get_context("spawn")
    ready, times = context.Event(), context.Queue()
    consumer = context.Process(target=_consume, args=(url, groups, payload_bytes, ready, times))
    consumer.start()
    ready.wait(60)
    started = time.time()
    _produce(url, groups, payload_bytes)
    finished = times.get(timeout=300)
    consumer.join()
    return groups / (finished - started)


def _produce(url: str, groups: int, payload_bytes: int) -> None:
    client = redis.Redis.from_url(url)
    tokens = payload_bytes // 12
    ids, logprobs = array("q", range(tokens)).tobytes(), array("f", [-0.5] * tokens).tobytes()
    for first in range(0, groups, INTERLEAVED):
        pipe = client.pipeline(transaction=False)
        for slot in range(GROUP):
            for group in range(first, min(first + INTERLEAVED, groups)):
                pipe.set(f"bench:raw:{group}:{slot}", ids + logprobs)
        for group in range(first, min(first + INTERLEAVED, groups)):
            pipe.rpush(QUEUE, " ".join(f"bench:raw:{group}:{slot}" for slot in range(GROUP)))
        pipe.execute()


def _consume(url: str, groups: int, payload_bytes: int, ready: Event, times: Any) -> None:
    import torch

    torch.set_num_threads(1)
    client = redis.Redis.from_url(url)
    client.delete(QUEUE)
    tokens = payload_bytes // 12
    ready.set()
    seen = 0
    while seen < groups:
        popped = client.blpop([QUEUE], timeout=60)
        if popped is None:
            raise TimeoutError(f"{seen} of {groups} groups came")
        keys = popped[1].decode().split()
        values = client.mget(keys)
        ids = torch.stack([torch.frombuffer(bytearray(v[: 8 * tokens]), dtype=torch.int64) for v in values])
        logprobs = torch.stack([torch.frombuffer(bytearray(v[8 * tokens :]), dtype=torch.float32) for v in values])
        assert ids.shape == logprobs.shape == (GROUP, tokens)
        client.unlink(*keys)
        seen += 1
    times.put(time.time())
