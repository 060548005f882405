#!/usr/bin/env bash
# The image's health check: the worker serves REST, and is neither starting nor cut off from its cluster. An answer that
# asks for a login is one, too. MIRROR_CONNECT_HEALTH_URL names another address.
set -u
url=${MIRROR_CONNECT_HEALTH_URL:-http://127.0.0.1:8083/health}
# --insecure: it asks its own machine, whose certificate is for another name.
status=$(curl --silent --insecure --max-time 5 --output /dev/null --write-out '%{http_code}' "$url") || exit 1
case $status in
  200 | 401 | 403) exit 0 ;;
  *) exit 1 ;;
esac
