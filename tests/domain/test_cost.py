"""The cost of an event does not grow with what is open, nor with what was."""

from time import perf_counter

from pipeline.domain import events as e
from pipeline.domain.assembly import Assembler
from pipeline.domain.rules import AssemblyRules

from .given import MEMBERS, Feed, failed, opened, rules, tick

RULES = rules(partitions=1, assembly=AssemblyRules("valid", 10**9, 10**9, 10**9))
EVENTS = 2_000


def cost(groups: int) -> float:
    """Seconds for failed responses, each asked again, and ticks while so many groups are open; the best of three."""
    feed = Feed(Assembler(RULES, MEMBERS))
    feed(*(opened(f"{n}@0", size=8) for n in range(groups)))
    best = float("inf")
    for turn in range(3):
        first = 1 + turn * EVENTS // 10
        work: list[e.Event] = [failed(f"{n % 10}@0/0.{first + n // 10}") for n in range(EVENTS)]
        work += [tick(turn * EVENTS + n) for n in range(EVENTS // 10)]
        start = perf_counter()
        outputs = feed(*work)
        best = min(best, perf_counter() - start)
        assert len(outputs) == 2 * EVENTS
    assert len(feed.state.open) == groups
    return best


def test_an_event_costs_the_same_with_10_and_with_100_000_groups_open() -> None:
    few, many = cost(10), cost(100_000)
    assert many < 5 * few + 0.05, f"{few / EVENTS * 1e6:.1f} and {many / EVENTS * 1e6:.1f} µs an event"
