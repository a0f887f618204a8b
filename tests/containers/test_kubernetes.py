"""The manifests under deploy/kubernetes are valid by the schemas of Kubernetes, and say what the code says."""

from __future__ import annotations

import copy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from pipeline.cli.common import STAGES
from pipeline.config import load
from pipeline.domain.topology import READS, StageName
from pipeline.log.topics import group_name, topic_name
from tests.containers.files import ROOT, TORCH, version
from tests.containers.keda import SCALED_OBJECT

KUBERNETES_FILES = ROOT / "deploy" / "kubernetes"
BASE, EXAMPLE = KUBERNETES_FILES / "base", KUBERNETES_FILES / "overlays" / "example"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((BASE / "kustomization.yaml").read_text())
OBJECTS: list[dict[str, Any]] = [
    found for name in KUSTOMIZATION["resources"] for found in yaml.safe_load_all((BASE / name).read_text())
]
KUBERNETES = "1.37"
SETTINGS: dict[str, str] = dict(line.split("=", 1) for line in KUSTOMIZATION["configMapGenerator"][0]["literals"])
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


@pytest.mark.parametrize("one", [o for o in OBJECTS if o["kind"] == "ScaledObject"], ids=named)
def test_a_scaled_object_is_valid(one: dict[str, Any]) -> None:
    jsonschema.validate(one, SCALED_OBJECT)
    wrong = copy.deepcopy(one)
    wrong["spec"]["cooldownPeriods"] = wrong["spec"].pop("cooldownPeriod")
    with pytest.raises(jsonschema.ValidationError, match="cooldownPeriods"):
        jsonschema.validate(wrong, SCALED_OBJECT)


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
    maps = {generated["name"] for generated in KUSTOMIZATION["configMapGenerator"]}
    claims = set(of_kind("PersistentVolumeClaim"))
    for stage in STAGES:
        given = [source["configMapRef"]["name"] for source in pod(stage)["containers"][0]["envFrom"][:1]]
        volumes = pod(stage)["volumes"]
        given += [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
        claimed = {v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v}
        assert set(given) <= maps
        assert claimed == (claims if stage in (*TORCH, "monitor") else set())  # which keeps its trackers' files there
        mounted = {mount["name"] for mount in pod(stage)["containers"][0]["volumeMounts"]}
        assert mounted == {volume["name"] for volume in volumes}
        if stage not in FACTS:
            assert WORKLOADS[stage]["spec"]["serviceName"] in of_kind("Service")


def trigger(run: str, bootstrap: str, stage: StageName, threshold: str) -> dict[str, str]:
    """What KEDA is to look at for a stage."""
    return {
        "bootstrapServers": bootstrap,
        "consumerGroup": group_name(run, stage),
        "topic": topic_name(run, READS[stage]),
        "lagThreshold": threshold,
        "offsetResetPolicy": "earliest",
    }


def test_generators_and_scorers_are_scaled_by_their_own_lag() -> None:
    scaled = of_kind("ScaledObject")
    assert set(scaled) == {"generator", "scorer"}
    for name, spec in scaled.items():
        (found,) = spec["triggers"]
        assert spec["scaleTargetRef"] == {"name": name}
        assert "replicas" not in WORKLOADS[name]["spec"]  # it would undo the scaling at each apply
        assert 0 < spec["minReplicaCount"] < spec["maxReplicaCount"]
        wanted = SETTINGS["TAMIS_RUN"], SETTINGS["TAMIS_BOOTSTRAP"], StageName(name), found["metadata"]["lagThreshold"]
        assert found["metadata"] == trigger(*wanted)


def kustomize(folder: Path) -> list[dict[str, Any]]:
    """What kubectl or kustomize makes of a folder. Skips where neither is on the PATH."""
    for words in (["kubectl", "kustomize"], ["kustomize", "build"]):
        if shutil.which(words[0]):
            done = subprocess.run([*words, str(folder)], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            return list(yaml.safe_load_all(done.stdout))
    pytest.skip("neither kubectl nor kustomize is on the PATH")


def test_an_overlay_takes_its_run_everywhere() -> None:
    made = kustomize(EXAMPLE)
    (settings,) = [one for one in made if one["kind"] == "ConfigMap" and "TAMIS_RUN" in one["data"]]
    run, bootstrap = settings["data"]["TAMIS_RUN"], settings["data"]["TAMIS_BOOTSTRAP"]
    assert (run, bootstrap) == ("first", "kafka.training.svc:9092")
    assert settings["data"].keys() == SETTINGS.keys()
    for one in made:
        if one["kind"] == "ScaledObject":
            jsonschema.validate(one, SCALED_OBJECT)
            (found,) = one["spec"]["triggers"]
            stage = StageName(one["metadata"]["name"])
            assert found["metadata"] == trigger(run, bootstrap, stage, found["metadata"]["lagThreshold"])
        else:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
        if one["kind"] in ("StatefulSet", "Deployment", "Job"):  # a change of its settings is one of the pods as well
            (container,) = one["spec"]["template"]["spec"]["containers"]
            assert container["envFrom"][0]["configMapRef"]["name"] == settings["metadata"]["name"] != "tamis"
            assert container["image"].startswith("registry.example/tamis:")


def test_the_example_names_what_makes_the_scaling_follow() -> None:
    """Replacements of the base run before an overlay's changes; those of `transformers` after them."""
    overlay = yaml.safe_load((EXAMPLE / "kustomization.yaml").read_text())
    assert overlay["transformers"] == ["../../follow"]
    assert "replacements" not in KUSTOMIZATION
    follow = yaml.safe_load((KUBERNETES_FILES / "follow" / "scaling.yaml").read_text())
    assert follow["kind"] == "ReplacementTransformer"
    replaced = {one["source"]["fieldPath"]: one["targets"][0]["fieldPaths"] for one in follow["replacements"]}
    assert replaced == {
        "data.TAMIS_BOOTSTRAP": ["spec.triggers.0.metadata.bootstrapServers"],
        "data.TAMIS_RUN": ["spec.triggers.0.metadata.consumerGroup", "spec.triggers.0.metadata.topic"],
    }
    assert load(EXAMPLE / "run.yaml").run == "first"


def test_a_second_apply_makes_the_job_anew() -> None:
    assert of_kind("Job")["init"]["ttlSecondsAfterFinished"] == 60


def test_a_drained_node_takes_one_of_a_kind_at_a_time() -> None:
    budgets = of_kind("PodDisruptionBudget")
    assert set(budgets) == set(STAGES)
    for stage, budget in budgets.items():
        assert budget == {"maxUnavailable": 1, "selector": WORKLOADS[stage]["spec"]["selector"]}
