"""What the changes of two clusters have in common: parts of templates, configurations and versions."""

from __future__ import annotations

import pytest

from pulsar_operator.api.constants import ANNOTATION_CONFIG_HASH
from pulsar_operator.domain.dataplane.changes import Change, change, parts

Json = dict[str, object]


def template(name: str, image: str = "pulsar:1", config: str = "1", **env: str) -> Json:
    """Of a cluster of that name."""
    main = {"name": "broker", "image": image, "env": [{"name": key, "value": text} for key, text in env.items()]}
    volume = {"name": "config", "configMap": {"name": f"{name}-broker-config-{config}"}}
    meta = {"annotations": {ANNOTATION_CONFIG_HASH: f"{name}{config}"}, "labels": {"instance": name}}
    return {"metadata": meta, "spec": {"containers": [main], "volumes": [volume]}}


def of(
    name: str, old: Json, new: Json, *, files: tuple[str, str] = ("", ""), versions: tuple[str, str] = ("1", "1")
) -> Change:
    found = [
        parts(each, {"overrides.conf": text, "jvm.conf": ""}, version)
        for each, text, version in zip((old, new), files, versions, strict=True)
    ]
    assert found[0] is not None and found[1] is not None
    return change(found[0], found[1], {name}, "pulsar")


def images(name: str, new: str, **more: tuple[str, str]) -> Change:
    return of(name, template(name), template(name, image=new), **more)


def keys(name: str, old: str, new: str) -> Change:
    """A change of the configuration."""
    return of(name, template(name), template(name, config="2"), files=(old, new))


@pytest.mark.parametrize(
    ("east", "west", "common"),
    [
        (images("east", "pulsar:2"), images("west", "pulsar:2"), ["spec.containers[0].image"]),
        (images("east", "pulsar:2"), images("west", "pulsar:3"), []),
        (images("east", "a/p:2", versions=("1", "2")), images("west", "b/p:2", versions=("1", "2")), ["version"]),
        (keys("east", "a=1", "a=2"), keys("west", "a=1\nb=1", "a=2\nb=2"), ["config.overrides.conf.a"]),
        (keys("east", "a=1", "a=2"), keys("west", "a=1", "a=3"), []),
        (keys("east", "a=1", "b=2"), keys("west", "a=3", "c=4"), ["config.overrides.conf.a"]),
        (keys("east", "", "zk=east-zk:2181"), keys("west", "", "zk=west-zk:2181"), ["config.overrides.conf.zk"]),
        (keys("east", "", "zone=northeast"), keys("west", "", "zone=northeast"), ["config.overrides.conf.zone"]),
        (keys("east", "a=1", "a=1"), keys("west", "a=1", "a=1"), []),
        (
            of("east", template("east", A="1"), template("east", A="secret")),
            of("west", template("west"), template("west", A="secret")),
            ["spec.containers[0].env[A].value"],
        ),
    ],
)
def test_what_two_changes_have_in_common(east: Change, west: Change, common: list[str]) -> None:
    assert east.common(west) == west.common(east) == common
    assert "secret" not in str(common)


@pytest.mark.parametrize("value", ["bad.at.{name}-broker.{space}.svc", "{name} of {space}/org.apache.pulsar.Bad"])
def test_the_same_change_in_another_kubernetes_namespace_is_in_common(value: str) -> None:
    """Also where a namespace is called as what both values have in them, or a part of it."""
    key = "config.overrides.conf.brokerEntryMetadataInterceptors"
    east, west, north = (
        change({}, {key: value.format(name=name, space=space)}, {name}, space)
        for name, space in (("east", "pulsar"), ("west", "pulsar-west"), ("north", "pul"))
    )
    assert east.common(west) == west.common(east) == east.common(north) == [key]
    other = change({}, {key: value.format(name="west", space="pulsar-west") + "2"}, {"west"}, "pulsar-west")
    assert east.common(other) == []


def test_an_option_of_the_jvm_is_told_by_no_word_of_it() -> None:
    found = [parts(template("east"), {"jvm.conf": text}, "1") for text in ("", "-javaagent:a.jar:secret")]
    assert found[0] is not None and found[1] is not None
    (path,) = {path for path, _ in change(found[0], found[1], (), "").parts}
    assert path.startswith("config.jvm.conf[") and "secret" not in path


def test_a_configuration_that_is_not_there_is_not_an_empty_one() -> None:
    assert parts(template("east"), None, "1") is None
