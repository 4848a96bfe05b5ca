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

export const failure = (error) => h("p", { class: "error", role: "alert" }, error.message || String(error));
