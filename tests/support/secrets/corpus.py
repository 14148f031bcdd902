"""Planted secrets as people write them into properties and logs, and what is none. All are made up."""

from __future__ import annotations

from dataclasses import dataclass

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAplanted\n-----END RSA PRIVATE KEY-----"


@dataclass(frozen=True)
class Planted:
    """A property whose value is, or has, a secret."""

    name: str
    value: str
    secret: str
    """The part nobody may see."""


PLANTED = (
    Planted("pwd", "planted-1", "planted-1"),
    Planted("db.passwd", "planted-1", "planted-1"),
    Planted("passphrase", "planted 1", "planted"),
    Planted("userPassword", "planted-1", "planted-1"),
    Planted("DB_PASS", "planted-1", "planted-1"),
    Planted("pass", "planted-1", "planted-1"),
    Planted("clientSecret", "planted-1", "planted-1"),
    Planted("api-key", "planted-1", "planted-1"),
    Planted("accessToken", "planted-1", "planted-1"),
    Planted("credentials", "planted-1", "planted-1"),
    Planted("auth", "planted-1", "planted-1"),
    Planted("authParams", "planted-1", "planted-1"),
    Planted("sig", "planted-1", "planted-1"),
    Planted("session_id", "planted-1", "planted-1"),
    Planted("Cookie", "planted-1", "planted-1"),
    Planted("header", "Bearer planted-1", "planted-1"),
    Planted("header", "Basic YWRtaW46cGxhbnRlZDE=", "YWRtaW46cGxhbnRlZDE"),
    Planted("header", "Authorization: Digest planted-1", "planted-1"),
    Planted("note", JWT, "c2lnbmF0dXJl"),
    Planted("sasl.jaas.config", "org.x.PlainLoginModule required username=a password=planted-1;", "planted-1"),
    Planted("login", 'com.x.Krb5LoginModule required pw="planted-1";', "planted-1"),
    Planted("url", "jdbc:postgresql://db:5432/x?user=a&password=planted-1", "planted-1"),
    Planted("url", "jdbc:mysql://a:planted-1@db/x", "planted-1"),
    Planted("url", "jdbc:oracle:thin:scott/planted-1@db:1521:x", "planted-1"),
    Planted("url", "jdbc:sqlserver://db;user=sa;pwd=planted-1;encrypt=true", "planted-1"),
    Planted("endpoint", "https://admin:planted-1@store.example/x", "planted-1"),
    Planted("endpoint", "amqp://planted-1@host/", "planted-1"),
    Planted("endpoint", "admin:planted-1@db.example:5432", "planted-1"),
    Planted("pem", PEM, "MIIEowIBAAKCAQEAplanted"),
    Planted("blob", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=planted1==;EndpointSuffix=x", "planted1"),
    Planted("bus", "Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey=planted1=", "planted1"),
    Planted("link", "https://x.blob/y?sv=2024&sig=planted%2F1", "planted%2F1"),
    Planted("aws", "AKIAIOSFODNN7PLANTED", "AKIAIOSFODNN7PLANTED"),
    Planted("ci", "ghp_plantedplantedplanted1", "plantedplantedplanted1"),
    Planted("chat", "xoxb-123456789012-planted", "123456789012-planted"),
    Planted("pay", "sk_live_plantedplanted", "plantedplanted"),
    Planted("maps", "AIzaSyPlantedPlantedPlantedPlanted123456", "PlantedPlanted"),
    Planted("vault", "hvs.plantedplantedplanted", "plantedplanted"),
)
PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYplanted\n-----END PGP PRIVATE KEY BLOCK-----"
PLANTED_LATER = (
    Planted("storepass", "planted-1", "planted-1"),
    Planted("auth.adminPass", "planted-1", "planted-1"),
    Planted("command", "keytool -list -storepass planted-1 -keystore a.jks", "planted-1"),
    Planted("command", "curl -u ops:planted-1 https://a.example/", "planted-1"),
    Planted("command", "curl --proxy-user=ops:planted-1 https://a.example/", "planted-1"),
    Planted("command", "helm upgrade --set auth.adminPass=planted-1", "planted-1"),
    Planted("hook", "https://hooks.slack.com/services/T01AB2CD3/B04EF5GH6/planted", "planted"),
    Planted("hook", "https://discord.com/api/webhooks/123/planted", "planted"),
    Planted("hook", "https://a.webhook.office.com/webhookb2/planted", "planted"),
    Planted("htpasswd", "admin:$2y$05$plantedplanted.HHa6uXQ", "plantedplanted"),
    Planted("shadow", "root:$6$salt$planted/planted1:19000", "planted/planted1"),
    Planted("gpg", PGP, "lQOYplanted"),
    Planted("body", "user%3Dops%26password%3Dplanted-1", "planted-1"),
    Planted("xml", "<server><password encoding='plain'>planted one</password></server>", "planted"),
    Planted("header", "Cookie: theme=dark; sid=planted-1", "planted-1"),
    Planted("x", '{\\"client_secret\\": \\"planted-1\\"}', "planted-1"),
    Planted("x", '{\\"client_secret\\": \\"planted one\\"}', "planted"),
    Planted("x", "X-API-Key: planted-1", "planted-1"),
    Planted("x", "SCRAM-SHA-256=[salt=a,stored_key=planted1=,server_key=planted2=]", "planted1"),
    Planted("x", '{"auths": {"reg.example": {"auth": "planted1="}}}', "planted1"),
    Planted("x", "https://b.s3.amazonaws.com/o?X-Amz-Expires=60&X-Amz-Signature=planted1", "planted1"),
    Planted("x", "tokenSecretKey=data:;base64,planted1", "planted1"),
)
"""Kinds that somebody planted who had not seen the others."""
RANDOM = (
    Planted("aws", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYPLANTEDKEY", "K7MDENG"),
    Planted("owner", "q7Xz2LmP9vRt4KsW8yBn", "q7Xz2LmP9vRt4KsW8yBn"),
    Planted("salt", "9f86d081884c7d659a2feaa0c55ad015", "9f86d081884c7d659a2feaa0c55ad015"),
)
"""Known by their randomness alone; left in the messages of brokers, where ids and digests look alike."""

INNOCENT = (
    ("team", "billing"),
    ("owner", "team-payments@example.com"),
    ("doc", "https://wiki.example/topics/orders?page=2"),
    ("schema", "io.example.orders.AvroOrderCreatedEvent"),
    ("id", "7a3e1c9e-5d0f-4a0e-9c1b-2f3d4e5f6a7b"),
    ("since", "2026-11-27T00:00:00Z"),
    ("brokers", "pulsar://east-broker-0.east-broker:6650,east-broker-1.east-broker:6650"),
    ("mode", "basic authentication"),
    ("bypass", "true"),
    ("command", "kubectl get pods -u 5 --user ops"),
    ("hook", "https://hooks.example.com/services/orders"),
    ("price", "$5 or $6"),
    ("note", "<b>bold</b>"),
    ("compass", "north"),
    ("pinned", "no"),
    ("designer", "ana"),
)
