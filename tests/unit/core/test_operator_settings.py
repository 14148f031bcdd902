"""settings.py and logs.py."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from pulsar_operator.domain.dataplane.rollout.versions import Jumps
from pulsar_operator.logs import JsonFormatter, TextFormatter
from pulsar_operator.settings import Settings, SettingsError, load


def test_defaults_and_values() -> None:
    assert load({}).watch_namespaces == ()
    settings = load(
        {
            "PULSAR_OPERATOR_WATCH_NAMESPACES": "b, a,b ,",
            "PULSAR_OPERATOR_WORKERS": "3",
            "PULSAR_OPERATOR_SERVICE_ACCOUNT": "operator",
            "PULSAR_OPERATOR_LOG_LEVEL": "DEBUG",
            "PULSAR_OPERATOR_IMAGE_BROKER": "registry.example/broker:{version}",
            "PULSAR_OPERATOR_LEASE_SECONDS": "",
            "KUBECONFIG": "/some/file",
            "OTHER": "x",
        }
    )
    assert settings.watch_namespaces == ("b", "a") and settings.workers == 3 and settings.log_level == "debug"
    assert settings.service_account == "operator" and load({}).service_account is None
    assert settings.images.broker == "registry.example/broker:{version}"
    assert settings.images.bookie == "pulsar-bookie:{version}"
    assert settings.lease_seconds == Settings().lease_seconds and str(settings.kubeconfig) == "/some/file"


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("WORKERS", "many", "valid integer"),
        ("WORKERS", "0", "greater than or equal to 1"),
        ("LOG_FORMAT", "xml", "'json' or 'text'"),
        ("LOG_LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("WATCH_NAMESPACES", "a,B_c", "'B_c' is not a valid name of a Kubernetes namespace"),
        ("HEALTH_PORT", "70000", "less than or equal to 65535"),
        ("RESYNC_SECONDS", "nan", "greater than or equal to 1"),
        ("UPGRADE_PATHS", "4.0.8 -> 4.0.9, 4.0.9", "'4.0.9' is not a jump between versions. Write 4.0.8 -> 4.0.9, or"),
    ],
)
def test_bad_values_name_variable_value_and_remedy(variable: str, value: str, words: str) -> None:
    with pytest.raises(SettingsError) as error:
        load({f"PULSAR_OPERATOR_{variable}": value})
    text = str(error.value)
    assert text.startswith(f"PULSAR_OPERATOR_{variable} = {value!r} cannot be used: ") and words in text
    assert "\n" not in text


def test_upgrade_paths() -> None:
    assert load({}).upgrade_paths == load({"PULSAR_OPERATOR_UPGRADE_PATHS": " "}).upgrade_paths == Jumps()
    found = load({"PULSAR_OPERATOR_UPGRADE_PATHS": "4.0.6 <-> 4.0.8, 4.0.8 -> 4.0.9"}).upgrade_paths
    assert found.pairs == {("4.0.6", "4.0.8"), ("4.0.8", "4.0.6"), ("4.0.8", "4.0.9")}


def test_unknown_setting() -> None:
    with pytest.raises(SettingsError, match=r"PULSAR_OPERATOR_WORKER is not a setting.*PULSAR_OPERATOR_WORKERS"):
        load({"PULSAR_OPERATOR_WORKER": "1"})


def test_variables_kubernetes_makes_for_services_are_no_settings() -> None:
    settings = load(
        {
            "PULSAR_OPERATOR_SERVICE_HOST": "10.0.0.1",
            "PULSAR_OPERATOR_SERVICE_PORT_METRICS": "9090",
            "PULSAR_OPERATOR_PORT": "tcp://10.0.0.1:9090",
            "PULSAR_OPERATOR_PORT_9090_TCP_ADDR": "10.0.0.1",
            "PULSAR_OPERATOR_METRICS_SERVICE_HOST": "10.0.0.1",
            "PULSAR_OPERATOR_METRICS_PORT": "tcp://10.0.0.1:9090",
            "PULSAR_OPERATOR_HEALTH_PORT": "8081",
        }
    )
    assert settings.metrics_port == 9090 and settings.health_port == 8081


def _record(**extra: object) -> logging.LogRecord:
    logger = logging.getLogger("test")
    try:
        raise ValueError("bad")
    except ValueError:
        return logger.makeRecord("test", logging.ERROR, "f", 1, "hello %s", ("you",), sys.exc_info(), extra=extra)


def test_json_is_one_line_with_the_extra_fields() -> None:
    text = JsonFormatter().format(_record(kind="PulsarTopic", object="x", error=None, strange={1, 2}))
    assert "\n" not in text
    line = json.loads(text)
    assert line["message"] == "hello you" and line["level"] == "error" and line["kind"] == "PulsarTopic"
    assert "ValueError: bad" in line["traceback"] and "error" not in line and line["time"].endswith("+00:00")


def test_text_has_the_extra_fields() -> None:
    text = TextFormatter().format(_record(kind="PulsarTopic"))
    assert "hello you  [kind=PulsarTopic]" in text.splitlines()[0] and "ValueError: bad" in text
