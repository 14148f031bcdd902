"""A pod template with every field set, some as the API server would write them otherwise (false, 0, other units)."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

USERS = "user-"
"""Begins the names of what users add to pods here."""

EVERY_FIELD: Json = {
    "labels": {"team": "a", "app.kubernetes.io/component": "hijack"},
    "annotations": {"note": "b"},
    "nodeSelector": {"disk": "ssd"},
    "affinity": {"nodeAffinity": {}},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "topologySpreadConstraints": [],
    "priorityClassName": "system-node-critical",
    "env": [
        {"name": "EXTRA", "value": "$(POD_NAME)"},
        {"name": "EMPTY"},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "key", "optional": False}}},
        {"name": "SETTING", "valueFrom": {"configMapKeyRef": {"name": "files", "key": "a", "optional": True}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ],
    "envFrom": [
        {"prefix": "S3_", "secretRef": {"name": "s3", "optional": True}},
        {"prefix": "", "configMapRef": {"name": "files"}},
    ],
    "volumes": [
        {"name": f"{USERS}token", "secret": {"secretName": "token", "optional": False, "items": []}},
        {"name": f"{USERS}files", "configMap": {"name": "files", "items": [{"key": "a", "path": "b"}]}},
        {"name": f"{USERS}scratch", "emptyDir": {"sizeLimit": "1024Mi"}},
        {"name": f"{USERS}ram", "emptyDir": {"medium": "Memory"}},
        {
            "name": f"{USERS}both",
            "projected": {
                "sources": [
                    {"secret": {"name": "token"}},
                    {"serviceAccountToken": {"path": "token", "audience": "vault"}},
                ]
            },
        },
        {
            "name": f"{USERS}vault",
            "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True, "volumeAttributes": {"class": "v"}},
        },
        {"name": f"{USERS}claim", "persistentVolumeClaim": {"claimName": "models", "readOnly": False}},
    ],
    "volumeMounts": [
        {"name": f"{USERS}token", "mountPath": "/mnt/token", "readOnly": True},
        {"name": f"{USERS}files", "mountPath": "/pulsar/lib/filter.jar", "subPath": "b", "readOnly": False},
    ],
    "sidecars": [
        {
            "name": f"{USERS}shipper",
            "image": "shipper:1",
            "imagePullPolicy": "Always",
            "command": ["ship"],
            "args": ["", "--follow"],
            "env": [{"name": "A"}, {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "key"}}}],
            "envFrom": [{"prefix": "", "secretRef": {"name": "s3"}}],
            "ports": [{"name": "ship", "containerPort": 9999}, {"containerPort": 9998}],
            "resources": {"requests": {"cpu": 1, "memory": "1024Mi"}, "limits": {}},
            "volumeMounts": [
                {"name": "logs", "mountPath": "/logs", "readOnly": True},
                {"name": f"{USERS}scratch", "mountPath": "/tmp"},
            ],
            "readinessProbe": {"httpGet": {"path": "/ok", "port": "ship"}, "initialDelaySeconds": 0},
            "livenessProbe": {"tcpSocket": {"port": 9999}, "periodSeconds": 20, "failureThreshold": 5},
        }
    ],
    "initContainers": [
        {
            "name": f"{USERS}fetch",
            "image": "fetch:1",
            "volumeMounts": [{"name": f"{USERS}scratch", "mountPath": "/out"}],
            "resources": {"limits": {"memory": "64Mi"}},
        }
    ],
    "podAntiAffinity": "Required",
    "zoneSpread": "Preferred",
    "terminationGracePeriodSeconds": 120,
    "preStopSleepSeconds": 15,
    "readinessProbe": {"initialDelaySeconds": 0, "periodSeconds": 7},
    "livenessProbe": {"failureThreshold": 10, "timeoutSeconds": 20},
    "startupProbe": {"failureThreshold": 720},
    "tmpDirSizeLimit": "1024Mi",
    "logsDirSizeLimit": 8589934592,
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": 1},
    "serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/offload"},
}
