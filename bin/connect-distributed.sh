#!/usr/bin/env bash
# Starts one worker, as Kafka's script of the same name does: in the foreground, or with -daemon in the background.
# `sh bin/…` is often written, and works with Kafka's scripts.
[ -n "${BASH_VERSION-}" ] || exec bash "$0" "$@"
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/mirror-connect-start.sh" || exit
start connectDistributed connect-distributed.properties mirror_connect.app "$@"
