"""settings.py, the command line and the logs."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pulsar_sizing import __main__ as main
from pulsar_sizing.collector.client import CollectError
from pulsar_sizing.collector.run import targets
from pulsar_sizing.job import cli
from pulsar_sizing.logs import Formatter
from pulsar_sizing.place import S3
from pulsar_sizing.settings import Settings, SettingsError, add_arguments, load

BASE = ["--instance", "i", "--root", "/data"]


def parse(*options: str, **environ: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return load(parser.parse_args(options), {f"PULSAR_SIZING_{k.upper()}": v for k, v in environ.items()})


def test_every_setting_is_an_option_and_a_variable() -> None:
    values = {
        "instance": "prod",
        "root": "s3://bucket/x",
        "s3_endpoint": "http://minio:9000",
        "s3_region": "eu-west-1",
        "s3_addressing": "virtual",
        "cluster": "east",
        "admin_url": "http://east:8080",
        "broker_url": "https://{host}:8443",
        "token_file": "/token",
        "token_host": ".east-broker-headless",
        "ca_file": "/ca",
        "interval": "30",
        "deadline": "10",
        "concurrency": "2",
        "listen": ":9000",
        "retention_days": "3",
        "upkeep_seconds": "60",
        "log_level": "debug",
        "log_format": "text",
    }
    assert set(values) == set(Settings.model_fields)
    options = [word for k, v in values.items() for word in (f"--{k.replace('_', '-')}", v)]
    assert parse(*options) == parse(**values) != parse("--instance", "prod", "--root", "s3://bucket/x")
    assert parse(*BASE, "--interval", "15", **values).interval == 15.0, "the option wins"


@pytest.mark.parametrize(
    ("given", "environ", "region"),
    [
        ([], {}, None),
        ([], {"AWS_DEFAULT_REGION": "a"}, "a"),
        ([], {"AWS_DEFAULT_REGION": "a", "AWS_REGION": "b"}, "b"),
        ([], {"AWS_REGION": "b", "PULSAR_SIZING_S3_REGION": "c"}, "c"),
        (["--s3-region", "d"], {"AWS_REGION": "b", "PULSAR_SIZING_S3_REGION": "c"}, "d"),
    ],
)
def test_the_region_of_aws_s_own_variables_counts_too(
    given: list[str], environ: dict[str, str], region: str | None
) -> None:
    """A Secret's keys become variables of the pod, and these are what AWS's own tools call them."""
    reader = argparse.ArgumentParser()
    add_arguments(reader)
    assert load(reader.parse_args([*BASE, *given]), environ).s3 == S3(region=region)
    job = cli.parser(environ).parse_args(["size", *BASE, "--cluster", "c", *given])
    assert (job.s3_region, job.s3_endpoint, job.s3_addressing) == (region, None, "auto")


def test_empty_and_foreign_variables_are_not_ours() -> None:
    settings = parse(*BASE, interval=" ", port="tcp://10.0.0.1:80", driver_memory="4g")
    assert settings.interval == 60.0


def test_several_clusters() -> None:
    by_option = parse(*BASE, "--cluster", "a=http://a:80", "--cluster", "b=https://b", "--cluster", "a=http://a2:80")
    assert by_option.clusters() == {"a": ("http://a:80", "http://a2:80"), "b": ("https://b",)}
    by_variable = parse(*BASE, cluster=" a=http://a:80, b=https://b ,a=http://a2:80,")
    assert by_variable.clusters() == by_option.clusters()
    assert parse(*BASE, "--cluster", "a", "--admin-url", "http://a").clusters() == {"a": ("http://a",)}


def test_files_and_addresses_by_cluster() -> None:
    settings = parse(
        *BASE, "--cluster", "a=http://a", "--cluster", "b=http://b", "--token-file", "/s/{cluster}/token",
        "--broker-url", "http://{host}.{cluster}.mesh:{port}", "--ca-file", "/ca.crt", "--token-host", "x",
        "--token-host", ".{cluster}-broker-headless",
    )  # fmt: skip
    a, b = targets(settings)
    assert (a.token_file, b.token_file, a.ca_file) == (Path("/s/a/token"), Path("/s/b/token"), Path("/ca.crt"))
    assert b.address("x:1") == "http://x.b.mesh:1"
    assert b.address("b-broker-0.b-broker-headless:1") == "http://b-broker-0.b-broker-headless.b.mesh:1"
    with pytest.raises(CollectError, match="none that the token is for"):
        b.address("b-broker-0.a-broker-headless:1")
    assert settings.retention_days == 14


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["--instance (PULSAR_SIZING_INSTANCE) is needed", "--root (PULSAR_SIZING_ROOT) is needed"]),
        (["--instance", "a/b"], ["--instance (PULSAR_SIZING_INSTANCE) = 'a/b' cannot be used"]),
        (["--interval", "0"], ["--interval (PULSAR_SIZING_INTERVAL) = '0' cannot be used", "greater than or equal"]),
        (["--interval", "nan"], ["--interval (PULSAR_SIZING_INTERVAL) = 'nan' cannot be used"]),
        (["--concurrency", "many"], ["'many' cannot be used", "valid integer"]),
        (["--cluster", "a"], ["cluster 'a' has no admin URL", "a=http://host:port"]),
        (["--cluster", "a=ftp://x"], ["'a=ftp://x' is no cluster name"]),
        (["--cluster", "a/b=http://x"], ["'a/b' is no cluster name"]),
        (["--cluster", "a=http://u:hidden@x"], ["no URL of Pulsar's web service"]),
        (["--broker-url", "http://{pod}"], ["'http://{pod}' holds {pod}", "{broker}, {host}"]),
        (["--broker-url", "{broker}"], ["no URL of Pulsar's web service"]),
        (["--listen", "8080"], ["listen is '8080': give host:port"]),
        (["--listen", ":99999"], ["give host:port"]),
        (["--retention-days", "0"], ["greater than or equal to 1"]),
    ],
)
def test_bad_values_name_option_variable_and_remedy(options: list[str], words: list[str]) -> None:
    base = [] if not options or options[0] == "--instance" else BASE
    with pytest.raises(SettingsError) as error:
        parse(*base, *options)
    assert all(w in str(error.value) for w in words) and "hidden" not in str(error.value).replace(
        "=http://u:hidden", ""
    )


@pytest.mark.parametrize(("listen", "address"), [(":80", (None, 80)), ("[::1]:80", ("::1", 80)), ("h:0", ("h", 0))])
def test_listen(listen: str, address: tuple[str | None, int]) -> None:
    assert parse(*BASE, "--listen", listen).address() == address


def test_without_a_word_every_address_is_listened_on() -> None:
    """A probe or an operator of a cluster with IPv6 alone gets no answer at 0.0.0.0."""
    assert parse(*BASE).address() == (None, 8080)


def test_exit_codes_of_wrong_use(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main.run(["expire"]) == main.EXIT_USAGE
    assert main.run(["collect", *BASE]) == main.EXIT_USAGE
    assert "--cluster (PULSAR_SIZING_CLUSTER) is needed" in capsys.readouterr().err
    assert main.run(["expire", "--instance", "i", "--root", "nosuch://x"]) == main.EXIT_FAILED
    assert "root 'nosuch://x' cannot be used" in capsys.readouterr().err
    assert main.run(["expire", "--instance", "i", "--root", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == {"days": 0, "leftovers": 0}


def test_the_job_is_imported_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []

    class Job:
        @staticmethod
        def main(argv: list[str]) -> int:
            called.append(argv)
            return 3

    def fake_import(name: str) -> Any:
        assert name == "pulsar_sizing.job.cli"
        return Job

    monkeypatch.setattr(main, "import_module", fake_import)
    assert main.run(["size", "--help"]) == 3 and called == [["size", "--help"]]


def test_logs() -> None:
    record = logging.makeLogRecord(
        {"msg": "round ended", "name": "n", "levelname": "INFO", "cluster": "c", "none": None}
    )
    line = json.loads(Formatter("json").format(record))
    assert (line["level"], line["message"], line["cluster"]) == ("info", "round ended", "c") and "none" not in line
    assert Formatter("text").format(record).endswith("INFO    round ended cluster=c")


def test_the_process_starts_serves_and_ends_on_sigterm(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {
        **os.environ,
        "PYTHONPATH": "operator",
        "PULSAR_SIZING_INSTANCE": "i",
        "PULSAR_SIZING_ROOT": str(tmp_path),
        "PULSAR_SIZING_CLUSTER": "c=http://127.0.0.1:1",
        "PULSAR_SIZING_LISTEN": f"127.0.0.1:{port}",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pulsar_sizing", "collect"], env=environ, stdout=subprocess.PIPE, text=True
    )
    try:
        status = eventually(f"http://127.0.0.1:{port}/v1/status", lambda body: body["clusters"]["c"] is not None)
        assert status["clusters"]["c"]["error"] == "no list of brokers: no connection: Connection refused"
        assert eventually(f"http://127.0.0.1:{port}/healthz", lambda body: True) == {"ok": True}
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and '"listening"' in output


def eventually(url: str, good: Any) -> Any:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                body = json.load(answer)
            if good(body):
                return body
        except urllib.error.URLError:
            pass
        assert time.monotonic() < deadline, f"{url} did not answer as awaited"
        time.sleep(0.05)
