// <zt-system>: what the server can do and how it is.
import * as api from "./api.js";
import { failure, h, megabytes, seconds, stageBar } from "./ui.js";

// Prometheus' text: name -> [{labels, value}].
function parse(text) {
  const all = new Map();
  for (const line of text.split("\n")) {
    const m = line.match(/^([a-z_]+)(?:\{(.*)\})? (\S+)$/i);
    if (!m) continue;
    const labels = Object.fromEntries([...(m[2] || "").matchAll(/(\w+)="([^"]*)"/g)].map((x) => [x[1], x[2]]));
    if (!all.has(m[1])) all.set(m[1], []);
    all.get(m[1]).push({ labels, value: Number(m[3]) });
  }
  return all;
}

const table = (rows) => h("dl", { class: "table" }, ...rows.flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, v)]));
const tile = (name, value) => h("div", { class: "tile" }, h("span", { class: "value" }, value), h("span", {}, name));

class System extends HTMLElement {
  connectedCallback() {
    this.tiles = h("div", { class: "tiles" });
    this.stages = h("div");
    this.model = h("div");
    this.problem = h("div");
    this.replaceChildren(h("h1", {}, "System"), this.problem, this.tiles, h("h2", {}, "Seconds by stage, since the server started"), this.stages, h("h2", {}, "What can be made"), this.model);
    this.showCapabilities();
    this.refresh();
    this.timer = setInterval(() => { if (!document.hidden) this.refresh(); }, 2000);
  }
  disconnectedCallback() { clearInterval(this.timer); }

  async showCapabilities() {
    try {
      const c = await api.capabilities();
      this.model.replaceChildren(table([
        ["Model", c.model], ["Plan", c.plan], ["Version", c.version], ["Tasks", c.tasks.join(", ")],
        ["Size", `${c.size.default}, multiples of ${c.size.multiple}, ${c.size.aspect}`],
        ["Length", `${c.frames.min} to ${c.frames.max} frames (${c.frames.rule}) at ${c.frames.fps} a second`],
        ["Sound", `${c.sound.channels} channels at ${c.sound.sample_rate} Hz`],
        ...(c.tasks.includes("ref2va") ? [["References", `${c.limits.references}: up to ${c.limits.images} pictures, ${c.limits.videos} videos, ${c.limits.sounds} sounds`]] : []),
        ["Request", `at most ${megabytes(c.limits.body_bytes)}${c.limits.memory_mb ? `, ${megabytes(c.limits.memory_mb * 2 ** 20)} of memory` : ""}`],
        ["Other names", c.aliases.filter((a) => a !== c.model).join(", ") || "none"]]));
    } catch (e) {
      this.model.replaceChildren(failure(e));
    }
  }

  async refresh() {
    try {
      const m = parse(await (await api.call("/metrics")).text());
      const one = (name, labels = {}) => m.get(name)?.find((x) => Object.entries(labels).every(([k, v]) => x.labels[k] === v))?.value ?? 0;
      const jobs = (status) => one("zoetrope_jobs", { status });
      const clip = one("zoetrope_clip_seconds_total"), work = one("zoetrope_job_seconds_total");
      const oldest = one("zoetrope_queue_oldest_seconds");
      this.tiles.replaceChildren(
        tile("waiting", jobs("queued")), tile("being made", jobs("in_progress")), tile("done", jobs("completed")), tile("failed or cancelled", jobs("failed") + jobs("cancelled")),
        tile("longest wait", oldest ? seconds(oldest) : "none"), tile("memory of the server", megabytes(one("process_resident_memory_bytes"))),
        tile("of work for a second of clip", clip ? seconds(work / clip) : "not known yet"), tile("connections", one("zoetrope_http_connections")));
      this.stages.replaceChildren(stageBar(Object.fromEntries((m.get("zoetrope_stage_seconds_total") || []).map((x) => [x.labels.stage, x.value]))));
      this.problem.replaceChildren();
    } catch (e) {
      this.problem.replaceChildren(failure(e));
      if (e.status === 403) clearInterval(this.timer);   // the key may not read metrics
    }
  }
}
customElements.define("zt-system", System);
