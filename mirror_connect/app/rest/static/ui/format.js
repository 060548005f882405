// Figures and times as text. What is not known is said so, and never shown as 0.

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const clockShort = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const known = (value) => value !== null && value !== undefined;

/** The text of a value, or the word "unknown". */
export function or(value, text, word = "unknown") {
  return known(value) ? text(value) : h("span", { class: "unknown" }, word);
}

export const count = (value) => whole.format(value);
export const plural = (value, one, many = `${one}s`) => `${whole.format(value)} ${value === 1 ? one : many}`;
export const rate = (value) => `${value < 10 ? short.format(value) : whole.format(Math.round(value))}/s`;

export function bytes(value) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let left = value;
  while (left >= 1000 && unit < units.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${short.format(left)} ${units[unit]}`;
}
export const bytesRate = (value) => `${bytes(value)}/s`;

export function seconds(value) {
  if (value < 10) return `${short.format(Math.round(value * 10) / 10)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 120) return `${minutes} min ${Math.round(value % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function millis(value) {
  if (value < 1000) return `${short.format(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))} ms`;
  return seconds(value / 1000);
}

/** The seconds of a lag. Nothing is missing of what is known: that is no 0 while partitions are unknown. */
export const behind = (lag) => (lag.seconds === 0 && lag.partitions_unknown ? null : lag.seconds);

export const timeOfDay = (ms) => clock.format(ms);
export const hourMinute = (ms) => clockShort.format(ms);
export const moment = (ms) => day.format(ms);

/** How long ago, by the worker's clock. */
export const ago = (ms, now) => seconds(Math.max(0, (now - ms) / 1000));

const MARKS = { RUNNING: "●", PAUSED: "‖", STOPPED: "■", FAILED: "✕", UNASSIGNED: "○", RESTARTING: "↻" };

export const mark = (state, problems = 0) => (state === "RUNNING" && problems ? "▲" : (MARKS[state] ?? "?"));
export const stateText = (state) => (state ? state[0] + state.slice(1).toLowerCase() : "Unknown");
export const stateClass = (state, problems = 0) => (problems && state === "RUNNING" ? "warned" : (state ?? "unknown").toLowerCase());

/** A state: by shape, by word and by colour. */
export function pill(state, problems = 0) {
  return h(
    "span",
    { class: `pill ${stateClass(state, problems)}` },
    h("span", { class: "mark", "aria-hidden": "true" }, mark(state, problems)),
    problems ? `${stateText(state)}, ${plural(problems, "problem")}` : stateText(state),
  );
}

export const shortClass = (name) => (name ?? "").split(".").at(-1);

const SECRET = /(password|passphrase|secret|token|credentials|jaas\.config|private\.key|keystore\.key|user\.info)/i;
/** Whether a setting's value is not for every eye. References to a config provider are no secrets. */
export const isSecret = (name, value = "") => SECRET.test(name) && !/\.(file|class|location|url|type)$/.test(name) && !/^\$\{[^}]+\}$/.test(value ?? "");
