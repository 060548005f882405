# Sourced by the start scripts beside it; it gives them the manners of Kafka's own: -daemon, -name, EXTRA_ARGS, LOG_DIR.
# What the other variables of those (KAFKA_HEAP_OPTS …) do is decided in mirror_connect/app/config/kafka_environment.py.
# shellcheck shell=bash
set -euo pipefail

# start NAME ARGUMENTS MODULE [ARGUMENT …]: runs the Python module in the place of this script, or in the background with
# -daemon. NAME is that of the file with its output there. ARGUMENTS is for the usage line.
start() {
  local name=$1 arguments=$2 module=$3 daemon='' here home python out
  shift 3
  # Words, as in Kafka's scripts. They come first, so that an option of the command line wins.
  # shellcheck disable=SC2086
  set -- ${EXTRA_ARGS-} "$@"
  while [ $# -gt 0 ]; do
    case $1 in
      -daemon) daemon=yes; shift ;;
      -name) name=${2:?"a name has to follow -name"}; shift 2 ;;
      -loggc) echo "$0: -loggc has no effect: there is no log of Java's garbage collection" >&2; shift ;;
      *) break ;;
    esac
  done
  if [ $# -lt 1 ]; then
    # Where Kafka's scripts print it, and with their exit code.
    echo "USAGE: $0 [-daemon] $arguments"
    exit 1
  fi

  here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
  home=$(dirname "$here")
  if [ -f "$home/pyproject.toml" ]; then
    python=$home/.venv/bin/python
    if [ ! -x "$python" ]; then
      echo "$0: there is no $python: run make setup first" >&2
      exit 1
    fi
  else
    python=$here/python
    # Without an environment of its own, pip writes the interpreter's path into the commands that it installs.
    [ -x "$python" ] || python=$(sed -n '1s/^#! *//p' "$here/mirror-connect")
  fi

  if [ -z "$daemon" ]; then
    # exec: the process has this process id, so signals reach it and its exit code is the script's.
    # -P: without it, Python would also take modules from the directory in which the user is.
    exec "$python" -P -m "$module" "$@"
  fi
  LOG_DIR=${LOG_DIR:-$home/logs}
  out=$LOG_DIR/$name.out
  if ! mkdir -p "$LOG_DIR" || ! : > "$out"; then
    echo "$0: its output can't be written to $out: set LOG_DIR to a directory where you may write" >&2
    exit 1
  fi
  nohup "$python" -P -m "$module" "$@" >> "$out" 2>&1 < /dev/null &
  # Kafka's scripts say nothing, and who starts a worker for the first time looks for both. nohup becomes the process.
  echo "$name starts in the background as process $!; its log is $out"
}
