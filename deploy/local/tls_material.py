"""A certificate authority for one cluster, with server and client certificates as PEM, PKCS12 and JKS files."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jks
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PASSWORD: Final = "changeit-local"
_VALID: Final = datetime.timedelta(days=30)
_Key = rsa.RSAPrivateKey


@dataclass(frozen=True)
class KeyFiles:
    """One key with its certificate in three formats. `pem` holds key, certificate and authority, as Java reads it."""

    pem: Path
    key_pem: Path
    certificate_pem: Path
    pkcs12: Path
    jks: Path


@dataclass(frozen=True)
class TlsMaterial:
    """The files of one authority. Stores and PKCS12/JKS keys have the password `password`; PEM keys have none."""

    authority_pem: Path
    truststore_pkcs12: Path
    truststore_jks: Path
    server: KeyFiles
    client: KeyFiles
    password: str = PASSWORD


def create_tls_material(directory: Path, client_name: str = "client", host: str = "127.0.0.1") -> TlsMaterial:
    """Writes all files into `directory`. The server is `localhost` and `host`, the client's principal `CN=client_name`."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    authority = _certificate("mirror-connect local authority", authority_key, None, authority_key, names=[])
    authority_pem = directory / "authority.pem"
    authority_pem.write_bytes(_pem(authority))
    truststore_pkcs12 = directory / "truststore.p12"
    truststore_pkcs12.write_bytes(_java_truststore(authority))
    truststore_jks = directory / "truststore.jks"
    trusted = jks.TrustedCertEntry.new("authority", _der(authority))
    jks.KeyStore.new("jks", [trusted]).save(str(truststore_jks), PASSWORD)
    names = [_name(each) for each in dict.fromkeys(("localhost", "127.0.0.1", host))]
    return TlsMaterial(
        authority_pem=authority_pem,
        truststore_pkcs12=truststore_pkcs12,
        truststore_jks=truststore_jks,
        server=_key_files(
            directory, "server", "localhost", authority=authority, authority_key=authority_key, names=names
        ),
        client=_key_files(directory, "client", client_name, authority=authority, authority_key=authority_key, names=[]),
    )


def _name(host: str) -> x509.GeneralName:
    # Clients look for an address among the addresses alone.
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_files(
    directory: Path,
    role: str,
    name: str,
    *,
    authority: x509.Certificate,
    authority_key: _Key,
    names: list[x509.GeneralName],
) -> KeyFiles:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    certificate = _certificate(name, key, authority, authority_key, names)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key_der = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    entry = jks.PrivateKeyEntry.new(role, [_der(certificate), _der(authority)], key_der, "pkcs8")
    files = KeyFiles(
        pem=directory / f"{role}.pem",
        key_pem=directory / f"{role}.key.pem",
        certificate_pem=directory / f"{role}.certificate.pem",
        pkcs12=directory / f"{role}.p12",
        jks=directory / f"{role}.jks",
    )
    files.pem.write_bytes(key_pem + _pem(certificate) + _pem(authority))
    files.key_pem.write_bytes(key_pem)
    files.certificate_pem.write_bytes(_pem(certificate) + _pem(authority))
    files.pkcs12.write_bytes(
        pkcs12.serialize_key_and_certificates(role.encode(), key, certificate, [authority], encryption)
    )
    jks.KeyStore.new("jks", [entry]).save(str(files.jks), PASSWORD)
    return files


def _certificate(
    name: str, key: _Key, issuer: x509.Certificate | None, issuer_key: _Key, names: list[x509.GeneralName]
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # So that a machine whose clock is a little behind accepts a new certificate.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(_key_usage(authority=issuer is None), critical=True)
    )
    if issuer is not None:
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_encipherment=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _java_truststore(authority: x509.Certificate) -> bytes:
    # Java trusts a PKCS12 certificate only if it carries Oracle's "trusted key usage" attribute: this call writes it.
    trusted = pkcs12.PKCS12Certificate(authority, b"authority")
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    return pkcs12.serialize_java_truststore([trusted], encryption)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)
