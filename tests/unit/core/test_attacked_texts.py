"""Attacks on the list of what is secret: planted by somebody who has not read the corpus."""

from __future__ import annotations

import pytest

from pulsar_operator.domain.texts import quoted

S = "hunter2Zq81xw"


@pytest.mark.parametrize(
    "text",
    [
        f"login failed for amqp://svc:{S}@mq.example.com/vhost",
        f"curl --oauth2-bearer {S} https://x",
        f"X-Api-Key: {S}",
        f"client_secret={S}&grant_type=client_credentials",
        f'{{"auth": {{"passphrase": "{S}"}}}}',
        f"-Djavax.net.ssl.trustStorePassword={S}",
        f"DefaultEndpointsProtocol=https;AccountName=n;AccountKey={S}==;EndpointSuffix=core.windows.net",
        f"jdbc:postgresql://h/db?user=u&password={S}",
        f"sasl.jaas.config=org.apache.X required username=u password={S};",
        f"Proxy-Authorization: Digest username=u, response={S}",
        f"<password>{S}</password>",
        f"https://h/container?sv=2022&sig={S}%3D",
        f"tokenSecretKey=data:;base64,{S}",
        f"keyPassphrase: '{S}'",
        f"REDIS_PASS={S}",
        f"Server=h;Uid=u;Pwd={S};",
        f"otpauth://totp/x?secret={S}",
        f"mongodb+srv://u:{S}@h/db",
        f"the password is {S}",
        f"PGPASSWORD {S}",
    ],
)
def test_a_planted_secret_is_not_reported(text: str) -> None:
    assert S not in quoted(text)


@pytest.mark.parametrize(
    "text",
    ["the password is wrong", "the password expired yesterday", "Secret pulsar/broker-tls-v2 has no key tls.crt"],
)
def test_a_sentence_stays_readable(text: str) -> None:
    assert quoted(text) == text
