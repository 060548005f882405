#!/usr/bin/env bash
# What a machine must bring before `make setup` starts: Python 3.11 and Java 17. Says in one line what is missing.
set -u

fail() {
  echo "mirror-connect: $1" >&2
  exit 1
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || fail "there is no $python: install Python 3.11 or newer, or run make PYTHON=/path/to/python3"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || fail "$python does not run: run make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$python is Python $version: install Python 3.11 or newer, or run make PYTHON=/path/to/python3"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
  fail "Python $version cannot make virtual environments: install its venv package (Debian: python$version-venv)"

if [ -n "${JAVA_HOME:-}" ]; then
  java=$JAVA_HOME/bin/java
  [ -x "$java" ] || fail "there is no $java: set JAVA_HOME to a Java 17 or newer, or unset it"
else
  java=$(command -v java) || fail "there is no java: install Java 17 or newer, or set JAVA_HOME"
fi
said=$("$java" -version 2>&1) || fail "$java does not run: install Java 17 or newer, or set JAVA_HOME"
release=$(sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' <<<"$said" | head -n 1)
[ "${release:-0}" -ge 17 ] || fail "$java is Java ${release:-of an unknown version}: install Java 17 or newer, or set JAVA_HOME"
