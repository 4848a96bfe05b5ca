// <zt-compare>: two finished clips side by side or as their difference, played and wound together.
import * as api from "./api.js";
import { failure, h, seconds, stageName, when } from "./ui.js";

const label = (v) => `${v.prompt.slice(0, 50) || "(no prompt)"} · seed ${v.seed ?? "?"} · ${v.evaluations ?? "?"} ev. · ${v.plan ?? "?"} · ${when(v.completed_at)}`;

class Compare extends HTMLElement {
  async connectedCallback() {
    this.replaceChildren(h("h1", {}, "Compare"), h("p", { class: "quiet" }, "…"));
    try {
      this.videos = (await api.json("/v1/videos?status=completed&limit=100")).data;
    } catch (e) {
      return this.replaceChildren(h("h1", {}, "Compare"), failure(e));
    }
    if (this.videos.length < 2)
      return this.replaceChildren(h("h1", {}, "Compare"), h("p", {}, "Two finished clips are needed. ", h("a", { href: "#create" }, "Create one"), ": the same prompt and seed under other evaluations, or a variation."));
    this.build();
  }
  disconnectedCallback() {
    cancelAnimationFrame(this.tick);
    for (const p of this.players || []) p.removeAttribute("src"), p.load();
  }

  build() {
    const choice = (name, at) => h("select", { id: `clip-${name}`, onchange: () => this.load() }, ...this.videos.map((v, i) => h("option", { value: v.id, selected: i === at }, label(v))));
    this.choices = [choice("a", 1), choice("b", 0)];   // the older one is the reference
    this.players = [0, 1].map((i) => h("video", { playsinline: true, preload: "auto", muted: i === 1, "aria-label": `Clip ${"AB"[i]}` }));
    this.canvas = h("canvas", { role: "img", "aria-label": "Difference of the two pictures" });
    this.play = h("button", { type: "button", class: "primary", onclick: () => this.toggle() }, "Play");
    this.seek = h("input", { type: "range", min: 0, value: 0, "aria-label": "Time", oninput: () => this.wind(Number(this.seek.value)) });
    this.clock = h("output", {}, "0.00 s");
    this.view = h("select", { id: "view", onchange: () => this.showView() }, h("option", { value: "side" }, "side by side"), h("option", { value: "difference" }, "difference, four times"));
    this.ears = h("select", { id: "ears", onchange: () => this.players.forEach((p, i) => { p.muted = String(i) !== this.ears.value; }) }, h("option", { value: "0" }, "A"), h("option", { value: "1" }, "B"));
    this.psnr = h("p", { role: "status", class: "status" });
    this.figures = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures of both clips" });
    this.problem = h("div");
    this.screens = this.players.map((p) => h("div", { class: "screen" }, p));
    this.side = h("div", { class: "two" }, ...this.screens);
    this.diff = h("div", { class: "screen", hidden: true }, this.canvas);
    this.replaceChildren(h("h1", {}, "Compare"), h("p", { class: "quiet" }, "Which is better without knowing which is which: ", h("a", { href: "#blind" }, "blind test")),
      h("div", { class: "two" }, ...this.choices.map((c, i) => h("div", { class: "field" }, h("label", { for: c.id }, `Clip ${"AB"[i]}`), c))),
      this.problem, this.side, this.diff,
      h("div", { class: "row transport" }, this.play, this.seek, this.clock),
      h("div", { class: "row filters" }, h("label", { for: "view" }, "View"), this.view, h("label", { for: "ears" }, "Sound of"), this.ears),
      this.psnr, this.figures);
    const [a] = this.players;
    a.addEventListener("ended", () => this.stop());
    this.players.forEach((p) => p.addEventListener("seeked", () => this.measure()));
    this.players.forEach((p) => p.addEventListener("loadeddata", () => this.measure()));
    this.load();
    const tick = () => {
      this.step();
      this.tick = requestAnimationFrame(tick);
    };
    tick();
  }

  get pair() { return this.choices.map((c) => this.videos.find((v) => v.id === c.value)); }

  async load() {
    this.stop();
    const pair = this.pair, [a, b] = pair;
    this.problem.replaceChildren();
    this.psnr.textContent = "";
    this.sameSize = a.width === b.width && a.height === b.height;
    if (!this.sameSize) this.problem.replaceChildren(h("p", { class: "quiet" }, `A is ${a.width}×${a.height}, B ${b.width}×${b.height}: no difference can be shown.`));
    this.view.disabled = !this.sameSize;
    if (!this.sameSize) this.view.value = "side";
    this.length = Math.min(a.frames / a.fps, b.frames / b.fps);
    this.seek.step = 1 / a.fps, this.seek.max = this.length - 1 / a.fps, this.seek.value = 0;
    this.canvas.width = a.width, this.canvas.height = a.height;
    this.diff.style.setProperty("--shape", `${a.width} / ${a.height}`);
    this.showView();
    this.showFigures(pair);
    try {
      const sources = await Promise.all(pair.map((v) => api.source(api.contentPath(v.id))));
      this.players.forEach((p, i) => { p.src = sources[i]; this.screens[i].style.setProperty("--shape", `${pair[i].width} / ${pair[i].height}`); });
    } catch (e) {
      this.problem.replaceChildren(failure(e));
    }
  }
  showFigures(pair) {
    const rows = [["made in", (v) => seconds(v.inference_time_s)], ["plan", (v) => v.plan], ["evaluations", (v) => v.evaluations], ["seed", (v) => v.seed],
      ...["text", "denoise", "audio decode", "video decode", "encode"].map((s) => [stageName(s), (v) => seconds(v.stage_durations?.[s] ?? 0)])];
    this.figures.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "A"), h("th", { scope: "col" }, "B"))),
      h("tbody", {}, ...rows.map(([name, of]) => h("tr", {}, h("th", { scope: "row" }, name), ...pair.map((v) => h("td", {}, String(of(v) ?? "?"))))))));
  }
  showView() {
    this.diff.hidden = this.view.value !== "difference";
    this.side.hidden = !this.diff.hidden;
  }

  toggle() {
    if (!this.players[0].paused) return this.stop();
    if (this.players[0].currentTime >= this.length - 0.1) this.wind(0);
    this.play.textContent = "Pause";
    this.psnr.textContent = "";
    this.players.forEach((p) => p.play().catch(() => {}));
  }
  stop() {
    this.players.forEach((p) => p.pause());
    this.play.textContent = "Play";
    this.wind(Math.min(this.players[0].currentTime, Number(this.seek.max) || 0));
  }
  wind(time) {
    // The middle of a frame, so that both show the same one.
    const fps = this.pair[0].fps, at = (Math.round(time * fps) + 0.5) / fps;
    this.players.forEach((p) => { if (p.readyState >= 1) p.currentTime = at; });
  }
  // Each animation frame: B follows A, the controls follow both.
  step() {
    const [a, b] = this.players;
    if (a.readyState < 2 || b.readyState < 2) return;
    if (!a.paused) {
      const off = b.currentTime - a.currentTime;
      b.playbackRate = Math.abs(off) < 0.02 ? 1 : off > 0 ? 0.95 : 1.05;
      if (Math.abs(off) > 0.25) b.currentTime = a.currentTime;
      if (a.currentTime >= this.length) this.stop();
    }
    this.seek.value = a.currentTime;
    this.clock.textContent = `${a.currentTime.toFixed(2)} s of ${this.length.toFixed(2)} s`;
    if (!this.diff.hidden) this.draw();
  }
  draw() {
    const c = this.canvas.getContext("2d", { willReadFrequently: true });
    c.filter = "none";
    c.globalCompositeOperation = "copy";
    c.drawImage(this.players[0], 0, 0);
    c.globalCompositeOperation = "difference";
    c.drawImage(this.players[1], 0, 0);
    c.globalCompositeOperation = "lighter";   // twice itself, twice
    for (let i = 0; i < 2; i++) c.drawImage(this.canvas, 0, 0);
  }
  // PSNR of the frame that both stand on.
  measure() {
    const [a, b] = this.players;
    if (!this.sameSize || !a.paused || a.seeking || b.seeking || a.readyState < 2 || b.readyState < 2) return;
    const pixels = (p) => {
      const c = new OffscreenCanvas(p.videoWidth, p.videoHeight).getContext("2d");
      c.drawImage(p, 0, 0);
      return c.getImageData(0, 0, p.videoWidth, p.videoHeight).data;
    };
    const x = pixels(a), y = pixels(b);
    let sum = 0;
    for (let i = 0; i < x.length; i++) sum += (x[i] - y[i]) ** 2;   // alpha is equal
    const error = sum / (x.length * 0.75);
    this.psnr.textContent = error ? `PSNR of this frame: ${(10 * Math.log10(255 ** 2 / error)).toFixed(1)} dB` : "This frame is equal in both.";
  }
}
customElements.define("zt-compare", Compare);
