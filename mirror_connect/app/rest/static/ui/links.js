// What the worker tells of its links. A worker without /admin/links (it is on other listeners, or Kafka's own) still tells of
// its connectors: then links are made of those, and every figure is unknown.

import { get, path, Refused } from "./rest.js";

const UNKNOWN = {
  topics: null,
  partitions: null,
  lag: { records: null, seconds: null, partitions_behind: null, partitions_unknown: null },
  rate: { records: null, bytes: null },
  latency_ms: null,
  skipped: null,
  groups: null,
  since_ms: null,
  problems: [],
  more_problems: 0,
  last_report_ms: null,
  leads: true,
  unknown_workers: [],
  told: true,
  leader_url: null,
  trace: null,
  home: "",
};
// The worst first, as the worker orders them.
const ORDER = ["FAILED", "UNASSIGNED", "RESTARTING", "PAUSED", "STOPPED", "RUNNING"];

export async function loadLinks() {
  try {
    const { worker, links } = await get("admin/links");
    return { worker, links: links.map((link) => whole(link, worker)), figures: true };
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
  }
  const [worker, expanded] = await Promise.all([get(""), get("connectors?expand=info&expand=status")]);
  return { worker: { ...worker, id: location.host, read_only: false, time_ms: Date.now() }, links: derived(expanded), figures: false };
}

/**
 * With every member that the views read. `told`: whether any worker of the group has told problems and figures.
 * `home` is where the page of its connectors is: in dedicated mode, which has no cluster of its own, each flow has one.
 */
function whole(link, worker) {
  const home = worker.kafka_cluster_id === null ? `${encodeURIComponent(link.source)}/${encodeURIComponent(link.target)}/ui` : "";
  return { ...link, rate: link.rate ?? UNKNOWN.rate, problems: link.problems ?? [], told: link.problems !== null, home };
}

function derived(expanded) {
  const links = new Map();
  for (const [name, { info, status }] of Object.entries(expanded)) {
    const source = info.config["source.cluster.alias"] ?? "?";
    const target = info.config["target.cluster.alias"] ?? "target";
    const link = links.get(`${source}->${target}`) ?? { ...UNKNOWN, name: `${source}->${target}`, source, target, connectors: [] };
    links.set(link.name, link);
    link.connectors.push({ name, class: info.config["connector.class"], kind: kind(info.config["connector.class"]), ...status.connector, tasks: status.tasks });
  }
  for (const link of links.values()) {
    const states = link.connectors.flatMap((connector) => [connector.state, ...connector.tasks.map((task) => task.state)]);
    link.state = ORDER.find((state) => states.includes(state)) ?? null;
  }
  return [...links.values()].sort((one, other) => one.name.localeCompare(other.name));
}

const kind = (name) => (/Checkpoint/.test(name) ? "checkpoint" : /Heartbeat/.test(name) ? "heartbeat" : "source");

/** The hour of a link, kept while its page is open: after the first time only the newest minutes are asked for. */
export function history(name, now) {
  let points = [];
  return {
    points: () => points,
    async load() {
      const minutes = points.length && points.at(-1).time_ms > now() - 90_000 ? 2 : 60;
      const { points: newer } = await get(path(["admin", "links", name, "history"], { minutes }));
      const known = new Map([...points, ...newer].map((point) => [point.time_ms, point]));
      points = [...known.values()].sort((one, other) => one.time_ms - other.time_ms);
      const end = points.at(-1)?.time_ms ?? 0;
      points = points.filter((point) => point.time_ms > end - 3_600_000);
    },
  };
}
