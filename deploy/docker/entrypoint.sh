#!/usr/bin/env bash
# The image's entry point, and by other names what other images start: see `case`. tini is process 1, so that signals reach
# the worker and processes without a parent are waited for.
set -euo pipefail
home=${MIRROR_CONNECT_HOME:-/opt/mirror-connect}
case $(basename "$0") in
  kafka_connect_run.sh) set -- strimzi ;;
  kafka_mirror_maker_2_run.sh) set -- strimzi-mm2 ;;
  run) set -- run ;;
esac
command=("$home/bin/python" -P -m deploy.docker "$@")
# Not a second time: with `docker run --init`, or where an init of Kubernetes is there already.
if [ $$ = 1 ] && [ -x /usr/bin/tini ]; then
  exec /usr/bin/tini -w -e 143 -- "${command[@]}"
fi
exec "${command[@]}"
