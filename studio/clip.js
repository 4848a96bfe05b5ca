// <zt-clip data-id>: one video from the queue to playback. It plays while it is being made, and offers what can be done with it then.
// Events (bubbling): "clip-made" {video}, "clip-again" {video: the new one}, "clip-frame" {file}.
import * as api from "./api.js";
import { confirmDialog, countWaits, extendDialog, failure, h, megabytes, randomSeed, running, seconds, stageBar, stageName, stateName, stateOf } from "./ui.js";

// The last picture of a clip as a PNG file.
async function lastFrame(path, fps) {
  const video = h("video", { muted: true, preload: "auto" });
  video.src = await api.source(path);
  await new Promise((done, failed) => { video.onloadeddata = done; video.onerror = () => failed(new Error("the clip cannot be read")); });
  await new Promise((done) => { video.onseeked = done; video.currentTime = Math.max(0, video.duration - 0.5 / fps); });
  const canvas = h("canvas", { width: video.videoWidth, height: video.videoHeight });
  canvas.getContext("2d").drawImage(video, 0, 0);
  video.removeAttribute("src");
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  return new File([blob], "last-frame.png", { type: "image/png" });
}

class Clip extends HTMLElement {
  connectedCallback() {
    this.abort = new AbortController();
    this.video = null;
    this.player = h("video", { controls: true, playsinline: true, preload: "auto", "aria-label": "The clip" });
    this.picture = h("img", { class: "preview", alt: "Preview", hidden: true });
    this.words = h("p", { class: "status", role: "status" }, "…");
    this.bar = h("progress", { max: 100, value: 0, "aria-label": "Progress" });
    this.actions = h("div", { class: "row" });
    this.details = h("div", { class: "facts" });
    this.frame = h("div", { class: "screen" }, this.player, this.picture);
    this.replaceChildren(this.frame, this.words, this.bar, this.actions, this.details);
    this.watchPlayback();
    this.run().catch((e) => { if (!this.abort.signal.aborted) this.words.replaceChildren(failure(e)); });
  }
  disconnectedCallback() {
    this.abort.abort();
    this.player.pause();
    this.player.removeAttribute("src");
    this.player.load();
  }

  watchPlayback() {
    const p = this.player;
    countWaits(p);
    p.addEventListener("loadeddata", () => { this.picture.hidden = true; this.frame.classList.add("filled"); });
    // A stream cannot be wound; the finished file can. It takes over when the stream has played, or when somebody winds.
    const swap = () => { if (p.dataset.source === "stream" && this.video?.status === "completed") this.showFile(p.ended ? 0 : p.currentTime); };
    p.addEventListener("ended", swap);
    p.addEventListener("seeking", swap);
    p.addEventListener("error", () => {
      if (!p.getAttribute("src")) return;
      if (this.video?.status === "completed" && p.dataset.source === "stream") this.showFile(0);
    });
  }

  async run() {
    this.update(await api.video(this.dataset.id));
    if (!running(this.video)) return;
    if (!api.hasKey()) {   // <video> cannot send a key; then the finished file is shown
      this.player.dataset.source = "stream";
      this.player.src = `/v1/videos/${this.dataset.id}/stream`;
    }
    await api.follow(`/v1/videos/${this.dataset.id}/events`, (name, data) => this.on(name, data), this.abort.signal);
  }

  on(name, data) {
    if (name === "progress") {
      this.bar.value = data.progress;
      this.words.textContent = data.status === "queued" ? "waiting for its turn"
        : data.stage ? `${stageName(data.stage)}${data.total > 1 ? ` ${data.done} of ${data.total}` : ""} · ${data.progress} %` : "begins";
      this.maybePlay(data);
    } else if (name === "preview") {
      if (!this.frame.classList.contains("filled"))
        api.source(data.url).then((url) => { this.picture.src = url; this.picture.hidden = this.frame.classList.contains("filled"); }, () => {});
    } else if (name === "end") {
      if (data.deleted) { this.words.textContent = "deleted"; this.bar.hidden = true; this.actions.replaceChildren(); return; }
      this.update(data);
      if (data.status === "completed") this.start();
      this.dispatchEvent(new CustomEvent("clip-made", { bubbles: true, detail: data }));
    }
  }

  // Starts as soon as the pictures that are still to come will come before they are due.
  maybePlay({ stage, done, total }) {
    if (stage !== "video decode" || done <= 0) return;
    const now = performance.now();
    this.decoding ??= { since: now, from: done };
    const rate = (done - this.decoding.from) / Math.max(1, now - this.decoding.since) * 1000;   // frames a second
    if (rate > 0 && (total - done) / rate < done / this.video.fps) this.start();
  }
  start() {
    if (this.started || !this.player.getAttribute("src")) return;
    this.started = true;
    this.player.play().catch(() => {});   // without a click on the page before, a browser wants one on the player
  }

  async showFile(at) {
    const p = this.player, was = !p.paused && !p.ended;
    p.dataset.source = "file";
    p.src = await api.source(api.contentPath(this.dataset.id));
    if (at > 0) p.addEventListener("loadedmetadata", () => { p.currentTime = at; }, { once: true });
    if (was) p.play().catch(() => {});
  }

  update(video) {
    this.video = video;
    if (video.width) this.frame.style.setProperty("--shape", `${video.width} / ${video.height}`);
    this.bar.value = video.progress;
    this.bar.hidden = !running(video);
    this.player.hidden = !(running(video) || video.status === "completed");
    const state = stateOf(video);
    if (state === "failed") this.words.replaceChildren(failure(new Error(video.error?.message || "it failed")));
    else if (state === "completed") this.words.textContent = `done in ${seconds(video.inference_time_s)} for ${seconds(video.frames / video.fps)} of clip${video.seed === undefined ? "" : ` · seed ${video.seed}`}`;
    else this.words.textContent = stateName(video);
    if (state === "completed" && !this.player.getAttribute("src")) this.showFile(0);
    if (state === "failed" || state === "cancelled") this.player.removeAttribute("src"), this.frame.hidden = true;
    this.showActions();
    this.details.replaceChildren();
    if (state === "completed")
      this.details.append(h("h3", {}, "Where the time went"), stageBar(video.stage_durations),
        h("p", { class: "quiet" }, [`${video.width}×${video.height}`, `${video.frames} frames`, video.evaluations && `${video.evaluations} evaluations`, video.plan && `plan ${video.plan}`, megabytes(video.bytes)].filter(Boolean).join(", ")));
    for (const warning of video.warnings || []) this.details.append(h("p", { class: "quiet" }, warning));
  }

  button(text, action, kind) {
    return h("button", { type: "button", class: kind, onclick: async (e) => {
      const b = e.currentTarget;
      b.disabled = true;
      this.querySelector(":scope > .error")?.remove();
      try { await action(); } catch (error) { this.actions.after(failure(error)); } finally { b.disabled = false; }
    } }, text);
  }

  async showActions() {
    const v = this.video, id = this.dataset.id;
    const show = (made) => this.dispatchEvent(new CustomEvent("clip-again", { bubbles: true, detail: made }));
    const again = async (fields) => show(await api.remix(id, { prompt: v.prompt, ...fields }));
    if (running(v)) return this.actions.replaceChildren(this.button("Cancel", () => api.cancel(id)));
    const buttons = [];
    const { tasks, extensions, history_frames } = await api.capabilities();
    if (v.status === "completed") {
      buttons.push(api.hasKey()
        ? this.button("Download", async () => h("a", { href: await api.source(api.contentPath(id)), download: `${id}.mp4` }).click())
        : h("a", { class: "button", href: api.contentPath(id), download: `${id}.mp4` }, "Download"));
      if (extensions && v.frames >= history_frames)
        buttons.push(this.button("Extend", async () => { const more = await extendDialog(v.prompt); if (more) show(await api.extend(id, more)); }));
      if (tasks.includes("fl2va"))
        buttons.push(this.button("Use last frame", async () =>
          this.dispatchEvent(new CustomEvent("clip-frame", { bubbles: true, detail: await lastFrame(api.contentPath(id), v.fps) }))));
    }
    if (v.prompt) buttons.push(this.button("Make again", () => again({})), this.button("Vary", () => again({ seed: randomSeed() })));
    if (this.hasAttribute("removable"))
      buttons.push(this.button("Delete", async () => { if (await confirmDialog("Delete this video and its files?", "Delete")) await api.remove(id), this.dispatchEvent(new CustomEvent("clip-deleted", { bubbles: true })); }));
    this.actions.replaceChildren(...buttons);
  }
}
customElements.define("zt-clip", Clip);
