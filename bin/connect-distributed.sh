#!/usr/bin/env bash
# Starts one worker in the foreground, as Kafka's script of the same name does: logs to standard error, stopped by SIGTERM or SIGINT.
set -euo pipefail

if [ $# -lt 1 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
  echo "USAGE: $0 worker.properties" >&2
  exit 2
fi
script=$(readlink -f "${BASH_SOURCE[0]}")
python=$(dirname "$(dirname "$script")")/.venv/bin/python
if [ ! -x "$python" ]; then
  echo "$0: there is no $python: run make setup first" >&2
  exit 1
fi
# exec: the worker itself has this process id, so signals reach it and its exit code is the script's.
exec "$python" -m mirror_connect.app "$@"
