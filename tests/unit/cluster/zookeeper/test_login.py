"""JAAS files as Kafka's operators have them."""

import re

import pytest

from cluster.sasl.kerberos import KerberosLogin
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


def test_the_section_may_be_of_kerberos() -> None:
    options = 'useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="kafka/h.example@EXAMPLE"'
    text = f"Client {{ com.sun.security.auth.module.Krb5LoginModule required {options}; }};"
    login = KerberosLogin("kafka/h.example@EXAMPLE", "/etc/kafka.keytab", "zookeeper", setting="section Client")
    assert parse_login(text, "Client", Scheme.SASL) == Credentials(Scheme.SASL, login.principal, Secret(""), login)


@pytest.mark.parametrize(
    ("options", "scheme", "why"),
    [
        ("useTicketCache=true", Scheme.SASL, "section Client has no useKeyTab=true"),
        ('useKeyTab=true principal="a@B"', Scheme.SASL, "section Client has no keyTab"),
        ('useKeyTab=true keyTab="/k"', Scheme.SASL, "section Client has no principal"),
        (
            'useKeyTab=true keyTab="/k" principal="a@B"',
            Scheme.DIGEST,
            "section Client is of Kerberos, which klamm.zookeeper.auth.scheme=digest is not",
        ),
    ],
)
def test_what_a_section_of_kerberos_lacks_is_named(options: str, scheme: Scheme, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_login(f"Client {{ a.Krb5LoginModule required {options}; }};", "Client", scheme)


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
            'Client { Krb5LoginModule required username="u"; };',
            "section Client has no useKeyTab=true, which a process needs whose tickets are renewed",
        ),
    ],
)
def test_what_is_missing_is_named_and_nothing_of_the_file_is_shown(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        parse_login(text, "Client", Scheme.SASL)


def test_the_password_is_not_shown() -> None:
    assert "secret" not in repr(Credentials(Scheme.SASL, "kafka", Secret("secret")))
