"""The manifests under deploy/kubernetes are valid by the schemas of Kubernetes, and say what the code says."""

from __future__ import annotations

import copy
from typing import Any

import kubernetes_validate
import pytest
import yaml

from pipeline.cli.common import STAGES
from pipeline.domain.topology import READS, StageName
from pipeline.log.topics import group_name, topic_name
from tests.containers.files import ROOT, TORCH, version

BASE = ROOT / "deploy" / "kubernetes" / "base"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((BASE / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    found for name in KUSTOMIZATION["resources"] for found in yaml.safe_load_all((BASE / name).read_text())
]
KUBERNETES = "1.37"
FACTS = ("generator", "scorer", "monitor")
WORKLOADS = {one["metadata"]["name"]: one for one in OBJECTS if one["kind"] in ("StatefulSet", "Deployment")}


def named(one: dict[str, Any]) -> str:
    return f"{one['kind']}-{one['metadata']['name']}"


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = WORKLOADS[name]["spec"]["template"]["spec"]
    return spec


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"] for one in OBJECTS if one["kind"] == kind}


@pytest.mark.parametrize("one", [o for o in OBJECTS if o["kind"] != "ScaledObject"], ids=named)
def test_a_manifest_is_valid(one: dict[str, Any]) -> None:
    kubernetes_validate.validate(one, KUBERNETES, strict=True)


def test_a_manifest_that_is_not_valid_is_found() -> None:
    wrong = copy.deepcopy(WORKLOADS["filter"])
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenesProbe"):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_every_manifest_is_part_of_it() -> None:
    files = {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml", "demo.yaml"}
    assert files == set(KUSTOMIZATION["resources"])
    assert len({named(one) for one in OBJECTS}) == len(OBJECTS)
    assert (BASE / "demo.yaml").read_text() == (ROOT / "examples" / "demo.yaml").read_text()


@pytest.mark.parametrize("stage", STAGES)
def test_a_consumer_has_limits_and_probes_and_no_rights(stage: str) -> None:
    workload, (container,) = WORKLOADS[stage], pod(stage)["containers"]
    assert workload["kind"] == ("Deployment" if stage in FACTS else "StatefulSet")
    assert workload["spec"]["template"]["metadata"]["labels"] == workload["spec"]["selector"]["matchLabels"]
    assert container["image"] == f"tamis:{version()}-{'full' if stage in TORCH else 'slim'}"
    assert container["command"] == ["python", "-m", f"consumers.{stage}"]
    assert container["resources"]["limits"]["memory"]
    check = ["python", "-S", "/app/pipeline/health.py"]
    assert container["readinessProbe"]["exec"]["command"] == check
    assert container["livenessProbe"]["exec"]["command"] == [*check, "--alive"]
    assert container["startupProbe"]["exec"]["command"] == [*check, "--alive"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod(stage)["securityContext"]["runAsUser"] == 10001


def test_what_pods_refer_to_is_there() -> None:
    maps = {one["metadata"]["name"] for one in OBJECTS if one["kind"] == "ConfigMap"}
    maps |= {generated["name"] for generated in KUSTOMIZATION["configMapGenerator"]}
    claims = set(of_kind("PersistentVolumeClaim"))
    for stage in STAGES:
        given = [source["configMapRef"]["name"] for source in pod(stage)["containers"][0]["envFrom"][:1]]
        volumes = pod(stage)["volumes"]
        given += [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
        claimed = {v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v}
        assert set(given) <= maps
        assert claimed == (claims if stage in TORCH else set())
        mounted = {mount["name"] for mount in pod(stage)["containers"][0]["volumeMounts"]}
        assert mounted == {volume["name"] for volume in volumes}
        if stage not in FACTS:
            assert WORKLOADS[stage]["spec"]["serviceName"] in of_kind("Service")


def test_generators_and_scorers_are_scaled_by_their_own_lag() -> None:
    (settings,) = [one["data"] for one in OBJECTS if one["kind"] == "ConfigMap"]
    scaled = of_kind("ScaledObject")
    assert set(scaled) == {"generator", "scorer"}
    for name, spec in scaled.items():
        (trigger,) = spec["triggers"]
        stage = StageName(name)
        assert spec["scaleTargetRef"] == {"name": name}
        assert "replicas" not in WORKLOADS[name]["spec"]  # it would undo the scaling at each apply
        assert 0 < spec["minReplicaCount"] < spec["maxReplicaCount"]
        assert trigger["type"] == "kafka"
        assert trigger["metadata"] == {
            "bootstrapServers": settings["TAMIS_BOOTSTRAP"],
            "consumerGroup": group_name(settings["TAMIS_RUN"], stage),
            "topic": topic_name(settings["TAMIS_RUN"], READS[stage]),
            "lagThreshold": trigger["metadata"]["lagThreshold"],
            "offsetResetPolicy": "earliest",
        }


def test_a_drained_node_takes_one_of_a_kind_at_a_time() -> None:
    budgets = of_kind("PodDisruptionBudget")
    assert set(budgets) == set(STAGES)
    for stage, budget in budgets.items():
        assert budget == {"maxUnavailable": 1, "selector": WORKLOADS[stage]["spec"]["selector"]}
