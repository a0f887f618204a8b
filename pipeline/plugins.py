"""Builds what the configuration names as `module:attribute`, and makes sure that it is what it is needed for."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typing_extensions import get_protocol_members

from pipeline import sdk
from pipeline.config.errors import ConfigError, nearest, shown
from pipeline.config.models import DecisionConfig, Environment
from pipeline.config.values import Plugin
from pipeline.domain.rules import FilterRule, Rules
from pipeline.domain.selection.custom import Selectors
from pipeline.domain.told import told_error
from pipeline.sdk import Engine, Learner, PromptSource, Verifier


def prompts(config: DecisionConfig) -> PromptSource:
    """The source of training prompts."""
    return _source(config.prompts, config.seed, "prompts")


def eval_prompts(config: DecisionConfig) -> PromptSource | None:
    """The source of evaluation prompts, if there is one."""
    return None if config.eval_prompts is None else _source(config.eval_prompts, config.seed, "eval_prompts")


def _source(plugin: Plugin, seed: int, key: str) -> PromptSource:
    from pipeline.prompts.asked import Asked

    return Asked(build(plugin.factory, seed, plugin.options, f"{key}.factory", PromptSource), plugin.factory, key)


def engine(config: DecisionConfig) -> Engine:
    """What samples responses: the engine, or episodes that it plays in the environment."""
    made: Engine = build(config.engine.factory, config.seed, config.engine.options, "engine.factory", Engine)
    if config.environment is not None:
        return _episodes(config.environment, config.seed, made)
    if config.publication == "refresh" and getattr(made, "refreshes", False) is not True:
        message = (
            f"is refresh, but {config.engine.factory} can't load a policy while it samples (it has no attribute "
            "`refreshes` that is True); set it to drain, or take an engine that can"
        )
        raise _error("cannot_refresh", message, "publication")
    return made


def _episodes(settings: Environment, seed: int, engine: Engine) -> Engine:
    from pipeline.engines.episodes import Episodes, Limits

    what = "environment.factory"
    environment: Any = build(settings.factory, seed, settings.options, what, sdk.Environment)
    limits = Limits(
        settings.max_turns,
        settings.max_tokens,
        settings.step_timeout_ms / 1000,
        settings.episode_timeout_ms / 1000,
        settings.on_failure,
    )
    return Episodes(engine, environment, limits)


def verifier(config: DecisionConfig, name: str) -> Verifier:
    """The verifier of that name."""
    plugin, what = config.verifiers.get(name), f"verifiers.{name}"
    if plugin is None:
        raise ConfigError.of("unknown_verifier", f"{what} is not configured; {nearest(name, config.verifiers)}")
    made: Verifier = build(plugin.factory, config.seed, plugin.options, f"{what}.factory", Verifier)
    return made


def learner(config: DecisionConfig) -> Learner:
    """What trains."""
    made: Learner = build(config.learner.factory, config.seed, config.learner.options, "learner.factory", Learner)
    return made


def group_filters(rules: Rules) -> Callable[[FilterRule], Any]:
    """Builds the callables of the custom group filters that a run names."""
    return _callables(rules.seed, "filters.custom.factory", "members")


def selectors(rules: Rules) -> Selectors:
    """Builds the callable of the selection that a run names."""
    return _callables(rules.seed, "selection.factory", "window")


def _callables(seed: int, what: str, argument: str) -> Callable[[FilterRule], Any]:
    """Builds what rules name, and makes sure that it can be called with one argument."""

    def made(rule: FilterRule) -> Any:
        factory = rule.args["factory"]
        judge = build(factory, seed, rule.args["options"], what)
        callable_with(judge, (argument,), factory, what)
        return judge

    return made


def callable_with(made: Any, parameters: Sequence[str], factory: str, what: str) -> None:
    """Raise ConfigError unless what a factory made can be called with these."""
    if not callable(made):
        raise _error("not_callable", f"{factory} makes {shown(made)}; expected something to call", what)
    _takes(made, len(parameters), f"what {factory} makes can't be called with ({', '.join(parameters)})", what)


def build(factory: str, seed: int, options: Mapping[str, Any], what: str, port: Any = None) -> Any:
    """Call `factory(seed, options)`. `what` is the key that names it; `port` the protocol that the result must meet.

    Raises ConfigError. The options are a copy, so that nothing a plugin does to them changes the configuration.
    """
    make = _found(factory, what)
    if not callable(make):
        raise _error("not_callable", f"{factory} is {shown(make)}; expected a class or function", what)
    _takes(make, 2, f"{factory} can't be called as factory(seed, options)", what)
    try:
        made = make(seed, copy.deepcopy(dict(options)))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        message = f"{factory} raised {told_error(error)}; mend its options or its code"
        raise _error("plugin_failed", message, what) from error
    if port is not None:
        _conforms(made, port, factory, what)
    return made


def _found(factory: str, what: str) -> Any:
    module_name, colon, attribute = factory.partition(":")
    if not (module_name and colon and attribute):
        raise _error("bad_factory", f"is {factory!r}; expected package.module:attribute", what)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            message = f"there is no module {error.name!r} for {factory}; install it, or mend the name"
            raise _error("module_not_found", message, what) from error
        message = f"importing {module_name} raised {told_error(error)}; mend that first"
        raise _error("import_failed", message, what) from error
    if not hasattr(module, attribute):
        public = [name for name in vars(module) if not name.startswith("_")]
        raise _error("no_attribute", f"{module_name} has no {attribute!r}; {nearest(attribute, public)}", what)
    return getattr(module, attribute)


def _conforms(made: Any, port: Any, factory: str, what: str) -> None:
    name, hints = port.__name__, get_type_hints(port)
    for member in sorted(get_protocol_members(port)):
        model = getattr(port, member, None)
        if not hasattr(made, member):
            kind = "method" if inspect.isfunction(model) else "attribute"
            raise _error("not_a_port", f"{factory} makes no {name}: it lacks the {kind} {member!r}; add it", what)
        own = getattr(made, member)
        if inspect.isfunction(model):
            _method(own, model, f"{factory}: its method {member!r}", what)
        elif wrong := _attribute(member, own, hints[member]):
            raise _error("not_a_port", f"{factory}: {member} is {shown(own)}; expected {wrong}", what)


def _attribute(member: str, own: Any, hint: Any) -> str | None:
    """What was expected of an attribute, or None if it is that."""
    if member in ("batch", "concurrency"):
        return None if type(own) is int and own >= 1 else "a whole number of at least 1"
    if get_origin(hint) is Literal:
        return None if own in get_args(hint) else f"one of {', '.join(get_args(hint))}"
    return None if type(own) is hint else hint.__name__


def _method(own: Any, model: Callable[..., Any], which: str, what: str) -> None:
    if not callable(own):
        raise _error("not_a_port", f"{which} is {shown(own)}; expected a method", what)
    parameters = list(inspect.signature(model).parameters)[1:]
    _takes(own, len(parameters), f"{which} can't be called with ({', '.join(parameters)})", what)
    if inspect.iscoroutinefunction(model) and not inspect.iscoroutinefunction(own):
        raise _error("not_a_port", f"{which} is not a coroutine; write `async def`", what)


def _takes(function: Callable[..., Any], count: int, message: str, what: str) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # some built-in callables have none
        return
    try:
        signature.bind(*range(count))
    except TypeError as error:
        raise _error("bad_signature", f"{message}: {error}; mend its parameters", what) from error


def _error(name: str, message: str, what: str) -> ConfigError:
    return ConfigError.of(name, message, tuple(_parts(what)))


def _parts(what: str) -> Iterator[str]:
    yield from what.split(".")
