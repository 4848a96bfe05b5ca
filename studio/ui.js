// Small things that the pages share.

// h("button", {class: "x", onclick: f}, "text", child...): an element. Values go in as properties of text, never as markup.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "muted") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((c) => c !== undefined && c !== null && c !== false));
  return element;
}

// In the order of a run.
const kStages = { load: "load", text: "text", condition: "conditions", denoise: "denoise", "audio decode": "sound", "video decode": "pictures", encode: "encode" };
export const stageName = (name) => kStages[name] || name;

export const seconds = (s) => (s >= 90 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : s >= 10 ? `${s.toFixed(1)} s` : `${s.toFixed(2)} s`);
export const megabytes = (bytes) => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e3)} kB`);
export const when = (unix) => new Date(unix * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
export const randomSeed = () => crypto.getRandomValues(new Uint32Array(1))[0];

const kStates = { queued: "waiting", in_progress: "being made", completed: "done", failed: "failed", cancelled: "cancelled" };
// OpenAI's API has no word for "cancelled"; the error's code tells.
export const stateOf = (video) => (video.status === "failed" && video.error?.code === "cancelled" ? "cancelled" : video.status);
export const stateName = (video) => kStates[stateOf(video)] || video.status;
export const running = (video) => video.status === "queued" || video.status === "in_progress";

// Seconds per stage as one bar with its legend.
export function stageBar(durations) {
  const order = Object.keys(kStages);
  const entries = Object.entries(durations).filter(([, s]) => s > 0).sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  const total = entries.reduce((sum, [, s]) => sum + s, 0);
  if (!total) return h("p", { class: "quiet" }, "no stage has ended yet");
  const bar = h("div", { class: "stages", "aria-hidden": "true" });
  const legend = h("ul", { class: "legend", "aria-label": "Seconds of each stage" });
  entries.forEach(([name, s]) => {
    const colour = `stage-${name.replaceAll(" ", "-")}`, part = h("span", { class: colour });
    part.style.flexGrow = String(s / total);
    bar.append(part);
    legend.append(h("li", {}, h("i", { class: colour, "aria-hidden": "true" }), `${stageName(name)} ${seconds(s)}`));
  });
  return h("div", {}, bar, legend);
}

// Stalls of a player after its start, where a test and a curious person find them: data-waits.
export function countWaits(player) {
  let playing = false;
  player.dataset.waits = "0";
  player.addEventListener("playing", () => { playing = true; });
  player.addEventListener("pause", () => { playing = false; });
  player.addEventListener("waiting", () => { if (playing && !player.seeking && !player.ended) player.dataset.waits = String(Number(player.dataset.waits) + 1); });
}

const svg = (tag, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
// Values over time as a small plot with a marked level; the newest is at the right and in words.
export function plot(title, values, { mark, unit }) {
  const width = 240, height = 60, top = 1.15 * Math.max(mark, ...values), last = values[values.length - 1];
  const y = (v) => (height * (1 - v / top)).toFixed(1), step = width / Math.max(59, values.length - 1);
  const points = values.map((v, i) => `${(width - (values.length - 1 - i) * step).toFixed(1)},${y(v)}`).join(" ");
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${last.toFixed(2)} ${unit}; the line is at ${mark} ${unit}` },
    svg("line", { x1: 0, x2: width, y1: y(mark), y2: y(mark) }), svg("polyline", { points }));
  return h("figure", { class: "plot" }, h("figcaption", {}, title, h("b", {}, `${last.toFixed(2)} ${unit}`)), picture);
}

// A question with two answers; resolves to whether it was confirmed.
export function confirmDialog(question, action) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": question },
      h("form", { method: "dialog" }, h("p", {}, question),
        h("div", { class: "row" }, h("button", { value: "ok", class: "danger" }, action), h("button", { value: "", autofocus: true }, "Keep it"))));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "ok"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// What an extension shows and how long it is; null when nothing is to be done.
export function extendDialog(prompt) {
  return new Promise((resolve) => {
    const words = h("textarea", { id: "extend-prompt", rows: 3, required: true, value: prompt });
    const more = h("select", { id: "extend-seconds" }, ...[4, 8, 12, 16, 20].map((s) => h("option", { value: String(s) }, `${s} s`)));
    const dialog = h("dialog", { class: "form", "aria-labelledby": "extend-title" },
      h("form", { method: "dialog" }, h("h2", { id: "extend-title" }, "Extend"),
        h("div", { class: "field" }, h("label", { for: "extend-prompt" }, "What comes next"), words),
        h("div", { class: "field" }, h("label", { for: "extend-seconds" }, "That much more"), more),
        h("div", { class: "row" }, h("button", { value: "ok", class: "primary" }, "Go on"), h("button", { value: "", formnovalidate: true }, "Not now"))));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "ok" ? { prompt: words.value, seconds: more.value } : null); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export const failure = (error) => h("p", { class: "error", role: "alert" }, error.message || String(error));
