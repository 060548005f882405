// Clusters and the links between them, drawn. Each link's label leads to its page and says its state in words and shape.

import { s } from "./dom.js";
import * as f from "./format.js";

const NARROW = window.matchMedia("(max-width: 40rem)");
const NODE = { width: 148, height: 56 };
const LABEL = { width: 128, height: 44 };
const MARGIN = 24;

export function picture(links) {
  const names = [...new Set(links.flatMap((link) => [link.source, link.target]))].sort();
  const wide = !NARROW.matches;
  const { places, width, height, label } = placed(names, links, wide);
  const drawn = links.map((link) => edge(link, links, places, label));
  return s(
    "svg",
    {
      class: "picture",
      viewBox: `0 0 ${width} ${height}`,
      // Never larger than drawn: letters stay as large as those of the page.
      width,
      height,
      role: "group",
      "aria-label": "Clusters and the links between them",
    },
    drawn.map(({ line }) => line),
    names.map((name) => node(name, places.get(name), links)),
    drawn.map(({ text }) => text),
  );
}

// Two beside each other, or sources left and targets right; clusters that are both stand in a ring.
function placed(names, links, wide) {
  const width = wide ? 960 : 340;
  const sources = names.filter((name) => links.some((link) => link.source === name));
  const targets = names.filter((name) => links.some((link) => link.target === name));
  const columns = sources.every((name) => !targets.includes(name)) || names.length === 2 ? [sources, targets] : null;
  if (names.length === 2) {
    const [first, second] = links[0].source === names[0] ? names : [names[1], names[0]];
    const height = wide ? 190 : 320;
    const at = wide ? [[150, height / 2], [width - 150, height / 2]] : [[width / 2, 44], [width / 2, height - 44]];
    return { places: new Map([[first, at[0]], [second, at[1]]]), width, height, label: () => 0.5 };
  }
  if (columns && wide) {
    const rows = Math.max(sources.length, targets.length);
    const height = rows * 84 + 2 * MARGIN;
    const places = new Map();
    for (const [column, x] of [[sources, 130], [targets, width - 130]]) {
      column.forEach((name, index) => places.set(name, [x, (height / column.length) * (index + 0.5)]));
    }
    // Beside the end where links do not meet.
    const fans = sources.length <= targets.length;
    return { places, width, height, label: () => (sources.length === targets.length ? 0.5 : fans ? 0.62 : 0.38) };
  }
  if (wide) {
    const height = Math.min(760, 300 + names.length * 40);
    const places = new Map(
      names.map((name, index) => {
        const angle = Math.PI * (1.5 + (2 * index) / names.length);
        return [name, [width / 2 + (width / 2 - 130) * Math.cos(angle), height / 2 + (height / 2 - 52) * Math.sin(angle)]];
      }),
    );
    return { places, width, height, label: () => 0.42 };
  }
  const height = names.length * 180 - 60;
  return { places: new Map(names.map((name, index) => [name, [index % 2 ? 255 : 85, index * 180 + 60]])), width, height, label: () => 0.5 };
}

function node(name, [x, y], links) {
  const out = links.filter((link) => link.source === name).length;
  const into = links.filter((link) => link.target === name).length;
  const role = [out ? `source of ${out}` : "", into ? `target of ${into}` : ""].filter(Boolean).join(" · ");
  return s(
    "g",
    { class: "cluster", key: `n ${name}`, role: "img", "aria-label": `Cluster ${name}: ${role}` },
    s("title", {}, name),
    s("rect", { x: x - NODE.width / 2, y: y - NODE.height / 2, width: NODE.width, height: NODE.height, rx: 12 }),
    s("text", { x, y: y - 3, class: "name" }, cut(name, 16)),
    s("text", { x, y: y + 15, class: "role" }, role),
  );
}

function edge(link, links, places, label) {
  const from = places.get(link.source);
  const to = places.get(link.target);
  const back = links.some((other) => other.source === link.target && other.target === link.source);
  const between = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
  const bend = back ? (NARROW.matches ? 70 : 92) : 0;
  const middle = [
    (from[0] + to[0]) / 2 + ((to[1] - from[1]) / between) * bend,
    (from[1] + to[1]) / 2 - ((to[0] - from[0]) / between) * bend,
  ];
  const at = (t) => [0, 1].map((i) => (1 - t) ** 2 * from[i] + 2 * t * (1 - t) * middle[i] + t ** 2 * to[i]);
  const inside = ([x, y], [cx, cy]) => Math.abs(x - cx) < NODE.width / 2 + 6 && Math.abs(y - cy) < NODE.height / 2 + 6;
  let points = Array.from({ length: 61 }, (_, index) => at(index / 60));
  points = points.filter((point) => !inside(point, from) && !inside(point, to));
  const problems = link.problems.length + link.more_problems;
  const state = f.stateClass(link.state, problems);
  const [x, y] = at(label(link));
  const lag = f.known(f.behind(link.lag)) ? `${f.seconds(f.behind(link.lag))} behind` : "lag unknown";
  const speed = f.known(link.rate.bytes) ? f.bytesRate(link.rate.bytes) : "rate unknown";
  // Ends with what is seen, word by word: people may say that to open it.
  const spoken = `Link ${link.source} to ${link.target}: ${f.stateText(link.state)}, ${f.plural(problems, "problem")}, ${lag} ${speed}`;
  return {
    line: s(
      "g",
      { class: `edge ${state}`, key: `e ${link.name}`, "aria-hidden": "true" },
      s("path", { d: `M${points.map(pair).join("L")}`, "stroke-width": thickness(link.rate.bytes) }),
      points.length > 1 ? s("path", { class: "head", d: head(points) }) : null,
    ),
    text: s(
      "a",
      { class: `label ${state}`, key: `l ${link.name}`, href: `#/links/${encodeURIComponent(link.name)}`, "aria-label": spoken },
      s("rect", { x: x - LABEL.width / 2, y: y - LABEL.height / 2, width: LABEL.width, height: LABEL.height, rx: 10 }),
      s(
        "text",
        { x, y: y - 3 },
        s("tspan", { class: "mark", "aria-hidden": "true" }, `${f.mark(link.state, problems)} `),
        `${lag} `,
        s("tspan", { x, y: y + 14, class: "role" }, speed),
      ),
    ),
  };
}

// From 1.5 at rest to 5 at a gigabyte a second.
const thickness = (bytes) => (1.5 + Math.min(3.5, Math.max(0, Math.log10((bytes ?? 0) / 1000)) * 0.6)).toFixed(1);

function head(points) {
  const [x, y] = points.at(-1);
  const [fromX, fromY] = points.at(-2);
  const length = Math.hypot(x - fromX, y - fromY) || 1;
  const [along, across] = [(x - fromX) / length, (y - fromY) / length];
  const corner = (back, side) => pair([x - back * along - side * across, y - back * across + side * along]);
  return `M${pair([x + 4 * along, y + 4 * across])}L${corner(8, 6)}L${corner(8, -6)}Z`;
}

const pair = ([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`;
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
