"""JAAS files as Kafka's operators have them."""

import re

import pytest

from cluster.tls.secret import Secret
from cluster.zookeeper.login import Credentials, Scheme, parse_login

KAFKA_FILE = """
// What brokers say of themselves to clients.
KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required
  username="admin" password="other";
};
/* To ZooKeeper {
   username="nobody" */
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  username = "kafka"
  password="s{e}c;r=e\\"t//x" ;
};
"""


def test_the_section_for_zookeeper_names_user_and_password() -> None:
    assert parse_login(KAFKA_FILE, "Client", Scheme.SASL) == Credentials(Scheme.SASL, "kafka", Secret('s{e}c;r=e"t//x'))


def test_another_section_may_be_meant_and_values_need_no_quotes() -> None:
    text = "Zk{a.Module optional debug=true username=u password=p; b.Module required username=v;};"
    assert parse_login(text, "Zk", Scheme.DIGEST) == Credentials(Scheme.DIGEST, "u", Secret("p"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no section Client"),
        ('"Client" { };', "has no section Client"),
        ('Other { M required username="u" password="p"; };', "has no section Client"),
        ('Client { M required password="p"; };', "section Client has no username"),
        ('Client { M required username="u"; };', "section Client has no password"),
        ('Client { M required username="u" password=""; };', "section Client has no password"),
        ('Client { M required username="u" password', "section Client has no password"),
        (
            'Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true principal="kafka/h@R"; };',
            "section Client has com.sun.security.auth.module.Krb5LoginModule: klamm does not speak Kerberos to "
            "ZooKeeper; give it a DigestLoginModule of the same rights, or a certificate by zookeeper.ssl.*",
        ),
    ],
)
def test_what_is_missing_is_named_and_nothing_of_the_file_is_shown(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        parse_login(text, "Client", Scheme.SASL)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(Credentials(Scheme.SASL, "kafka", Secret("secret")))
