"""The table of `mirror-connect`'s commands: what each one runs, its help, and so its options for the shells' completion.

A command's module is imported when the command runs, so that the start of one pays for no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.cli.command_row import FILE, Command
from mirror_connect.cli.rest_commands import REST_COMMANDS

SHELLS: Final = ("bash", "zsh", "fish")

_ROWS: Final = (
    Command(
        "worker",
        FILE,
        "a worker of Kafka Connect's distributed mode",
        "mirror_connect.app.__main__:main",
        """\
Runs one worker in the foreground until SIGTERM or Ctrl-C. It logs to standard
error. FILE has the properties of a distributed worker of Kafka Connect:
group.id, bootstrap.servers, config.storage.topic … Its REST interface takes
the connectors, by default on port 8083.

Environment: JAVA_HOME names the Java, TMPDIR the place of scratch files.
MIRROR_CONNECT_LOG_LEVEL is DEBUG, INFO, WARNING, ERROR or CRITICAL.
KAFKA_HEAP_OPTS sizes the heap of Spark's JVM, which needs no more than it has.

Exit code: 0 stopped as asked, 1 a bug or an end of more than 9 s, 2 wrong
usage or setting, 3 this machine lacks something (Java 17, room, a free port),
4 the cluster refuses the worker.""",
        files=True,
    ),
    Command(
        "standalone",
        "FILE [CONNECTOR-FILE …]",
        "a worker of Kafka Connect's standalone mode",
        "mirror_connect.app.standalone.__main__:main",
        """\
Runs one worker without a group in the foreground until SIGTERM or Ctrl-C. It
logs to standard error. FILE has the properties of a standalone worker of Kafka
Connect: bootstrap.servers, offset.storage.file.filename … Each CONNECTOR-FILE
is a connector: properties, or JSON. Its REST interface takes others, which end
with the process, by default on port 8083.

Environment: as of `mirror-connect worker`.

Exit code: 0 stopped as asked, 1 a bug or an end of more than 9 s, 2 wrong
usage or setting, 3 this machine lacks something (Java 17, room, a free port),
or a connector's file is refused, 4 the cluster refuses the worker.""",
        files=True,
    ),
    Command(
        "mm2",
        "FILE [--clusters CLUSTER …]",
        "the flows of an mm2.properties file (dedicated mode)",
        "mirror_connect.app.dedicated.__main__:main",
        """\
Runs the flows of FILE in the foreground until SIGTERM or Ctrl-C, with one Spark
application. It logs to standard error. FILE is an mm2.properties file as of
Kafka's connect-mirror-maker.sh; flows and internal topics have the same names,
so that each of the two continues what the other one left.
  --clusters CLUSTER      only flows to these targets; several: with blanks

Environment: as of `mirror-connect worker`.

Exit code: 0 stopped as asked, 1 a bug or an end of more than 9 s, 2 wrong
usage or setting, 3 this machine lacks something (Java 17, room, a free port),
4 no flow could be started.""",
        files=True,
    ),
    Command(
        "check",
        "FILE|URL … [OPTION …]",
        "what would become of a configuration here",
        "mirror_connect.check.__main__:main",
        """\
Tells of each property, with its line, whether it is the same here as in Kafka
Connect and MirrorMaker 2, means something else, or is refused, and what to do
instead. It reads an mm2.properties, a connector's JSON or properties, a
worker's properties, Strimzi's YAML, or a running worker. It changes nothing.
  --worker URL            where a file's connectors run (http://localhost:8083)
  --user NAME             REST user; password: $MIRROR_CONNECT_PASSWORD
  --quiet                 leave out what is the same
  --json                  print the result as JSON
  --verify                run verify for each link that MirrorMaker runs today
  --client ALIAS          print the client properties of a cluster of an
                          mm2.properties, passwords included, and nothing else
Exit code: 0 nothing is refused, 1 something is, 2 wrong usage or unreadable.
With --verify also 1 if a copy differs, 2 if one could not be compared.""",
        files=True,
    ),
    Command(
        "mm1",
        "[OPTION …]",
        "MirrorMaker 1: topics under their own names",
        "mirror_connect.app.mirror_maker.__main__:main",
        """\
Copies topics of one or more clusters under the same names until SIGTERM or
Ctrl-C, as kafka-mirror-maker.sh did. Its offsets are in the consumer group of
the source's file. docs/mirrormaker1.md has what it does with each option.
  --consumer.config FILE  the source: a consumer's properties; once for each
  --producer.config FILE  the target: a producer's properties
  --include REGEX, --whitelist REGEX  topics to copy; a comma means |
  --blacklist REGEX       topics not to copy
  --abort.on.send.failure BOOLEAN  end when the target refuses a record (true)
  --offset.commit.interval.ms NUMBER  how often offsets are committed (60000)
  --version               its version
Accepted, no effect: num.streams, num.producers, queue.size, new.consumer.

Exit code: 0 stopped as asked, 1 a bug or an end of more than 9 s, 2 wrong
usage or setting, 3 this machine lacks something (Java 17, room),
4 a cluster refuses the user or a record.""",
    ),
    Command(
        "verify",
        "[CONNECTOR] [OPTION …]",
        "compare source and target, record by record",
        "mirror_connect.cli.verify_command:main",
        """\
With a CONNECTOR, its worker tells the link. Without one, --source, --target and
--source-alias (or --policy identity) are needed.
  --worker URL            REST of the worker (http://localhost:8083)
  --user NAME             its user; password: $MIRROR_CONNECT_PASSWORD or asked
  --source FILE, --target FILE  client properties of a cluster
  --topics LIST           topics to compare: names and regular expressions
  --topics-exclude LIST   topics to leave out
  --source-alias NAME, --target-alias NAME  aliases in remote topics' names
  --policy NAME           names of remote topics: default or identity
  --separator TEXT        replication.policy.separator
  --offsets-topic NAME    target's topic of source offsets, if no worker tells
  --from TIME             records from then on, such as 2026-11-21T08:00:00Z
  --rate RATE             the most to read from each cluster, such as 50MB/s
  --list NUMBER           faults to list per partition (20); all are counted
  --strict                duplicates after a restart are faults
  --json                  print the result as JSON
  --follow                verify samples behind the running link until Ctrl-C
  --cpu-share NUMBER      with --follow: CPU seconds for each one of copying
  --whole                 with --follow: compare all records, at any cost
  --seed NUMBER           with --follow: the seed that chooses the samples
  --for SECONDS           with --follow: stop after so long
Exit code: 0 equal, 1 different, 2 not compared or wrong usage.""",
    ),
    Command(
        "sql",
        "STATEMENT [OPTION …]",
        "ask mirrored topics by SQL, in a Spark of its own",
        "mirror_connect.cli.sql_command:main",
        """\
Runs one SELECT; - reads it from standard input. Tables: source.TOPIC and
target.TOPIC (source.`a.b` for a name with dots or dashes), and ranges,
positions, checkpoints, status. docs/query.md has their columns.
  --connector NAME        a MirrorSourceConnector (the worker's only one)
  --config FILE           a connector's file instead of a worker
  --source FILE, --target FILE  client properties of a cluster
  --source-alias NAME     source.cluster.alias, if no connector tells it
  --last TIME             records of the last 15min, 1h, 2d …
  --from TIME, --until TIME  records of these times: 2026-11-21T08:00:00Z
  --from-offset NUMBER, --until-offset NUMBER  records of these offsets
  --isolation-level LEVEL  read_committed or read_uncommitted
  --output FORMAT         table, json, csv or parquet; -o, too
  --to DIRECTORY          with -o parquet: the files' new directory
  --rows NUMBER           most rows to print (10000); 0: all
  --max-bytes SIZE        the most to read from the clusters (1GiB); 0: all
  --timeout TIME          the query's longest time (10min); 0: any
  --memory SIZE           the heap of its JVM (1g)
  --worker URL, --context NAME, --user NAME  as of `mirror-connect status`
  --cacert FILE, --cert FILE, --key FILE  as there
Exit code: 0 answered, 1 refused by the worker, 2 anything else.""",
    ),
    Command(
        "archive",
        "",
        "make Spark start in half the time, once for each Java",
        "mirror_connect.spark_jobs.class_archive:command",
        """\
Makes an archive of the classes that Spark's JVM loads at each start, in half a
minute. Every later start maps it. It is made again if it doesn't fit any more:
after another Java or another Spark was installed.

It lies beside the package, as share/mirror-connect/spark.jsa, if this user may
write there. Otherwise it lies in $CACHE_DIRECTORY or ~/.cache/mirror-connect.
Without it everything works, and starts slower.

Exit code: 0 it is there, 1 it can't be made, 2 wrong usage.""",
    ),
    Command(
        "spark-archive",
        "[--output FILE] [--with NAME]…",
        "pack all that executors of a Spark cluster need",
        "mirror_connect.spark_jobs.environment_archive:command",
        """\
Packs this Python with mirror-connect and what it needs into a file, in half a
minute. Executors unpack it, so a cluster's hosts need no Python of their own:
  spark.archives=/path/to/FILE#environment      in the worker's properties
Pack on a machine like the executors': processor, and a Linux not newer.

  --output FILE           where to (mirror-connect-environment.tar.gz)
  --with NAME             one more distribution, as of filters of one's own
Exit code: 0 it is made, 1 it can't be made, 2 wrong usage.""",
    ),
    Command(
        "completion",
        "|".join(SHELLS),
        "print a script that completes these commands",
        "mirror_connect.cli.completion:main",
        """\
Prints the script to standard output. In the shell's start file:

  ~/.bashrc   source <(mirror-connect completion bash)
  ~/.zshrc    source <(mirror-connect completion zsh)   (behind compinit)
  fish        mirror-connect completion fish \\
                > ~/.config/fish/completions/mirror-connect.fish""",
        words=SHELLS,
    ),
)
COMMANDS: Final[Mapping[str, Command]] = {row.name: row for row in (*_ROWS, *REST_COMMANDS)}
