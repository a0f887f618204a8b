"""What the demo's engine answers."""

import asyncio
import math
import random
import statistics
from pathlib import Path

import pytest
import torch

from pipeline.engines.sorting import SortingEngine, gumbel
from pipeline.prompts.sorting import ARROW, END, tokens
from pipeline.sdk import Sample, SampleRequest
from pipeline.training.losses import token_logprobs
from pipeline.training.sorting_model import SortingModel


@pytest.fixture
def model() -> SortingModel:
    return SortingModel(torch.Generator().manual_seed(7))


@pytest.fixture
def engine(model: SortingModel, tmp_path: Path) -> SortingEngine:
    torch.save(model.state_dict(), tmp_path / "policy")
    engine = SortingEngine(0, {})
    asyncio.run(engine.load_policy(tmp_path / "policy", 0))
    return engine


def request(digits: str, seed: int, greedy: bool = False) -> SampleRequest:
    return SampleRequest(f"{digits}/{seed}", f"{digits}>", (*tokens(digits), ARROW), seed, greedy, {})


def sampled(engine: SortingEngine, requests: list[SampleRequest]) -> dict[str, Sample]:
    samples = asyncio.run(engine.generate(requests))
    return {request.response_id: sample for request, sample in zip(requests, samples, strict=True)}


REQUESTS = [request(digits, seed) for digits in ("529143", "000000", "98", "7") for seed in range(16)]


def test_a_sample_depends_on_its_seed_and_not_on_its_neighbours(engine: SortingEngine) -> None:
    together = sampled(engine, REQUESTS)
    shuffled = sampled(engine, random.Random(0).sample(REQUESTS, len(REQUESTS)))
    for asked in REQUESTS:
        name = asked.response_id
        alone = sampled(engine, [asked])[name]
        assert alone.token_ids == together[name].token_ids == shuffled[name].token_ids
        assert list(alone.logprobs) == pytest.approx(list(together[name].logprobs), abs=1e-5)
    assert len({bytes(sample.token_ids) for sample in together.values()}) > len(REQUESTS) // 2


def test_cached_logprobs_are_those_of_a_full_forward(engine: SortingEngine, model: SortingModel) -> None:
    samples = sampled(engine, REQUESTS)
    for asked in REQUESTS:
        sample = samples[asked.response_id]
        ids = torch.tensor([[*asked.token_ids, *sample.token_ids]])
        full = token_logprobs(model(ids), ids)[0, len(asked.token_ids) :]
        assert list(sample.logprobs) == pytest.approx(full.tolist(), abs=1e-5)


def test_a_response_stops_at_its_end_token_or_at_the_limit(engine: SortingEngine) -> None:
    for sample in sampled(engine, REQUESTS).values():
        ended = sample.token_ids[-1] == END
        assert sample.finish_reason == ("stop" if ended else "length")
        assert END not in list(sample.token_ids)[:-1]
        assert len(sample.token_ids) <= 7 and (ended or len(sample.token_ids) == 7)
        assert len(sample.text) == len(sample.token_ids) - ended
        assert len(sample.logprobs) == len(sample.token_ids) and max(sample.logprobs) <= 0.0
        assert sample.entropy is not None and 0.0 < sample.entropy <= math.log(13)


def test_greedy_takes_the_likeliest_whatever_the_seed(engine: SortingEngine, model: SortingModel) -> None:
    samples = sampled(engine, [request("529143", seed, greedy=True) for seed in (1, 2)] + [request("529143", 3)])
    one, two = samples["529143/1"], samples["529143/2"]
    assert one.token_ids == two.token_ids
    ids = torch.tensor([[*request("529143", 1).token_ids, *one.token_ids]])
    assert model(ids)[0, 6:-1].argmax(-1).tolist() == list(one.token_ids)


def test_an_engine_without_a_policy_says_so() -> None:
    with pytest.raises(RuntimeError, match="no policy"):
        asyncio.run(SortingEngine(0, {}).generate(REQUESTS))


def test_the_event_loop_stays_alive_while_the_model_runs(engine: SortingEngine) -> None:
    async def turns() -> int:
        call, count = asyncio.ensure_future(engine.generate(REQUESTS * 4)), 0
        while not call.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert asyncio.run(turns()) > 2


def test_the_noise_is_gumbel_in_every_stream_and_across_them() -> None:
    noise = gumbel([-1, 2**64 - 2, 2**40, *range(2000)], 7)
    assert noise.shape == (2003, 7, 13) and noise.isfinite().all()
    assert torch.equal(noise[4], gumbel([1], 7)[0])
    for values in (noise.flatten(), noise[:, 3, 5], noise[5:15].flatten()):
        count, euler, deviation = values.numel(), 0.5772, math.pi / math.sqrt(6)
        assert statistics.fmean(values.tolist()) == pytest.approx(euler, abs=5 * deviation / math.sqrt(count))
        assert statistics.pstdev(values.tolist()) == pytest.approx(deviation, abs=10 * deviation / math.sqrt(count))
    neighbours = torch.corrcoef(gumbel(range(100), 100).flatten(1))
    assert (neighbours - torch.eye(100)).abs().max() < 6 / math.sqrt(1300)
