#!/usr/bin/env bash
# The image's health check: the worker serves REST, and is neither starting nor cut off from its cluster. An answer that
# asks for a login is one, too. The address is MIRROR_CONNECT_HEALTH_URL, or what the entry point has written down (health.py),
# or that of the variables that the container has for its worker.
set -u
listener=${CONNECT_LISTENERS:-http://${CONNECT_REST_HOST_NAME:-${REST_HOST_NAME:-}}:${CONNECT_REST_PORT:-${REST_PORT:-8083}}}
listener=${listener%%,*}
address=${listener#*://}
host=${address%:*}
case $host in
  '' | 0.0.0.0 | '[::]' | ::) host=127.0.0.1 ;;
esac
written=''
for directory in "${TMPDIR:-/tmp}" /tmp /var/lib/mirror-connect; do
  file=$directory/mirror-connect-container/health-url
  if [ -r "$file" ]; then
    read -r written < "$file"
    break
  fi
done
url=${MIRROR_CONNECT_HEALTH_URL:-${written:-${listener%%://*}://$host:${address##*:}/health}}
if [ "$url" = none ]; then
  exit 0
fi
# --insecure: it asks its own machine, whose certificate is for another name.
status=$(curl --silent --insecure --max-time 5 --output /dev/null --write-out '%{http_code}' "$url") || exit 1
case $status in
  200 | 401 | 403) exit 0 ;;
  *) exit 1 ;;
esac
