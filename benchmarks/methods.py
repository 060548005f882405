"""How each section of RESULTS.md is measured today. A part keeps its texts with its figures, since this may change."""

from __future__ import annotations

from typing import Final

from benchmarks import (
    compute,
    epochs,
    far,
    following,
    held_copies,
    latency,
    scaling,
    spark_placement,
    takeover,
    transforms,
)
from benchmarks.group_load import ABORTED_SHARE, GROUPS, TRANSACTIONAL
from benchmarks.group_reading import PARTITIONS as PARTITIONS_OF_GROUPS
from benchmarks.plan import (
    FAILOVER_RATE,
    FULL,
    LATENCY_RECORD_BYTES,
    MANY_CONNECTORS,
    MANY_GROUPS,
    MANY_PARTITIONS,
    MANY_RATE,
    PARTITIONS,
    THROTTLE_BYTES_PER_SECOND,
    THROTTLED_PARTITIONS,
)
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS

COPYING: Final = "Copying"
_MANY: Final = " and ".join(f"{topics:,}" for topics in sorted(FULL.many_topics))
_SCALED: Final = ", ".join(f"{each:,}" for each in sorted({partitions for partitions, _ in scaling.CASES}))

HOW: Final = {
    COPYING: (
        f"One topic of {PARTITIONS} partitions, filled once with real text (the sources of Python's standard library) by raw"
        " Produce requests. All sides run at the same time between the same two brokers, each as a worker with one connector"
        f" of one task, and each warms up in the same way: for {FULL.warm_up:g} s it copies another topic that grows"
        f" meanwhile. Then {FULL.warm_rounds} round of turns follows that does not count, and {FULL.rounds} that do,"
        " forwards and backwards; who has no turn waits, with nothing to copy. In its turn the same connector in the same"
        " processes is given the topic. It copies it, again and again if need be, each time under another"
        " `source.cluster.alias`, so that there is no position and a new remote topic."
        f" {FULL.copy_java:g} s of copying (MirrorMaker 2) or {FULL.copy_product:g} s (mirror-connect, the faster) come"
        f" together. Of each copying the first {FULL.settle:g} s do not count; then it counts to the last acknowledged"
        " record, seen in the target's end offsets every 0.2 s; so do the CPU seconds, user and system, of all processes of"
        " the side: worker, Spark driver, JVM, Python daemon and tasks; or Connect's JVM. In brackets: the least and the"
        " most of one round. MirrorMaker 2 runs in Kafka Connect's distributed worker with its defaults, which include an"
        " offset sync for every 100 records; mirror-connect writes them, too, and offset ranges. MirrorMaker 2 is measured"
        " without them, too, and *tuned*: producers with batches of 1 MiB, 50 ms of linger and lz4, consumers with large"
        " fetches. Of the topic with LogAppendTime the source's broker sets the timestamps; where both sides have it,"
        " `config.properties.exclude` lets that config be copied, so the target's broker sets them, too. Of the compacted"
        " one every other record has a key that comes again, and the source's broker has removed these before it is copied."
        " With TLS and SCRAM both sides encrypt and log in to both brokers; what fills topics and looks at them does not."
        " Of the target that takes 50 KB that is the message.max.bytes: mirror-connect splits each batch, MirrorMaker 2"
        " sends its own of 16 KB. Three brokers on each side share the partitions and the machine's processors."
        " The brokers' CPU is beside the sides', not in it."
    ),
    "SQL in flight": (
        f"A topic of {PARTITIONS} partitions with 190-byte JSON records in lz4 batches of about 100 KB, copied by one task:"
        " with a filter (`get_json_object`, half of the records stay), and with all fields parsed, one hashed, one masked,"
        " and the record written again. The same worker does both, in turns: a round"
        f" that does not count, and {compute.ROUNDS} that do, of {compute.COPY_S:g} s each. Records are those of the source;"
        " the CPU seconds are those of the whole process tree: worker, both Spark applications, daemons, feeder and task."
        " MirrorMaker 2 has no such transformation: with its converter of bytes none of them sees a field. The case `filter`"
        " has what it can do."
    ),
    "Latency with SQL in flight": (
        "Two connectors of one worker copy the same topic, one of them with a statement that keeps all of them. Each record"
        " is received at both targets; *over* is its own difference, so what the statement adds. *Without a statement* is"
        " from its sending to the other connector's target. If that is long, the machine has no processor time left, and"
        " *over* says how long records wait for it. Brokers and the other connector have first copied"
        f" {max(compute.RATES):,} records a second for {compute.WARM_UPS * FULL.warm_up:g} s. The *first seconds* begin"
        " when the task has just become RUNNING, after a start of Spark for statements: the first"
        f" {compute.FIRST_S:g} s of records. Before what is *warm*, both copy as many records for as long again, and then"
        f" each rate for {FULL.warm_again:g} s. Milliseconds."
    ),
    "Transformations of bytes": (
        f"A topic of {PARTITIONS} partitions with LogAppendTime, whose 1 KiB records the task therefore writes again, each"
        " of them: without a transformation, with an InsertHeader, with a DropHeaders of what every other record has,"
        " and with a Filter that looks into each record and keeps them all. The same worker does them in turns: a round"
        f" that does not count, and {transforms.ROUNDS} that do, of {transforms.COPY_S:g} s each. The ratio is of one round,"
        " then the median of the rounds, and in brackets the least and the most. A Filter that drops every other record,"
        " with MirrorMaker 2 beside it, is the case `filter`."
    ),
    "Latency": (
        f"Records of {LATENCY_RECORD_BYTES} bytes with a number and the time of sending in them, sent without linger by a"
        " process of its own, received by two more at the same time: one consumes the source's topic, that is the floor, one"
        " the target's. All read the machine's monotonic clock. *Over* is each record's own difference: its arrival at the"
        " target's consumer less its arrival at the source's. Percentiles are of those differences, over all rounds, and in"
        " brackets the least and the most of one round. Both sides run all the while. For each"
        f" rate each side warms up for {FULL.warm_up:g} s; then {FULL.latency_rounds} rounds go in turns, of"
        f" {FULL.warm_again:g} s of warm-up and {FULL.latency / FULL.latency_rounds:g} s that count. CPU is that of all of"
        " the side's processes while what counts is sent. Milliseconds."
    ),
    "Latency on a saturated machine": (
        "As under Latency, and in the rounds as many processes as there are processors compute beside it without a pause,"
        " with the usual priority and sessions of their own, as other services have. Brokers and the measuring"
        " processes share with them, too. Both sides warm up before without that load, and in front of each round with it."
        f" {latency.SATURATED_TIMES * FULL.latency_rounds} rounds go in turns. Milliseconds."
    ),
    "Latency while an epoch ends": (
        f"A micro-batch of the streaming query, an epoch, lasts {EPOCH_SECONDS / 60:g} minutes; then its task commits, and"
        f" the next one goes on. {epochs.RATE:,} records a second, measured as under Latency in one run of"
        f" {(EPOCH_SECONDS + epochs.LONGER_S) / 60:.1f} minutes. The epoch's end is in one of the sections of"
        f" {epochs.SECTION_S:g} s. Milliseconds over consuming directly."
    ),
    "Memory, idle": (
        f"Proportional set size (`/proc/PID/smaps_rollup`) of each process {FULL.idle:g} s after some records went through"
        f" a connector with two tasks: the same for both sides. {FULL.idle_rounds} rounds of fresh brokers and workers, the"
        " sides in turns; the processes are those of the median round, in brackets the least and the most of one round. MB"
        " are 10⁶ bytes."
    ),
    "Many partitions": (
        "One task, 10 topics of 1,000 partitions and one of a single partition, which lies on a broker of its own. From the"
        " PUT of the connector until its task runs with all of them; then 100,000 records go through one of the topics. CPU"
        f" is that of all processes in {3 * FULL.idle:g} s without records. Then the second broker is killed, which leaves"
        " one partition without a leader, and CPU is measured once more. One run."
    ),
    "Light connectors": (
        "Proportional set size of all processes of a worker that has a source, a checkpoint and a heartbeat connector with"
        f" little to do, {FULL.light:g} s after they run; then once more, as long after ten more source connectors run."
        f" CPU is that of {FULL.idle:g} s before. Each source connector has one topic of 4 partitions and has copied 400"
        " records. One run of each side. MB are 10⁶ bytes."
    ),
    "Memory, slow target": (
        f"One task, {THROTTLED_PARTITIONS} partitions of the 1 KiB profile; the target's broker holds producers to"
        f" {THROTTLE_BYTES_PER_SECOND / 1e6:g} MB/s by a client quota. PSS every 0.5 s."
    ),
    "Start": (
        "From the start of the script, on brokers that run: medians of several starts, in brackets the worst, each with a"
        " new group and no internal topics yet; then each again, with its topics and connector there; then once more without"
        " any, and a connector is PUT 10 s after the first answer. The sides start in turns, and once before what counts, so"
        " that their files are in memory and the brokers are warm."
    ),
    "Start of dedicated mode": (
        "From the start of `connect-mirror-maker.sh` with a file of one enabled flow and one topic, on brokers that run:"
        " medians of several starts, in brackets the worst, each with new internal topics; then each again, with another"
        " batch. The sides start in turns, and once before what counts."
    ),
    "Many connectors": (
        f"{MANY_CONNECTORS} source connectors of one task each are created, the worker is stopped and started again, several"
        " times, the sides in turns. Seconds from the start of the script to the end of the first answer to"
        " `GET /connectors?expand=status&expand=info` that has all of them, and the longest of the answers to the same"
        f" question in the {FULL.many_connectors_after:g} s after it, in which Spark and the connectors start."
        " MirrorMaker 2 is measured with stopped ones only."
    ),
    "Groups that move": (
        f"{GROUPS} groups at random positions in {PARTITIONS_OF_GROUPS} partitions, while one producer writes plainly and"
        f" {TRANSACTIONAL} in transactions, {ABORTED_SHARE:.0%} of them aborted: {FAILOVER_RATE:g} records a second."
        " Connectors have their defaults, but emit checkpoints and sync groups each second. The groups stop, the producers"
        " don't; when the groups' positions on the target have come to rest, what each would read there is compared with"
        " what it had read at the source, by the numbers in the records. Then groups go on, offset syncs, checkpoints and"
        " (of mirror-connect) runs are compacted, the side and both brokers are stopped and started"
        " again, and it is measured once more. A place is a group in a partition."
    ),
    "Take-over by another worker": (
        f"Two workers of one group and a connector with one task, each side by itself. {takeover.RATE} records a second are"
        f" sent and received as under Latency. After {takeover.BEFORE_S:g} s the worker with the task gets SIGTERM, or all"
        f" of its processes get kill -9 at once, {FULL.takeovers} times each. Then it is started again. Both sides have"
        f" session.timeout.ms={takeover.SESSION_S * 1000:.0f} (Kafka's default) and scheduled.rebalance.max.delay.ms=0: with"
        " Kafka's default of the latter, a lost worker's tasks of Kafka Connect rest for five minutes. Then the same with"
        " one worker alone, which is started again as soon as its processes are gone; also with exactly-once. Consumers"
        " read what is committed. The median is shown, and in brackets the worst."
    ),
    "Copying exactly once": (
        "As under Copying, with two workers of each side that run all the while: one with"
        " exactly.once.source.support=enabled, one without. In each turn a connector is given where its transactions end:"
        f" `transaction.boundary`. Each worker warms up for {FULL.transactions_warm_up:g} s, then each setting has a turn"
        f" that does not count. {FULL.transactions_rounds} rounds count, forwards and backwards."
        f" {FULL.transactions_java:g} s of copying (MirrorMaker 2) or {FULL.transactions_product:g} s (mirror-connect) come"
        " together for each setting. What the target has acknowledged counts, committed or not; each transaction's marker"
        " counts as a record, which is less than one in a hundred. In brackets: the share of what the same side copies"
        " without exactly-once, of the rounds' medians, and the least and the most of one round."
    ),
    "Latency exactly once": (
        "As under Latency, with the same workers, and a connector with a topic of its own for each setting. The consumer of"
        " the target reads committed records, and without exactly-once uncommitted ones. For each rate each setting warms up"
        f" for {FULL.transactions_warm_up / 2:g} s; then"
        f" {FULL.transactions_latency_rounds} rounds go in turns, of {FULL.warm_again / 2:g} s of warm-up and"
        f" {FULL.transactions_latency / FULL.transactions_latency_rounds:g} s that count. CPU is that of all of the worker's"
        " processes, in which connectors wait that have no turn. Milliseconds."
    ),
    "Verifying behind a link": (
        f"One connector of one task copies a topic of {PARTITIONS} partitions that grows by"
        f" {following.BYTES_PER_SECOND / 1e6:g} MB/s; `mirror-connect verify --follow` runs beside it with its defaults."
        f" {FULL.warm_up:g} s of warm-up, then {FULL.following:g} s that count: CPU seconds, user and system, of the"
        " verifying process, and of all processes of the copying side: worker, Spark driver, JVM, Python daemon and task."
        " Compared and counted are shares of what was copied from its start to its end. What it used before, for its own"
        " start mostly, is in a column of its own."
    ),
    "Partitions and tasks": (
        f"The records of the 1 KiB profile in topics of {_SCALED} partitions."
        " One worker, one connector. In each round, forwards and backwards, it copies each topic with the tasks that the row"
        " has, to a new remote topic."
        " A quota of the source's broker holds the tasks back until all run and each partition has a record on the target."
        f" {held_copies.SETTLE_S:g} s after its end measuring begins, and lasts for {scaling.COPY_S:g} s at most."
        " CPU is that of all processes of the worker: the median of the rounds, and of each round's ratio to the first row."
    ),
    "A Spark cluster": (
        f"The records of the 1 KiB profile in a topic of {spark_placement.PARTITIONS} partitions, copied as above, with"
        f" {spark_placement.PLACED_TASKS} tasks, by three workers in turns: one with a local master, two with standalone"
        " Spark clusters of their own on this machine. A fourth worker copies with 1 to 16 tasks. All run all the while, and"
        " wait without a turn. Each round goes forwards or backwards, and the next one the other way. CPU is that of all"
        " processes: the worker, its driver, Spark's master and workers, executors, tasks. The ratios are medians of those"
        " of single rounds. A quota of the source's broker holds the tasks back until all run and each partition has a"
        f" record on the target. {held_copies.SETTLE_S:g} s after its end measuring begins, and lasts for"
        f" {spark_placement.COPY_S:g} s. MB are those of the source's batches. The brokers run on the same processors, so"
        " throughput is this machine's and not that of a cluster."
    ),
    "Long distances": (
        "The 1 KiB profile in a topic of 1 and in one of 8 partitions, between two brokers of which at most one is far away:"
        " each is behind a forwarder of one process with the benchmark, which delays every byte. Its CPU is in no figure."
        " Bandwidth is that of the machine's loopback, and both brokers, the forwarder and the side share its processors."
        f" At two places the link is thin, too: the forwarder passes {far.THIN_BYTES_PER_SECOND / 1e6:g} MB/s each way."
        f" Each side is a worker with one connector of one task; after {FULL.warm_up:g} s of warm-up the sides take turns of"
        f" {FULL.far:g} s at each distance, of which the first {far.FAR_SETTLE_S:g} s do not count (near: {far.SETTLE_S:g}"
        " s). MirrorMaker 2 is"
        " tuned as under Copying; Kafka Connect's one request in flight stays. mirror-connect has its defaults."
    ),
    "Many topics": (
        f"{_MANY} topics of {MANY_PARTITIONS} partitions with some records each, and {MANY_GROUPS} groups that have"
        " positions in some of them, are there when a connector for all of them is created: one task copies, another one"
        " translates. Measured once with each number of topics, between brokers of their own, whose files are in memory."
        " The smaller number is what MirrorMaker 2 can create: it asks for all of them in one request, and a controller"
        " writes at most 10,000 records for one. A side that does not get through is given up; the last complaints of its"
        " own log are in its row. Then everything is looked at each second: topics, configs, groups, positions, groups of"
        " the target. Seconds until what changed at the source is on the target, medians of three times: a new topic; a"
        " changed config; positions of all groups (the last checkpoint of all). Memory: the most that a process had (PSS,"
        " each second)."
    ),
    "Copying beside many topics": (
        f"{MANY_RATE:,} records a second, measured as above under Latency, in one round. Before there are any of these"
        f" topics (after {FULL.warm_up:g} s of warm-up), and while they are created and first read: a topic of another"
        " connector of the same worker. Then: one topic more of the task that has all of them, at first with Kafka's"
        " intervals, checkpoints and positions of groups each minute; both connectors are started again meanwhile, so that"
        " the rounds of every ten minutes (topics, configs, ACLs, groups) are among them. At the end every round is made"
        " each second, and this program asks the brokers for what it waits for. Each moment is in the table of aims."
        " Milliseconds."
    ),
}
