"""The fields of KEDA's ScaledObject (keda.sh/v1alpha1, 2.x) that the manifests use, as a JSON schema; any other is a
misspelling. Source: KEDA's documentation, "ScaledObject specification" and "Apache Kafka" under scalers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_TEXT = {"type": "string", "minLength": 1}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "string", "pattern": "^[1-9][0-9]*$"}


def _object(required: Sequence[str], **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


_KAFKA = _object(
    ("bootstrapServers", "consumerGroup", "topic"),
    bootstrapServers=_TEXT,
    consumerGroup=_TEXT,
    topic=_TEXT,
    lagThreshold=_NUMBER,
    offsetResetPolicy={"enum": ["earliest", "latest"]},
)
SCALED_OBJECT = _object(
    ("apiVersion", "kind", "metadata", "spec"),
    apiVersion={"const": "keda.sh/v1alpha1"},
    kind={"const": "ScaledObject"},
    metadata=_object(("name",), name=_TEXT, namespace=_TEXT),
    spec=_object(
        ("scaleTargetRef", "triggers"),
        scaleTargetRef=_object(("name",), name=_TEXT),
        pollingInterval=_COUNT,
        cooldownPeriod=_COUNT,
        minReplicaCount=_COUNT,
        maxReplicaCount=_COUNT,
        triggers={
            "type": "array",
            "minItems": 1,
            "items": _object(("type", "metadata"), type={"const": "kafka"}, metadata=_KAFKA),
        },
    ),
)
