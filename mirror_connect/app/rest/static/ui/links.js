// What the worker tells of its links. A worker without /admin/links (it is on other listeners, or Kafka's own) still tells of
// its connectors: then links are made of those, and every figure is unknown.

import { get, path, Refused } from "./rest.js";

const UNKNOWN = {
  topics: null,
  partitions: null,
  lag: { records: null, seconds: null, partitions_behind: null, partitions_unknown: null },
  rate: { records: null, bytes: null },
  latency_ms: null,
  groups: null,
  since_ms: null,
  problems: [],
  more_problems: 0,
  last_report_ms: null,
};
// The worst first, as the worker orders them.
const ORDER = ["FAILED", "UNASSIGNED", "RESTARTING", "PAUSED", "STOPPED", "RUNNING"];

export async function loadLinks() {
  try {
    return { ...(await get("admin/links")), figures: true };
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
  }
  const [worker, expanded] = await Promise.all([get(""), get("connectors?expand=info&expand=status")]);
  return { worker: { ...worker, id: location.host, read_only: false, time_ms: Date.now() }, links: derived(expanded), figures: false };
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
