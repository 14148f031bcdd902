"""What a container of the image runs: a process of Spark when Spark starts it, else ``python -m pulsar_sizing``.

Spark's Kubernetes scheduler starts a container with the argument ``executor`` or ``driver`` and says the rest in
variables (classes BasicExecutorFeatureStep and BasicDriverFeatureStep); the package of PySpark has no program for that.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NoReturn

JAVA_OPTION = re.compile(r"SPARK_JAVA_OPT_(\d+)")
BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
EXECUTOR_OPTIONS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""Options of the backend and the variables that Spark sets for them."""
TERMINATED = 128 + signal.SIGTERM


class StartError(Exception):
    """The container cannot be started as asked; the message says why."""


def executor_command(env: Mapping[str, str], java: str) -> list[str]:
    """Command line of an executor. Raises StartError when Spark's variables are not there."""
    memory = _variable(env, "SPARK_EXECUTOR_MEMORY")
    given = sorted((int(found[1]), value) for name, value in env.items() if (found := JAVA_OPTION.fullmatch(name)))
    options = [word for option, name in EXECUTOR_OPTIONS.items() for word in (option, _variable(env, name))]
    java_options = [value for _, value in given]
    return [java, *java_options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", class_path(env), BACKEND, *options]


def class_path(env: Mapping[str, str]) -> str:
    """Folders and jars of an executor: its configuration first, then Spark's jars, then what the user adds."""
    home = _variable(env, "SPARK_HOME")
    places = [
        env.get("SPARK_CONF_DIR") or f"{home}/conf",
        env.get("HADOOP_CONF_DIR"),
        env.get("SPARK_CLASSPATH"),
        f"{home}/jars/*",
        env.get("SPARK_EXTRA_CLASSPATH"),
        env.get("SPARK_DIST_CLASSPATH"),
    ]
    return ":".join(place for place in places if place)


def driver_command(env: Mapping[str, str], arguments: Sequence[str]) -> list[str]:
    """Command line of a driver that spark-submit put into a pod. Raises StartError as above."""
    bind = f"spark.driver.bindAddress={_variable(env, 'SPARK_DRIVER_BIND_ADDRESS')}"
    submit = f"{_variable(env, 'SPARK_HOME')}/bin/spark-submit"
    return [submit, "--conf", bind, "--deploy-mode", "client", *arguments]


def java_program(env: Mapping[str, str]) -> str:
    """Path of java: below JAVA_HOME, else on the PATH. Raises StartError when there is none."""
    home = env.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java", path=env.get("PATH"))
    if not found:
        raise StartError("there is no java on the PATH and no JAVA_HOME")
    return found


def _variable(env: Mapping[str, str], name: str) -> str:
    value = env.get(name)
    if not value:
        raise StartError(f"{name} is not set: Spark sets it in the containers that it starts")
    return value


def _terminated(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(TERMINATED)


def main(arguments: Sequence[str]) -> None:
    """Become the wanted process; ends with status 2 when that cannot be."""
    try:
        if arguments[:1] == ["executor"]:
            command = executor_command(os.environ, java_program(os.environ))
            os.execv(command[0], command)
        if arguments[:1] == ["driver"]:
            command = driver_command(os.environ, arguments[1:])
            os.execv(command[0], command)
    except (StartError, OSError) as error:
        print(f"pulsar-sizing: {error}", file=sys.stderr)
        sys.exit(2)
    # Process 1 of a container gets no signal that it has no handler for: without this a job ends only when killed.
    signal.signal(signal.SIGTERM, _terminated)
    sys.argv = ["pulsar_sizing", *arguments]
    runpy.run_module("pulsar_sizing", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
