// A plot of the last hour. Hover, or focus and the arrow keys, read single values; screen readers get a sentence.

import { component, h, s, show } from "./dom.js";
import * as f from "./format.js";

const HEIGHT = 150;
const SPACE = { left: 58, right: 10, top: 10, bottom: 22 };
const HOUR_MS = 3_600_000;
const LEAST_MS = 300_000;
const MINUTE_MS = 60_000;

/**
 * `series`: [{key, label}], the first is drawn with its area; `text` formats a value; `least` is the top of the axis at
 * least; `gaps`: whether a missing value means unknown (it is hatched) and not just that nothing happened.
 */
export function plot({ title, series, text, least, gaps, points, now }) {
  return component("figure", { class: "plot", key: title }, mount, { title, series, text, least, gaps, points, now });
}

function mount(figure) {
  let data = null;
  let width = 0;
  let chosen = null;
  const caption = h("figcaption");
  const surface = h("div", { class: "surface", tabindex: 0, role: "img" });
  figure.append(caption, surface);

  const draw = () => {
    if (!data || width < 40) return;
    const scale = scaled(data, width);
    const index = chosen === null ? null : Math.max(0, Math.min(chosen, data.points.length - 1));
    show(caption, head(data, data.points[index ?? data.points.length - 1], index !== null));
    surface.setAttribute("aria-label", sentence(data));
    show(surface, drawn(data, scale, width, index));
  };
  const choose = (index) => {
    chosen = index;
    draw();
  };
  surface.onpointermove = (event) => {
    if (!data?.points.length) return;
    const { at } = scaled(data, width);
    const x = event.clientX - surface.getBoundingClientRect().left;
    const distance = (point) => Math.abs(at(point.time_ms) - x);
    choose(data.points.reduce((best, point, index) => (distance(point) < distance(data.points[best]) ? index : best), 0));
  };
  surface.onpointerleave = surface.onblur = () => choose(null);
  surface.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30 }[event.key];
    if (step === undefined || !data?.points.length) return;
    event.preventDefault();
    choose(Math.max(0, Math.min((chosen ?? data.points.length - 1) + step, data.points.length - 1)));
  };
  new ResizeObserver(([entry]) => {
    width = Math.floor(entry.contentRect.width);
    draw();
  }).observe(surface);
  return (newer) => {
    data = newer;
    draw();
  };
}

function head({ title, series, text }, point, chosen) {
  const values = series.map(({ key, label }, index) =>
    h(
      "span",
      { class: `value series-${index}` },
      series.length > 1 ? h("span", { class: "swatch", "aria-hidden": "true" }) : null,
      series.length > 1 ? `${label} ` : "",
      h("b", {}, point && f.known(point[key]) ? text(point[key]) : "–"),
    ),
  );
  return h(
    "div",
    { class: "head" },
    h("span", { class: "title" }, title),
    h("span", { class: "values" }, values, chosen ? h("span", { class: "time" }, f.timeOfDay(point.time_ms)) : null),
  );
}

function sentence({ title, series, text, points, gaps }) {
  const { key, label } = series[0];
  const values = points.map((point) => point[key]).filter(f.known);
  const name = series.length > 1 ? `${title}, ${label}` : title;
  if (!values.length) return `${name}: nothing known of the last hour`;
  const last = points.at(-1)[key];
  const unknown = gaps ? points.length - values.length : 0;
  return (
    `${name}: ${f.known(last) ? text(last) : "unknown"} now, between ${text(Math.min(...values))} and ` +
    `${text(Math.max(...values))} in the last hour${unknown ? `, unknown at ${unknown} of ${points.length} times` : ""}`
  );
}

function scaled({ points, series, least, now }, width) {
  let most = least;
  for (const point of points) for (const { key } of series) if (point[key] > most) most = point[key];
  const top = nice(most);
  // A link that is younger than an hour has all of the width.
  const first = points[0]?.time_ms ?? 0;
  const from = first < now - 0.9 * HOUR_MS ? now - HOUR_MS : Math.min(first, now - LEAST_MS);
  const span = Math.max(now, points.at(-1)?.time_ms ?? 0) - from;
  return {
    top,
    from,
    span,
    at: (ms) => SPACE.left + ((ms - from) / span) * (width - SPACE.left - SPACE.right),
    up: (value) => HEIGHT - SPACE.bottom - (value / top) * (HEIGHT - SPACE.top - SPACE.bottom),
  };
}

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 4, 5, 10].find((step) => step * power >= value * 0.999);
}

function drawn({ points, series, text, gaps }, { top, from, span, at, up }, width, index) {
  const floor = HEIGHT - SPACE.bottom;
  const lines = [0, 0.5, 1].map((part) =>
    s(
      "g",
      { class: "grid", key: `y${part}` },
      s("line", { x1: SPACE.left, x2: width - SPACE.right, y1: up(part * top), y2: up(part * top) }),
      s("text", { x: SPACE.left - 8, y: up(part * top) + 4, "text-anchor": "end" }, text(part * top)),
    ),
  );
  const step = MINUTE_MS * [1, 2, 5, 10, 15].find((minutes) => span / minutes <= 4.5 * MINUTE_MS || minutes === 15);
  const times = [];
  for (let ms = Math.ceil(from / step) * step; ms <= from + span; ms += step) {
    const x = at(ms);
    if (x < SPACE.left + 14 || x > width - 18) continue;
    times.push(s("text", { key: `x${ms}`, class: "time", x, y: HEIGHT - 5, "text-anchor": "middle" }, f.hourMinute(ms)));
  }
  const inside = points.filter((point) => point.time_ms >= from);
  const paths = series.flatMap(({ key }, number) => {
    const runs = runsOf(inside, key);
    const line = runs.map((run) => `M${run.map((p) => `${at(p.time_ms).toFixed(1)},${up(p[key]).toFixed(1)}`).join("L")}`).join("");
    const area = runs.map((run) => {
      const middle = run.map((p) => `${at(p.time_ms).toFixed(1)},${up(p[key]).toFixed(1)}`).join("L");
      return `M${at(run[0].time_ms).toFixed(1)},${floor}L${middle}L${at(run.at(-1).time_ms).toFixed(1)},${floor}Z`;
    });
    return [
      number === 0 ? s("path", { key: `a${key}`, class: "area", d: area.join("") || null }) : null,
      s("path", { key: `l${key}`, class: `line series-${number}`, d: line || null }),
    ];
  });
  const shaded = gaps
    ? gapsOf(inside, series[0].key).map(([first, last]) =>
        s("rect", {
          key: `g${first}`,
          class: "gap",
          x: at(first),
          y: SPACE.top,
          width: Math.max(2, at(last) - at(first)),
          height: floor - SPACE.top,
        }),
      )
    : [];
  const point = index === null ? null : points[index];
  return s(
    "svg",
    { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" },
    shaded,
    lines,
    times,
    paths,
    point
      ? s(
          "g",
          { class: "cursor", key: "cursor" },
          s("line", { x1: at(point.time_ms), x2: at(point.time_ms), y1: SPACE.top, y2: floor }),
          series.map(({ key }) => (f.known(point[key]) ? s("circle", { cx: at(point.time_ms), cy: up(point[key]), r: 3.5 }) : null)),
        )
      : null,
  );
}

function runsOf(points, key) {
  const runs = [];
  let run = null;
  for (const point of points) {
    if (!f.known(point[key])) run = null;
    else if (run) run.push(point);
    else runs.push((run = [point]));
  }
  return runs;
}

function gapsOf(points, key) {
  const gaps = [];
  let begun = null;
  for (const point of points) {
    if (!f.known(point[key])) begun ??= point.time_ms;
    else if (begun !== null) {
      gaps.push([begun, point.time_ms]);
      begun = null;
    }
  }
  if (begun !== null) gaps.push([begun, points.at(-1).time_ms]);
  return gaps;
}
