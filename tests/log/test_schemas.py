import json
import shutil

import pytest
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from pipeline.domain.events import EVENTS, Member
from pipeline.log.derive import schema_of
from pipeline.log.schemas import (
    FOLDER,
    SchemaError,
    avro_fingerprint,
    folder_of,
    read_schema,
    verify,
    versions,
    write_missing,
)

CLASSES = [*EVENTS.values(), Member]


def without_docs(schema):
    if isinstance(schema, list):
        return [without_docs(part) for part in schema]
    return {k: without_docs(v) for k, v in schema.items() if k != "doc"} if isinstance(schema, dict) else schema


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_newest_schema_says_what_the_dataclass_says(cls):
    version = max(v.version for v in versions() if v.event == cls.__name__)
    file = json.loads((FOLDER / folder_of(cls.__name__) / f"v{version}.avsc").read_text())
    assert without_docs(file) == without_docs(schema_of(cls)), "a changed event needs a new version of its schema"


def test_the_lock_pins_every_file():
    verify()
    assert {v.event for v in versions()} == {cls.__name__ for cls in CLASSES}


def test_the_fingerprint_is_avros():
    # from the Avro specification's own test data: the fingerprint of "int" is 7275d51a3f395c8f
    assert avro_fingerprint("int")[::-1].hex() == "7275d51a3f395c8f"
    tick = read_schema("Tick", 1)
    assert avro_fingerprint(tick).hex() == fingerprint(to_parsing_canonical_form(parse_schema(tick)), "CRC-64-AVRO")


def test_times_are_timestamps_in_the_contract_and_optional_fields_default_to_null():
    fields = {field["name"]: field for field in schema_of(EVENTS["Tick"])["fields"]}
    assert fields["at"]["type"] == {"type": "long", "logicalType": "timestamp-millis"}
    assert fields["run_ms"] == {"name": "run_ms", "type": ["null", "long"], "default": None}


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "schemas", ignore=shutil.ignore_patterns("*.py", "__pycache__"))


def test_writing_again_changes_nothing(copy):
    assert write_missing(copy) == []
    assert (copy / "lock.json").read_bytes() == (FOLDER / "lock.json").read_bytes()


def test_only_what_is_missing_is_written(copy):
    (copy / "tick" / "v1.avsc").unlink()
    assert write_missing(copy) == [copy / "tick" / "v1.avsc"]


def test_an_edited_schema_is_refused_even_if_only_its_doc_changed(copy):
    path = copy / "tick" / "v1.avsc"
    path.write_text(path.read_text().replace("Time passed", "Time went by"))
    with pytest.raises(SchemaError, match=r"tick/v1\.avsc was edited"):
        verify(copy)


def test_two_files_with_one_fingerprint_are_refused(copy):
    text = (copy / "tick" / "v1.avsc").read_text()
    (copy / "tick" / "v2.avsc").write_text(text.replace("Time passed", "Time went by"))
    with pytest.raises(SchemaError, match="have one fingerprint"):
        write_missing(copy)


def test_a_file_that_the_lock_does_not_know_is_refused(copy):
    shutil.copytree(copy / "tick", copy / "tock")
    with pytest.raises(SchemaError, match="tock"):
        verify(copy)


def test_a_missing_lock_says_how_to_make_it(copy):
    (copy / "lock.json").unlink()
    with pytest.raises(SchemaError, match=r"python -m pipeline\.log\.schemas"):
        versions(copy)
