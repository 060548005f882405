"""What only the start of a dedicated process finds, as a missing key store, has the line of its property, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_connect.app.dedicated.findings import RefusedFile
from mirror_connect.app.dedicated.mm2_file import read_mm2_file
from mirror_connect.app.dedicated.start_settings import start_settings
from tests.unit.app.dedicated.mm2_files import ONE_FLOW, written

NO_FILE = "there is no such file"


@pytest.mark.parametrize(
    ("added", "begins"),
    [
        pytest.param(
            "B.security.protocol=SSL\nB.ssl.truststore.location=/nowhere\n",
            [f":6: B.ssl.truststore.location=/nowhere: {NO_FILE}"],
            id="key_store_of_a_target",
        ),
        pytest.param(
            "A.security.protocol=SSL\nA.ssl.truststore.location=/nowhere\n",
            [f":6: A.ssl.truststore.location=/nowhere: {NO_FILE}"],
            id="key_store_of_a_source",
        ),
        pytest.param(
            "security.protocol=SSL\nssl.truststore.location=/nowhere\n",
            [f":6: ssl.truststore.location=/nowhere: {NO_FILE}"],
            id="key_store_of_all_clusters_once",
        ),
        pytest.param("listeners=.*\n", [":5: listeners=.*: Listener doesn't have the right format"], id="listener"),
        pytest.param(
            "listeners=https://:1\n",
            [": Invalid listeners.https.ssl.keystore.location: an https listener needs a key store"],
            id="a_listener_without_its_key_store",
        ),
        pytest.param(
            "B.connector.client.config.override.policy=Foo\nlisteners=.*\n",
            [
                ":5: B.connector.client.config.override.policy=Foo: it has to be one of All",
                ":6: listeners=.*: Listener doesn't have the right format",
            ],
            id="several",
        ),
    ],
)
def test_a_refusal_has_the_line_of_its_property(tmp_path: Path, added: str, begins: list[str]) -> None:
    path = written(tmp_path, ONE_FLOW + added)
    with pytest.raises(RefusedFile) as refused:
        start_settings(read_mm2_file(path))
    lines = [finding.shown.removeprefix(str(path)) for finding in refused.value.findings]
    assert len(lines) == len(begins)
    assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=True)), lines


def test_a_file_without_faults_gives_the_settings_of_all(tmp_path: Path) -> None:
    found = start_settings(read_mm2_file(written(tmp_path, f"{ONE_FLOW}log.format=json\n")))
    assert set(found.flows) == {"A->B", "B->A"}
    assert (found.process.log_format, found.config.warnings) == ("json", ())
