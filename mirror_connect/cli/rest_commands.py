"""The rows of the commands that ask and direct a running worker over REST."""

from __future__ import annotations

from typing import Final

from mirror_connect.cli.command_row import Command

SEEN, SET, MOVED = "what a worker does", "what it is to do", "states of connectors"
_ENTRY: Final = "mirror_connect.cli.rest"
_CONNECTION: Final = """\
  --worker URL            REST of the worker (http://localhost:8083)
  --context NAME          a context of `mirror-connect config`
  --user NAME             its user; password: $MIRROR_CONNECT_PASSWORD or asked
  --cacert FILE           the authority of the worker's certificate
  --cert FILE, --key FILE  certificate and key of this client"""
_PRINTED: Final = """\
  --output FORMAT         table, wide, json or yaml; -o, too"""
_SHOWN: Final = f"""\
{_PRINTED}
  --watch                 on the full screen until q or Ctrl-C
  --interval SECONDS      with --watch: how often it is asked (2)"""

REST_COMMANDS: Final = (
    Command(
        "status",
        "[CONNECTOR] [OPTION …]",
        "connectors and tasks: states, and why one failed",
        f"{_ENTRY}.status_command:main",
        f"""\
Lists the connectors of a worker, ours or Kafka's, with their tasks' states. Of
one CONNECTOR it lists the tasks, with the whole traces. A pattern such as
'mirror-*' lists some.
{_CONNECTION}
{_SHOWN}

Exit code: 0 fine, 1 something is FAILED or UNASSIGNED, 2 the worker can't be
reached, there is no such connector, or wrong usage.""",
        asks="connectors",
        group=SEEN,
    ),
    Command(
        "links",
        "[LINK] [OPTION …]",
        "every link with state, lag, rate and problems",
        f"{_ENTRY}.links_command:main",
        f"""\
Lists links, such as 'A->B', with what a worker of mirror-connect tells of them.
Quote a LINK: to a shell, > is a redirection. `unknown` is what is not known, as
of a cluster that is away. Latency is that of the last minute.
{_CONNECTION}
{_SHOWN}

Exit code: 0 fine, 1 something of a link is FAILED or UNASSIGNED, 2 the worker
can't be reached or is Kafka's, there is no such link, or wrong usage.""",
        asks="links",
        group=SEEN,
    ),
    Command(
        "lag",
        "[LINK] [OPTION …]",
        "how far behind links are, in records and time",
        f"{_ENTRY}.lag_command:main",
        f"""\
Lists the lag of links; of one LINK that of its topics, the latest first. Time
is the age of the oldest record that is not on the target yet.
  --by UNIT               link, topic or partition
  --max-lag TIME          more than that is wrong, such as 30s, 5m or 1h
  --limit NUMBER          the most topics or partitions (100); 0 for all
{_CONNECTION}
{_SHOWN}

Exit code: 0 fine, 1 a link is FAILED, UNASSIGNED, or beyond --max-lag (also if
its lag is unknown), 2 the worker can't be reached or is Kafka's, there is no
such link, or wrong usage.""",
        asks="links",
        group=SEEN,
    ),
    Command(
        "groups",
        "[LINK] [OPTION …]",
        "what groups would read again or skip after a move",
        f"{_ENTRY}.groups_command:main",
        f"""\
Lists the consumer groups of links: how many records each would read again and
skip, if its consumers moved to the target now.
  --search TEXT           groups with this in their name
  --limit NUMBER          the most groups of a link (0: all)
{_CONNECTION}
{_SHOWN}

Exit code: 0 fine, 2 the worker can't be reached or is Kafka's, there is no such
link, or wrong usage.""",
        asks="links",
        group=SEEN,
    ),
    Command(
        "topics",
        "[LINK] [OPTION …]",
        "the topics of links with lag, rate and latency",
        f"{_ENTRY}.topics_command:main",
        f"""\
Lists the topics that links copy, with their names on the target.
  --search TEXT           topics with this in their name
  --sort ORDER            name, lag, seconds or rate (name)
  --limit NUMBER          the most topics of a link (0: all)
{_CONNECTION}
{_SHOWN}

Exit code: 0 fine, 2 the worker can't be reached or is Kafka's, there is no such
link, or wrong usage.""",
        asks="links",
        group=SEEN,
    ),
    Command(
        "problems",
        "[LINK] [OPTION …]",
        "what is wrong, since when, and what to do",
        f"{_ENTRY}.problems_command:main",
        f"""\
Lists the problems of links, and what has failed. Of a worker of Kafka's it
lists what has failed, with the first line of the trace and its last cause.
{_CONNECTION}
{_SHOWN}

Exit code: 0 no problem, 1 problems, 2 the worker can't be reached, there is no
such link, or wrong usage.""",
        asks="links",
        group=SEEN,
    ),
    Command(
        "workers",
        "[OPTION …]",
        "the workers of a group, and what runs where",
        f"{_ENTRY}.workers_command:main",
        f"""\
Lists the workers of the group: which one leads, their connectors and tasks, and
for how long each surely keeps them without another heartbeat. name/0-2 stands
for the tasks 0 to 2 of a connector. Any worker of the group tells it.
{_CONNECTION}
{_SHOWN}

Exit code: 0 fine, 1 no worker leads, 2 the worker can't be reached or is
Kafka's, or wrong usage.""",
        group=SEEN,
    ),
    Command(
        "config",
        "CONNECTOR|VERB [OPTION …]",
        "a connector's config; the contexts, which name workers",
        f"{_ENTRY}.config_command:main",
        f"""\
Prints the config of a CONNECTOR. The verbs are for contexts, as kcctl has them:
  get-contexts, current-context, use-context NAME, remove-context NAME
  set-context NAME --worker URL [--user NAME] [--cacert FILE] …
They are in ~/.config/mirror-connect/contexts.json; those of ~/.kcctl are read,
too. No password is stored. Without arguments: get-contexts.
  --secrets               show passwords, which are [hidden] otherwise
{_CONNECTION}
{_PRINTED}

Exit code: 0 done, 1 no context is in use, 2 the worker can't be reached, there
is no such connector or context, or wrong usage.""",
        words=("get-contexts", "current-context", "use-context", "remove-context", "set-context"),
        asks="config",
        group=SET,
    ),
    Command(
        "plan",
        "FILE [OPTION …]",
        "what a connector would do, with nothing written",
        f"{_ENTRY}.plan_command:main",
        f"""\
Asks a worker what the connector of FILE (JSON or properties, as for apply)
would create, change and copy. Of a connector that exists it shows the
difference. The brokers check what would be created. Nothing is written.
  --speed RATE            the speed of copying, such as 50MB/s, for the time
  --name NAME             of the connector, if the file has none
{_CONNECTION}
  --output FORMAT         table, wide, json or yaml; -o, too

Exit code: 0 nothing is in the way, 1 something would be refused, 2 the worker
or a cluster can't be reached, or wrong usage.""",
        files=True,
        group=SET,
    ),
    Command(
        "preview",
        "FILE [OPTION …]",
        "the source's last records as a connector would copy them",
        f"{_ENTRY}.preview_command:main",
        f"""\
Asks a worker for the last records of the source, as the connector of FILE (JSON
or properties, as for apply) would copy them: with its transformations, and
which ones are left out. Nothing is written. Bytes that are no UTF-8 are shown
as base64.
  --records NUMBER        how many, at most 200 (20)
  --topic NAME            records of this topic of the source alone
  --before                also what the source has, unmasked
  --name NAME             of the connector, if the file has none
{_CONNECTION}
  --output FORMAT         table, wide, json or yaml; -o, too

Exit code: 0 fine, 1 the config would be refused, 2 the worker or a cluster
can't be reached, or wrong usage.""",
        files=True,
        group=SET,
    ),
    Command(
        "apply",
        "FILE … [OPTION …]",
        "create or change connectors as files have them",
        f"{_ENTRY}.apply_command:main",
        f"""\
Sends the configs that differ from the worker's, and shows what changes. All are
validated first; if one is refused, nothing is sent. A FILE is a JSON object of
settings, one with name and config, or properties. A directory stands for its
.json and .properties files, - for standard input. A file without a name inside
is of the connector with the file's own name, without its suffix.
  --dry-run               validate and show what would change, send nothing
  --name NAME             name of the connector, if the file has none
  --file FILE             as FILE; kcctl's way: -f
{_CONNECTION}

Exit code: 0 done or nothing to do, 1 a config is refused, 2 a file can't be
read, the worker can't be reached, or wrong usage.""",
        asks="",
        files=True,
        group=SET,
    ),
    Command(
        "logs",
        "[LOGGER [LEVEL]] [OPTION …]",
        "show or set the levels of a worker's loggers",
        f"{_ENTRY}.logs_command:main",
        f"""\
Lists the loggers that have a level, or sets the LEVEL of a LOGGER and of all
below it: OFF, FATAL, ERROR, WARN, INFO, DEBUG or TRACE.
A worker does not give its log over REST. It is on the worker's standard error:
in a file, `journalctl -u mirror-connect`, `docker logs` or `kubectl logs`.
  --scope SCOPE           worker, or cluster: set it at all workers
{_CONNECTION}
{_PRINTED}

Exit code: 0 done, 1 the worker refused it, 2 it can't be reached, there is no
such logger, or wrong usage.""",
        asks="loggers",
        group=SET,
    ),
    Command(
        "pause",
        "CONNECTOR … [OPTION …]",
        "pause connectors; their tasks stay",
        f"{_ENTRY}.state_commands:pause",
        f"""\
Pauses connectors by name or pattern, such as 'mirror-*'. Their tasks stay, and
copy nothing. The worker does it a moment later: mirror-connect status shows it.
  --yes                   do not ask; a pattern asks otherwise
{_CONNECTION}

Exit code: 0 done, 1 the worker refused it, 2 it can't be reached, there is no
such connector, nobody can be asked, or wrong usage.""",
        asks="connectors",
        group=MOVED,
    ),
    Command(
        "resume",
        "CONNECTOR … [OPTION …]",
        "let paused or stopped connectors run again",
        f"{_ENTRY}.state_commands:resume",
        f"""\
Lets paused or stopped connectors run again, by name or pattern. The worker does
it a moment later: mirror-connect status shows it.
  --yes                   do not ask; a pattern asks otherwise
{_CONNECTION}

Exit code: 0 done, 1 the worker refused it, 2 it can't be reached, there is no
such connector, nobody can be asked, or wrong usage.""",
        asks="connectors",
        group=MOVED,
    ),
    Command(
        "stop",
        "CONNECTOR … [OPTION …]",
        "stop connectors; their tasks end",
        f"{_ENTRY}.state_commands:stop",
        f"""\
Stops connectors by name or pattern: their tasks end, config and source offsets
stay. resume starts them. The worker does it a moment later: mirror-connect
status shows it.
  --yes                   do not ask; a pattern asks otherwise
{_CONNECTION}

Exit code: 0 done, 1 the worker refused it, 2 it can't be reached, there is no
such connector, nobody can be asked, or wrong usage.""",
        asks="connectors",
        group=MOVED,
    ),
    Command(
        "restart",
        "CONNECTOR|CONNECTOR/TASK … [OPTION …]",
        "restart connectors, or tasks such as mirror-source/0",
        f"{_ENTRY}.state_commands:restart",
        f"""\
Restarts connectors by name or pattern, or single tasks such as mirror-source/0.
Without --tasks and --only-failed the tasks of a connector go on.
  --tasks                 the tasks, too
  --only-failed           what has FAILED of connector and tasks, and no more
  --yes                   do not ask; a pattern asks otherwise
{_CONNECTION}

Exit code: 0 done, 1 the worker refused it, or it failed again, 2 the worker
can't be reached, there is no such connector, nobody can be asked, or wrong
usage.""",
        asks="tasks",
        group=MOVED,
    ),
    Command(
        "delete",
        "CONNECTOR … [OPTION …]",
        "delete connectors; their source offsets stay",
        f"{_ENTRY}.state_commands:delete",
        f"""\
Deletes connectors by name or pattern, and asks before. Source offsets stay: a
connector made again under the same name continues there.
  --yes                   do not ask
{_CONNECTION}

Exit code: 0 done, 1 the worker refused it, 2 it can't be reached, there is no
such connector, nobody can be asked, or wrong usage.""",
        asks="connectors",
        group=MOVED,
    ),
)
