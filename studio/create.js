// <zt-create>: the request as a form, the clip beside it.
import * as api from "./api.js";
import "./clip.js";
import "./dropzone.js";
import { failure, h, randomSeed, seconds } from "./ui.js";

const kTasks = { t2va: "Prompt alone", fl2va: "First and last frame", ref2va: "References" };
const kShapes = { "": "default", "16:9": "16:9 wide", "9:16": "9:16 tall", "1:1": "1:1 square", "4:3": "4:3", "3:4": "3:4", "21:9": "21:9 cinema", size: "exact pixels" };
const kMemory = "create";

// A picture that another page hands over.
let handed = null;
export function handOver(file) {
  handed = file;
  location.hash = "#create";
}

function legalFrames({ min, max }) {
  const all = [];
  for (let n = min; n <= max; n += 17) all.push(n);
  return all;
}

class Create extends HTMLElement {
  async connectedCallback() {
    this.replaceChildren(h("h1", {}, "Create"), h("p", { class: "quiet" }, "…"));
    try {
      this.can = await api.capabilities();
    } catch (e) {
      return this.replaceChildren(h("h1", {}, "Create"), failure(e), h("button", { type: "button", onclick: () => this.connectedCallback() }, "Try again"));
    }
    this.build();
  }

  build() {
    const can = this.can, old = JSON.parse(localStorage.getItem(kMemory) || "{}");
    const frames = legalFrames(can.frames), at = Math.max(0, frames.indexOf(old.frames ?? can.frames.default));
    this.frames = frames;
    this.prompt = h("textarea", { id: "prompt", rows: 4, maxlength: can.limits.prompt_characters, value: old.prompt ?? "", placeholder: "What the clip shows, and what is to be heard" });
    this.tasks = h("fieldset", { class: "tasks" }, h("legend", {}, "Made from"),
      ...can.tasks.map((t, i) => h("label", {}, h("input", { type: "radio", name: "task", value: t, checked: i === 0, onchange: () => this.showTask() }), kTasks[t] || t)));
    this.first = h("zt-drop", { id: "first", label: "First frame", accept: "image/*" });
    this.last = h("zt-drop", { id: "last", label: "Last frame", accept: "image/*" });
    this.references = h("zt-drop", { id: "references", label: "References, in the order the prompt counts them", accept: "image/*,video/*,audio/*", max: can.limits.references });
    this.keyframes = h("div", { class: "pair" }, this.first, this.last);
    this.shape = h("select", { id: "shape", onchange: () => this.showSize() }, ...Object.entries(kShapes).map(([v, text]) => h("option", { value: v, selected: v === (old.shape ?? "") }, text)));
    this.size = h("input", { id: "size", value: old.size ?? can.size.default, pattern: "\\d{2,5}x\\d{2,5}", "aria-describedby": "size-help", autocomplete: "off" });
    this.sizeField = h("div", { class: "field" }, h("label", { for: "size" }, "Width x height"), this.size, h("small", { id: "size-help" }, `multiples of ${can.size.multiple}`));
    this.length = h("input", { type: "range", id: "length", min: 0, max: frames.length - 1, step: 1, value: at, oninput: () => this.showLength() });
    this.lengthText = h("output", { for: "length" });
    this.evaluations = h("input", { type: "number", id: "evaluations", min: can.evaluations.min, max: can.evaluations.max, required: true, value: old.evaluations ?? 8, "aria-describedby": "evaluations-help" });
    this.seed = h("input", { id: "seed", inputmode: "numeric", pattern: "\\d{0,20}", placeholder: "chosen by chance", autocomplete: "off" });
    this.problem = h("div");
    this.submit = h("button", { class: "primary" }, "Create");
    const field = (label, id, ...rest) => h("div", { class: "field" }, h("label", { for: id }, label), ...rest);
    const form = h("form", { onsubmit: (e) => { e.preventDefault(); this.send(); } },
      field("Prompt", "prompt", this.prompt), can.tasks.length > 1 && this.tasks, this.keyframes, this.references,
      h("div", { class: "grid" },
        field("Shape", "shape", this.shape), this.sizeField,
        field("Length", "length", this.length, this.lengthText),
        field("Evaluations", "evaluations", this.evaluations, h("small", { id: "evaluations-help" }, `few are fast; the reference: ${can.evaluations.default}`)),
        field("Seed", "seed", this.seed)),
      this.problem, h("div", { class: "row" }, this.submit, h("small", {}, `Ctrl+Enter · ${can.model}, plan ${can.plan}`)));
    form.addEventListener("keydown", (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit(); });
    this.output = h("section", { class: "output", "aria-label": "The clip" }, h("p", { class: "quiet empty" }, "The clip plays here as soon as its first pictures exist."));
    this.addEventListener("clip-again", (e) => { this.seed.value = String(e.detail.seed); this.showClip(e.detail.id); });
    this.addEventListener("clip-frame", (e) => this.useFrame(e.detail));
    this.replaceChildren(h("h1", {}, "Create"), h("div", { class: "columns" }, form, this.output));
    this.showTask(), this.showSize(), this.showLength();
    if (handed) this.useFrame(handed), handed = null;
  }

  get task() { return this.querySelector("input[name=task]:checked")?.value || this.can.tasks[0]; }
  showTask() {
    this.keyframes.hidden = this.task !== "fl2va";
    this.references.hidden = this.task !== "ref2va";
    this.prompt.required = this.task !== "fl2va";
  }
  showSize() { this.sizeField.hidden = this.size.disabled = this.shape.value !== "size"; }
  showLength() {
    const n = this.frames[Number(this.length.value)];
    this.lengthText.textContent = `${seconds(n / this.can.frames.fps)}, ${n} frames`;
    this.length.setAttribute("aria-valuetext", this.lengthText.textContent);
  }
  useFrame(file) {
    this.querySelector("input[name=task][value=fl2va]").checked = true;
    this.showTask();
    this.first.set([file]);
    this.last.set([]);
    this.prompt.focus();
  }

  async send() {
    this.problem.replaceChildren();
    const task = this.task, body = new FormData(), seed = this.seed.value || String(randomSeed());
    body.set("prompt", this.prompt.value);
    body.set("task", task);
    body.set("num_frames", this.frames[Number(this.length.value)]);
    body.set("evaluations", this.evaluations.value);
    body.set("seed", seed);
    if (this.shape.value === "size") body.set("size", this.size.value);
    else if (this.shape.value) body.set("aspect_ratio", this.shape.value);
    if (task === "fl2va") {
      if (this.first.files[0]) body.set("first_frame", this.first.files[0]);
      if (this.last.files[0]) body.set("last_frame", this.last.files[0]);
      if (!this.first.files[0] && !this.last.files[0]) return this.refuse(new Error("Give a first or a last frame."), this.first.input);
    }
    if (task === "ref2va") {
      if (!this.references.files.length) return this.refuse(new Error("Give at least one reference."), this.references.input);
      for (const file of this.references.files) body.append("references[]", file);
    }
    localStorage.setItem(kMemory, JSON.stringify({ prompt: this.prompt.value, frames: this.frames[Number(this.length.value)], evaluations: Number(this.evaluations.value), shape: this.shape.value, size: this.size.value }));
    this.submit.disabled = true;
    try {
      this.showClip((await api.create(body)).id);
    } catch (e) {
      const fields = { prompt: this.prompt, size: this.size, aspect_ratio: this.shape, num_frames: this.length, evaluations: this.evaluations, seed: this.seed, first_frame: this.first.input, last_frame: this.last.input };
      this.refuse(e, fields[e.param]);
    } finally {
      this.submit.disabled = false;
    }
  }
  refuse(error, field) {
    this.problem.replaceChildren(failure(error));
    field?.focus();
  }
  showClip(id) {
    const clip = h("zt-clip");
    clip.dataset.id = id;
    this.output.replaceChildren(clip);
    if (matchMedia("(max-width: 800px)").matches) this.output.scrollIntoView({ block: "start" });
  }
}
customElements.define("zt-create", Create);
