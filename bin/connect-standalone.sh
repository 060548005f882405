#!/usr/bin/env bash
# Starts a standalone worker with the connectors of files, as Kafka's script of the same name does: in the foreground, or with
# -daemon in the background.
# `sh bin/…` is often written, and works with Kafka's scripts.
[ -n "${BASH_VERSION-}" ] || exec bash "$0" "$@"
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/mirror-connect-start.sh" || exit
start connectStandalone "connect-standalone.properties [connector1.properties connector2.json ...]" mirror_connect.app.standalone "$@"
