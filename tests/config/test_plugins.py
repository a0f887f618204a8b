import copy

import pytest

from pipeline.config import ConfigError, canonical, parse, resolve_budget
from pipeline.domain.rules import rules_of
from pipeline.plugins import build, engine, eval_prompts, group_filters, learner, prompts, verifier
from pipeline.sdk import Engine, Learner, PromptSource, Verifier

MODULE = """
class Seen:
    def __init__(self, seed, options):
        self.seed, self.options = seed, options

class Source(Seen):
    content_hash = "h"
    def domains(self): return ["math"]
    def size(self, domain): return 1
    def at(self, domain, ordinal, epoch): ...

class Samples(Seen):
    batch = concurrency = 1
    async def generate(self, requests): ...
    async def load_policy(self, path, version): ...

class Refreshes(Samples):
    refreshes = True

class Game(Seen):
    concurrency = 7
    async def start(self, request): ...

class Startless(Seen):
    concurrency = 7

class Judge(Seen):
    batch = concurrency = 1
    async def score(self, requests): ...

class Learns(Seen):
    device, layout, pad_id = "cpu", "padded", 0
    def load(self, path): ...
    def save(self, path): ...
    def export(self, path): ...
    def train(self, batch): ...

class Blocking(Judge):
    def score(self, requests): ...

class Narrow(Judge):
    async def score(self): ...

class NoMethod(Judge):
    score = 3

class Batchless(Judge):
    batch = True

class Keeps(Seen):
    def __call__(self, members): return True

class KeepsTwo(Seen):
    def __call__(self, members, more): return True

class Endless(Judge):
    concurrency = 0

class Strange(Learns):
    layout = "diagonal"

class Nowhere(Learns):
    device = None

class Mute(Seen):
    batch = concurrency = 1

def one(seed): ...

def broken(seed, options): raise RuntimeError("no socket")

def greedy(seed, options):
    options["deep"]["x"] = 2
    options["new"] = 1
    return Judge(seed, options)

number = 3
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "given_plugins.py").write_text(MODULE)
    (tmp_path / "broken_plugins.py").write_text("import a_module_that_is_not_there")
    (tmp_path / "worse_plugins.py").write_text("1/0")
    monkeypatch.syspath_prepend(tmp_path)


def test_what_the_configuration_names_is_built_with_seed_and_options(tree):
    config = parse(
        tree(
            seed=5,
            prompts={"factory": "given_plugins:Source", "options": {"x": 1}},
            engine={"factory": "given_plugins:Samples", "options": {"x": 2}},
            learner={"factory": "given_plugins:Learns", "options": {"x": 3}},
            verifiers={"v": {"factory": "given_plugins:Judge", "options": {"x": 4}}},
        )
    )
    built = [prompts(config), engine(config), learner(config), verifier(config, "v")]
    assert [(type(b).__name__, b.seed, b.options) for b in built] == [
        ("Asked", 5, {"x": 1}),  # a Source
        ("Samples", 5, {"x": 2}),
        ("Learns", 5, {"x": 3}),
        ("Judge", 5, {"x": 4}),
    ]
    assert eval_prompts(config) is None
    with pytest.raises(ConfigError, match=r"verifiers\.w is not configured; expected one of: v"):
        verifier(config, "w")


def test_the_key_that_names_a_wrong_plugin_is_named(tree):
    config = parse(tree(verifiers={"v": {"factory": "given_plugins:Jugde"}}, eval_prompts={"factory": "gone:X"}))
    with pytest.raises(
        ConfigError, match=r"^verifiers\.v\.factory: given_plugins has no 'Jugde'; did you mean 'Judge'"
    ):
        verifier(config, "v")
    with pytest.raises(ConfigError, match=r"^eval_prompts\.factory: there is no module 'gone'"):
        eval_prompts(config)


@pytest.mark.parametrize(
    ("factory", "port", "name", "hint"),
    [
        ("given_plugins", Verifier, "bad_factory", "package.module:attribute"),
        ("gone_plugins:X", Verifier, "module_not_found", "no module 'gone_plugins'"),
        ("gone.inner:X", Verifier, "module_not_found", "no module 'gone'"),
        ("broken_plugins:X", Verifier, "import_failed", "a_module_that_is_not_there"),
        ("worse_plugins:X", Verifier, "import_failed", "ZeroDivisionError"),
        ("given_plugins:number", Verifier, "not_callable", "3"),
        ("given_plugins:one", Verifier, "bad_signature", "factory(seed, options)"),
        ("given_plugins:broken", Verifier, "plugin_failed", "RuntimeError: no socket"),
        ("given_plugins:Mute", Verifier, "not_a_port", "lacks the method 'score'"),
        ("given_plugins:Seen", Verifier, "not_a_port", "lacks the attribute 'batch'"),
        ("given_plugins:Blocking", Verifier, "not_a_port", "async def"),
        ("given_plugins:Narrow", Verifier, "bad_signature", "'score' can't be called with (requests)"),
        ("given_plugins:NoMethod", Verifier, "not_a_port", "expected a method"),
        ("given_plugins:Batchless", Verifier, "not_a_port", "batch is True"),
        ("given_plugins:Endless", Verifier, "not_a_port", "concurrency is 0"),
        ("given_plugins:Strange", Learner, "not_a_port", "one of padded, packed"),
        ("given_plugins:Nowhere", Learner, "not_a_port", "device is None; expected str"),
        ("given_plugins:Judge", Engine, "not_a_port", "makes no Engine"),
        ("given_plugins:Judge", Learner, "not_a_port", "makes no Learner"),
        ("given_plugins:Judge", PromptSource, "not_a_port", "makes no PromptSource"),
    ],
)
def test_a_wrong_plugin_is_refused_with_what_is_wrong(factory, port, name, hint):
    with pytest.raises(ConfigError) as error:
        build(factory, 0, {}, "some.key", port)
    (problem,) = error.value.problems
    assert (problem.name, problem.path) == (name, ("some", "key"))
    assert hint in problem.message


def test_a_plugin_cannot_change_the_configuration():
    options = {"deep": {"x": 1}}
    before = copy.deepcopy(options)
    build("given_plugins:greedy", 0, options, "key", Verifier)
    assert options == before


def custom(factory):
    made = parse(tree_of(factory))
    rules = rules_of(canonical(resolve_budget(made, 2**36)))
    return group_filters(rules)(rules.domains[0].filters[0])


def tree_of(factory):
    plugin = {"factory": "given_plugins:Seen"}
    chain = [{"type": "custom", "factory": factory, "options": {"x": 1}}]
    least = {"run": "r", "steps": 1, "seed": 7, "prompts": plugin, "engine": plugin, "learner": plugin}
    return least | {"domains": {"math": {"quota": 1}}, "filters": {"default": chain}}


def test_a_custom_group_filter_is_built_of_what_is_recorded():
    made = custom("given_plugins:Keeps")
    assert (made.seed, made.options, made(())) == (7, {"x": 1}, True)


@pytest.mark.parametrize("factory", ["given_plugins:Seen", "given_plugins:KeepsTwo"])
def test_a_custom_group_filter_that_takes_no_group_is_refused_at_start(factory):
    with pytest.raises(ConfigError, match=r"filters.custom.factory.*expected|filters.custom.factory.*members"):
        custom(factory)


def engine_of(factory, **changes):
    return engine(parse(tree_of("given_plugins:Keeps") | {"engine": {"factory": f"given_plugins:{factory}"}} | changes))


def test_an_engine_that_cannot_refresh_is_refused_where_refresh_is_asked_for():
    with pytest.raises(ConfigError) as refused:
        engine_of("Samples", publication="refresh")
    assert str(refused.value) == (
        "publication: is refresh, but given_plugins:Samples can't load a policy while it samples (it has no attribute "
        "`refreshes` that is True); set it to drain, or take an engine that can [cannot_refresh]"
    )
    assert engine_of("Refreshes", publication="refresh").refreshes
    assert engine_of("Samples").seed == 7


def test_an_environment_is_played_by_the_engine_and_can_refresh_between_its_turns():
    game = {"factory": "given_plugins:Game"}
    made = engine_of("Samples", environment=game, publication="refresh")
    assert (made.batch, made.concurrency, made.refreshes) == (1, 7, True)
    with pytest.raises(
        ConfigError, match=r"environment.factory: .*:Startless makes no Environment: it lacks .* 'start'"
    ):
        engine_of("Samples", environment={"factory": "given_plugins:Startless"})
