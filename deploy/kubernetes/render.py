"""Renders the Helm chart as the plain manifests beside it (`make manifests`): with its own values, and the example's.

It needs `helm`. The first lines have a digest of the chart: a test finds a chart that was changed and not rendered again.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

CHART: Final = Path(__file__).parent / "helm" / "mirror-connect"
EXAMPLE: Final = Path(__file__).parent / "values-example.yaml"
# Manifest → the options of helm that it is rendered with.
MANIFESTS: Final = {
    Path(__file__).parent / "mirror-connect.yaml": (),
    Path(__file__).parent / "mirror-connect-example.yaml": ("--values", str(EXAMPLE)),
}
# As if a cluster of this release were asked.
KUBERNETES: Final = "1.30.0"
HEAD: Final = "# Rendered from the chart in helm/mirror-connect, do not edit: make manifests\n# Digest of the chart: "


def digest(chart: Path = CHART) -> str:
    """Of the names and contents of all files, and of the example's values."""
    found = hashlib.sha256()
    files = {file.relative_to(chart).as_posix(): file for file in chart.rglob("*") if file.is_file()}
    for name, file in sorted({**files, EXAMPLE.name: EXAMPLE}.items()):
        content = file.read_bytes()
        found.update(f"{name} {len(content)}\n".encode() + content)
    return found.hexdigest()


def rendered(helm: str, *options: str) -> str:
    """A manifest as the real helm makes it. CalledProcessError: its text says why not."""
    command = [helm, "template", "mirror-connect", str(CHART), "--namespace", "kafka", "--kube-version", KUBERNETES]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=True)
    return f"{HEAD}{digest()}\n{done.stdout}"


def main() -> None:
    """Entry point."""
    helm = shutil.which("helm")
    if helm is None:
        sys.exit("There is no helm on the PATH: install Helm 3, which renders the chart")
    for path, options in MANIFESTS.items():
        path.write_text(rendered(helm, *options), "utf-8")


if __name__ == "__main__":
    main()
