#!/usr/bin/env bash
# Starts MirrorMaker 1, as Kafka's script of the same name does: in the foreground, or with -daemon in the background.
# `sh bin/…` is often written, and works with Kafka's scripts.
[ -n "${BASH_VERSION-}" ] || exec bash "$0" "$@"
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/mirror-connect-start.sh" || exit
start mirror-maker "--consumer.config FILE --producer.config FILE --include REGEX" mirror_connect.app.mirror_maker "$@"
