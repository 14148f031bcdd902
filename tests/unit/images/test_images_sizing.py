"""The start program of the sizing image: what Spark's Kubernetes scheduler asks for, and everything else."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "sizing_image" / "sizing_start.py"
EXECUTOR = {
    "SPARK_HOME": "/spark",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.7:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.9",
    "SPARK_EXECUTOR_POD_NAME": "job-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


@pytest.fixture(scope="module", name="start")
def _start() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sizing_start", PROGRAM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_executor_as_spark_asks(start: ModuleType) -> None:
    env = EXECUTOR | {"SPARK_CONF_DIR": "/opt/spark/conf", "SPARK_CLASSPATH": "/more/*", "OTHER": "x"}
    assert start.executor_command(env, "/java") == [
        "/java",
        "-Xms1024m",
        "-Xmx1024m",
        "-cp",
        "/opt/spark/conf:/more/*:/spark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "spark://CoarseGrainedScheduler@10.0.0.7:7078"),
        *("--executor-id", "3"),
        *("--cores", "2"),
        *("--app-id", "spark-1"),
        *("--hostname", "10.0.0.9"),
        *("--resourceProfileId", "0"),
        *("--podName", "job-exec-3"),
    ]


def test_java_options_keep_their_order_and_their_blanks(start: ModuleType) -> None:
    """By number: as text, the tenth would come before the second."""
    options = {f"SPARK_JAVA_OPT_{n}": f"-Dn={n} and more" for n in range(11)}
    command = start.executor_command(EXECUTOR | options, "/java")
    assert command[1:12] == [f"-Dn={n} and more" for n in range(11)]


@pytest.mark.parametrize("missing", sorted(EXECUTOR))
def test_executor_without_one_of_its_variables(start: ModuleType, missing: str) -> None:
    with pytest.raises(start.StartError, match=f"{missing} is not set"):
        start.executor_command({**EXECUTOR, missing: ""}, "/java")


def test_driver_as_spark_asks(start: ModuleType) -> None:
    env = {"SPARK_HOME": "/spark", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}
    assert start.driver_command(env, ["--class", "x", "local:///y.py"]) == [
        *("/spark/bin/spark-submit", "--conf", "spark.driver.bindAddress=10.0.0.7", "--deploy-mode", "client"),
        *("--class", "x", "local:///y.py"),
    ]


def test_java_of_java_home_comes_first(start: ModuleType, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("")
    java.chmod(0o755)
    assert start.java_program({"JAVA_HOME": "/jdk", "PATH": str(tmp_path)}) == "/jdk/bin/java"
    assert start.java_program({"PATH": str(tmp_path)}) == str(java)
    with pytest.raises(start.StartError, match="no java"):
        start.java_program({"PATH": str(tmp_path / "empty")})


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program, with a package pulsar_sizing that is in the folder."""
    command = [sys.executable, str(PROGRAM), *arguments]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a package of that name, which prints what it is given."""
    (tmp_path / "pulsar_sizing").mkdir()
    (tmp_path / "pulsar_sizing" / "__init__.py").write_text("")
    (tmp_path / "pulsar_sizing" / "__main__.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    return tmp_path


def test_everything_else_is_for_the_package(package: Path) -> None:
    assert run(package, "size", "--root", "/d").stdout == "__main__ ['size', '--root', '/d']\n"
    assert run(package).stdout == "__main__ []\n"


def test_wrong_start_is_told_in_a_sentence(package: Path) -> None:
    done = run(package, "driver")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == "pulsar-sizing: SPARK_DRIVER_BIND_ADDRESS is not set: Spark sets it in the containers that it starts\n"
    )


def test_a_job_ends_at_the_first_request(package: Path) -> None:
    """As process 1 it gets no signal without a handler; and it must clean up, so the default is not enough."""
    (package / "pulsar_sizing" / "__main__.py").write_text(
        "import signal\n"
        "try:\n    print('begun', flush=True)\n    signal.pause()\nfinally:\n    print('cleaned', flush=True)\n"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package)}
    with subprocess.Popen([sys.executable, str(PROGRAM), "size"], env=env, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "begun\n"
        job.send_signal(signal.SIGTERM)
        assert job.communicate(timeout=60)[0] == "cleaned\n"
    assert job.returncode == 128 + signal.SIGTERM
