"""Prompt files: invisible bytes change nothing, unreadable ones are named where they are (case 17 and its kind)."""

import json

import pytest

from pipeline.config import ConfigError
from pipeline.plugins import build
from pipeline.prompts.jsonl import JsonlPrompts
from pipeline.prompts.rows import BadRow
from pipeline.sdk import PromptSource, VerifierBinding

A = b'{"id":"a","prompt":"2+3?","target":"5","metadata":{"x":1}}'
B = b'{"id":"b","prompt":"4+4?","target":"8","metadata":{"y":2}}'
F0 = A + b"\n" + B + b"\n"


@pytest.fixture
def source(tmp_path):
    def made(content, seed=0, **options):
        path = tmp_path / "prompts.jsonl"
        path.write_bytes(content)
        return JsonlPrompts(seed, {"path": str(path)} | options)

    return made


def tasks(source, domain="default"):
    return [source.at(domain, n, 0) for n in range(source.size(domain))]


def refused(source, content):
    with pytest.raises(BadRow) as error:
        source(content)
    return str(error.value)


def test_a_row_becomes_a_task(source):
    a, b = tasks(source(F0, shuffle=False))
    assert (a.id, a.text, a.verifiers, a.metadata) == ("a", "2+3?", (VerifierBinding("exact", "5"),), {"x": 1})
    assert a.token_ids == tuple(b"2+3?")
    assert b.metadata == {"y": 2}


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + F0,
        A + b"\n\n  \n" + B + b"\n",
        F0[:-1],
        F0.replace(b"\n", b"\r\n"),
        F0.replace(b",", b" , "),
    ],
    ids=["byte order mark", "blank lines", "no last newline", "crlf", "spaces"],
)
def test_bytes_that_mean_nothing_change_nothing(source, content):
    plain = source(F0)
    rows, digest = tasks(plain), plain.content_hash
    other = source(content)
    assert (tasks(other), other.content_hash) == (rows, digest)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf16_is_refused(source, encoding):
    assert "save it as UTF-8" in refused(source, F0.decode().encode(encoding))


def test_a_byte_that_is_not_utf8_is_named_by_line_and_position(source):
    message = refused(source, F0.replace(b"4+4", b"4\xff4"))
    position = F0.index(b"4+4") + 1
    assert f"prompts.jsonl:2: 0xff at byte {position - len(A)} of the line, {position} from the start" in message


def test_errors_count_physical_lines(source):
    assert "prompts.jsonl:4: not JSON at column 2" in refused(source, A + b"\n\n\n{oops}\n")


def row(**changes):
    fields = {"id": "b", "prompt": "p", "target": "t"} | changes
    return json.dumps({key: value for key, value in fields.items() if value is not ...}).encode()


V = {"name": "exact", "target": "t"}


@pytest.mark.parametrize(
    ("bad", "field", "hint"),
    [
        (row(id=...), "id", "missing"),
        (row(id=7), "id", "is 7; expected text"),
        (row(id=""), "id", "isn't empty"),
        (row(id="a"), "id", "line 1 too"),
        (row(prompt=...), "prompt", "missing"),
        (row(prompt=None), "prompt", "None"),
        (row(prompt=""), "prompt", "isn't empty"),
        (row(target=5), "target", "is 5; expected text (quote it)"),
        (row(target=True), "target", "True"),
        (row(target=None), "target", "None"),
        (row(target=["5"]), "target", "expected text"),
        (row(target={"x": float("nan")}), "target", "finite"),
        (row(target=...), "target", "either"),
        (row(verifiers=[V]), "target", "either"),
        (row(target=..., verifiers=[]), "verifiers", "expected a list"),
        (row(target=..., verifiers=V), "verifiers", "expected a list"),
        (row(target=..., verifiers=["exact"]), "verifiers[0]", "expected {name"),
        (row(target=..., verifiers=[V, V | {"weight": float("nan")}]), "verifiers[1].weight", "is nan"),
        (row(target=..., verifiers=[V | {"weight": True}]), "verifiers[0].weight", "is True"),
        (row(target=..., verifiers=[V | {"weight": "1"}]), "verifiers[0].weight", "is '1'"),
        (row(target=..., verifiers=[V | {"weight": 10**400}]), "verifiers[0].weight", "expected a finite number"),
        (row(target=..., verifiers=[V | {"wieght": 1}]), "verifiers[0].wieght", "did you mean 'weight'"),
        (row(target=..., verifiers=[{"name": "exact"}]), "verifiers[0].target", "missing"),
        (row(target=..., verifiers=[{"target": "x"}]), "verifiers[0].name", "missing"),
        (row(target=..., verifiers=[V | {"target": 5}]), "verifiers[0].target", "is 5"),
        (row(meta={}), "meta", "did you mean 'metadata'"),
        (row(metadata=[]), "metadata", "expected an object"),
        (row(metadata={"x": float("inf")}), "", "task 'b'"),
        (row(domain=3), "domain", "expected text"),
        (row(prompt="\ud800"), "", "surrogates"),
        (b'{"id":"b","id":"c","prompt":"p","target":"t"}', "id", "given twice"),
        (b"[1]", "", "no object"),
        (b'{"id":"b"', "", "not JSON"),
        (b"[" * 100_000, "", "nested too deeply"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_field(source, bad, field, hint):
    message = refused(source, A + b"\n" + bad + b"\n" + b"{}\n")
    assert "prompts.jsonl:2: " + (f"{field}: " if field else "") in message
    assert hint in message


def test_an_object_as_target_is_given_to_the_verifier_as_json(source):
    verifiers = [{"name": "ifeval", "target": {"z": [1], "a": "é"}, "weight": 2}]
    (task,) = tasks(source(row(target=..., verifiers=verifiers)))
    assert task.verifiers == (VerifierBinding("ifeval", '{"a":"é","z":[1]}', 2.0),)


def test_an_empty_file_is_refused(source):
    assert "no prompts" in refused(source, b"\n\n")


def test_a_line_separator_inside_a_prompt_is_no_new_line(source):
    (task,) = tasks(source('{"id":"b","prompt":"one\u2028two\u0085","target":"t"}'.encode()))
    assert task.text == "one\u2028two\u0085"


def test_domains_have_their_own_prompts_and_verifiers_their_first_place(source):
    made = source(b"\n".join([row(id="1", domain="math"), row(id="2"), row(id="3", domain="math")]), verifier="judge")
    assert made.domains() == ("math", "default")
    assert (made.size("math"), made.size("default")) == (2, 1)
    assert {task.id for task in tasks(made, "math")} == {"1", "3"}
    assert list(made.verifiers) == ["judge"]
    assert made.verifiers["judge"].endswith("prompts.jsonl:1")
    with pytest.raises(KeyError):
        made.size("code")
    with pytest.raises(IndexError):
        made.at("math", 2, 0)


def test_the_content_hash_changes_with_everything_that_decides(source):
    hashes = [
        source(F0).content_hash,
        source(F0, seed=1).content_hash,
        source(F0, shuffle=False).content_hash,
        source(F0, domain="other").content_hash,
        source(F0, verifier="judge").content_hash,
        source(B + b"\n" + A).content_hash,
        source(F0.replace(b"2+3", b"2+4")).content_hash,
        source(F0.replace(b'"x":1', b'"x":2')).content_hash,
        source(F0, tokenizer={"factory": "given_tokens:Doubles"}).content_hash if tokens_module(source) else "",
    ]
    assert len(set(hashes)) == len(hashes)
    assert source(F0).content_hash == hashes[0]


def tokens_module(source):
    import sys
    import types

    module = types.ModuleType("given_tokens")

    class Doubles:
        def __init__(self, seed, options):
            pass

        def encode(self, text):
            return [2 * len(text)]

    module.Doubles = Doubles
    sys.modules["given_tokens"] = module
    return True


def test_a_configured_tokenizer_gives_the_ids(source):
    tokens_module(source)
    made = source(F0, tokenizer={"factory": "given_tokens:Doubles"})
    assert [task.token_ids for task in tasks(made)] == [(8,), (8,)]


def test_a_wrong_option_or_row_is_an_error_of_the_configuration(tmp_path):
    def built(options):
        with pytest.raises(ConfigError) as error:
            build("pipeline.prompts.jsonl:JsonlPrompts", 0, options, "prompts.factory", PromptSource)
        return str(error.value)

    assert "prompts.factory" in built({"path": "x", "shufle": True})
    assert "did you mean 'shuffle'" in built({"path": "x", "shufle": True})
    assert "No such file" in built({"path": str(tmp_path / "gone.jsonl")})
    path = tmp_path / "bad.jsonl"
    path.write_text("{}")
    assert f"{path}:1: id: is missing" in built({"path": str(path)})


def test_it_is_a_prompt_source(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(F0)
    made = build("pipeline.prompts.jsonl:JsonlPrompts", 0, {"path": str(path)}, "prompts.factory", PromptSource)
    assert made.size("default") == 2
