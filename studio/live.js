// <zt-live>: the live channels, or with data-id one of them: it plays, is steered, and shows how far ahead it is.
import * as api from "./api.js";
import { confirmDialog, countWaits, failure, h, plot, randomSeed, seconds, stageBar } from "./ui.js";

const kStatus = { starting: "builds its lead", playing: "plays", waiting: "waits for a viewer", paused: "paused", stopped: "ended", failed: "failed" };
const kKept = 10;       // seconds of the past that stay in the player
const kShown = 120;     // samples of a plot, about one a second

const open = (fields) => api.post("/v1/live", fields);
const field = (label, id, ...rest) => h("div", { class: "field" }, h("label", { for: id }, label), ...rest);

// RFC 6381: the profile and level that the index of the stream names.
function codecs(bytes) {
  for (let i = 0; i + 8 < bytes.length; i++)
    if (bytes[i] === 0x61 && bytes[i + 1] === 0x76 && bytes[i + 2] === 0x63 && bytes[i + 3] === 0x43)   // "avcC"
      return `video/mp4; codecs="avc1.${[...bytes.slice(i + 5, i + 8)].map((b) => b.toString(16).padStart(2, "0")).join("")}, mp4a.40.2"`;
  return null;
}

// Feeds a player from a stream of fragments, from the live edge on, and lets go of what is past; `fed` is called after each. Ends with `signal`.
async function feed(player, path, signal, fed) {
  const source = new MediaSource(), url = URL.createObjectURL(source);
  player.src = url;
  await new Promise((ready) => source.addEventListener("sourceopen", ready, { once: true }));
  URL.revokeObjectURL(url);
  const reader = (await api.call(path, { signal })).body.getReader();
  let buffer = null, begin = new Uint8Array();
  const done = (action) => new Promise((ok, failed) => {
    buffer.addEventListener("updateend", ok, { once: true });
    buffer.addEventListener("error", () => failed(new Error("this browser cannot play the stream")), { once: true });
    action();
  });
  for (;;) {
    const { done: ended, value } = await reader.read();
    if (ended || signal.aborted) break;
    let bytes = value;
    if (!buffer) {
      const joined = new Uint8Array(begin.length + value.length);
      joined.set(begin), joined.set(value, begin.length);
      const type = codecs(begin = bytes = joined);
      if (!type) continue;
      buffer = source.addSourceBuffer(type);
    }
    await done(() => buffer.appendBuffer(bytes));
    if (signal.aborted) break;
    const there = player.buffered;
    if (there.length && player.currentTime < there.start(0)) player.currentTime = there.start(0);
    if (there.length && player.currentTime - there.start(0) > 2 * kKept) await done(() => buffer.remove(0, player.currentTime - kKept));
    fed();
  }
  if (!signal.aborted && source.readyState === "open") source.endOfStream();
}

class Live extends HTMLElement {
  async connectedCallback() {
    this.abort = new AbortController();
    this.replaceChildren(h("h1", {}, "Live"), h("p", { class: "quiet" }, "…"));
    try {
      this.can = await api.capabilities();
      if (this.dataset.id) return this.buildOne(await api.json(`/v1/live/${this.dataset.id}`));
      this.buildAll((await api.json("/v1/live")).data);
    } catch (e) {
      this.replaceChildren(h("h1", {}, "Live"), failure(e), this.dataset.id && h("p", {}, h("a", { href: "#live" }, "All channels")));
    }
  }
  disconnectedCallback() {
    this.abort.abort();
    this.leave();
  }

  buildAll(channels) {
    const prompt = h("textarea", { id: "live-prompt", rows: 3, required: true, maxlength: this.can.limits.prompt_characters, placeholder: "What the channel shows, and what is to be heard" });
    const evaluations = h("input", { type: "number", id: "live-evaluations", min: 1, max: 1000, value: 8, required: true, "aria-describedby": "live-evaluations-help" });
    const problem = h("div"), submit = h("button", { class: "primary" }, "Open the channel");
    const form = h("form", { onsubmit: async (e) => {
      e.preventDefault();
      problem.replaceChildren();
      submit.disabled = true;
      try {
        location.hash = `#live/${(await open({ prompt: prompt.value, evaluations: Number(evaluations.value), seed: randomSeed() })).id}`;
      } catch (error) {
        problem.replaceChildren(failure(error));
      } finally {
        submit.disabled = false;
      }
    } }, field("Prompt", "live-prompt", prompt),
      field("Evaluations", "live-evaluations", evaluations, h("small", { id: "live-evaluations-help" }, "few are fast; with too many the channel takes fewer by itself")),
      problem, h("div", { class: "row" }, submit));
    const list = h("section", { "aria-label": "Open channels" }, h("h2", {}, "Open channels"),
      channels.length ? h("ul", { class: "channels" }, ...channels.map((c) => h("li", {}, h("a", { href: `#live/${c.id}` }, c.prompt || "(no prompt)"), ` ${kStatus[c.status] || c.status}, ${seconds(c.made_seconds)} made`)))
        : h("p", { class: "quiet" }, "none: video with sound that goes on until you end it, and whose prompt you change while it plays."));
    this.replaceChildren(h("h1", {}, "Live"), h("div", { class: "columns" }, form, list));
  }

  buildOne(channel) {
    this.samples = [];
    this.player = h("video", { controls: true, playsinline: true, "aria-label": "The channel" });
    countWaits(this.player);
    this.words = h("p", { class: "status", role: "status" });
    this.rung = h("p", { class: "quiet" });
    this.plots = h("div", { class: "plots" });
    this.stages = h("div");
    this.problem = h("div");
    this.prompt = h("textarea", { id: "live-prompt", rows: 4, required: true, maxlength: this.can.limits.prompt_characters, value: channel.prompt });
    this.said = h("ol", { class: "said", "aria-label": "What the channel was told" });
    this.hold = h("button", { type: "button", onclick: () => this.change({ paused: this.channel.status !== "paused" }) }, "Pause");
    const path = `/v1/live/${channel.id}`;
    const end = h("button", { type: "button", class: "danger", onclick: async () => {
      if (await confirmDialog("End this channel for all who watch?", "End it")) await this.tried(() => api.json(path, { method: "DELETE" })) && (location.hash = "#live");
    } }, "End");
    const form = h("form", { onsubmit: (e) => { e.preventDefault(); this.steer(); } },
      field("What comes next", "live-prompt", this.prompt),
      h("div", { class: "row" }, h("button", { class: "primary" }, "Go on with this"), this.hold, end), this.problem,
      h("h3", {}, "Told so far"), this.said);
    form.addEventListener("keydown", (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) form.requestSubmit(); });
    this.replaceChildren(h("h1", {}, "Live"), h("div", { class: "columns" },
      h("section", { "aria-label": "The channel" }, h("div", { class: "screen filled" }, this.player), this.words, this.rung, this.plots,
        h("h3", {}, "Where the time of the last segment went"), this.stages), form),
      h("p", { class: "quiet" }, "Elsewhere: ", h("code", {}, new URL(channel.hls_url, location).href), " (HLS) · ", h("a", { href: "#live" }, "all channels")));
    this.show(channel);
    this.tell(channel.prompt, 0);
    this.player.addEventListener("loadedmetadata", () => this.querySelector(".screen").style.setProperty("--shape", `${this.player.videoWidth} / ${this.player.videoHeight}`));
    // A paused player leaves the channel; played again, it joins at the live edge.
    this.player.addEventListener("pause", () => { if (!this.player.ended && !this.player.seeking) this.leave(); });
    this.player.addEventListener("play", () => { if (!this.watching) this.join(); });
    this.join();
    api.follow(`${path}/events`, (name, data) => this.show(data), this.abort.signal).catch((e) => { if (!this.abort.signal.aborted) this.problem.replaceChildren(failure(e)); });
  }

  join() {
    const watching = this.watching = new AbortController();
    this.starting = true;
    feed(this.player, this.channel.stream_url, watching.signal, () => this.maybeStart())
      .catch((e) => { if (!watching.signal.aborted) this.problem.replaceChildren(failure(e)); })
      .finally(() => { if (this.watching === watching) this.watching = null; });
  }
  // Once there is enough to wait for the segment after the next one, at the speed seen so far.
  maybeStart() {
    const p = this.player, c = this.channel, there = p.buffered, watching = this.watching;
    if (!this.starting || !watching || !there.length || !c.work_per_second) return;
    if (there.end(0) - p.currentTime < Math.min(2 * c.segment_seconds * c.work_per_second, 0.8 * Math.min(c.lead_target_seconds, 2))) return;
    this.starting = false;
    p.play().catch(() => { if (this.watching === watching) this.leave(); });   // a browser may want a click first
  }
  leave() {
    this.watching?.abort();
    this.watching = null;
  }

  async tried(action) {
    this.problem.replaceChildren();
    try {
      return await action() || true;
    } catch (e) {
      this.problem.replaceChildren(failure(e));
      return false;
    }
  }
  change(fields) {
    return this.tried(async () => this.show(await api.json(`/v1/live/${this.dataset.id}`, { method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) })));
  }
  async steer() {
    const prompt = this.prompt.value;
    if (prompt !== this.channel.prompt && await this.change({ prompt })) this.tell(prompt, this.channel.made_seconds);
  }
  tell(prompt, from) {
    this.said.prepend(h("li", {}, `${prompt} `, h("small", {}, from ? `from ${seconds(from)} on, seen in about ${seconds(this.channel.ready_seconds + this.channel.segment_seconds)}` : "now")));
    while (this.said.children.length > 20) this.said.lastChild.remove();
  }

  show(c) {
    this.channel = c;
    this.words.textContent = [kStatus[c.status] || c.status, c.viewers === 1 ? "one viewer" : `${c.viewers} viewers`, `${seconds(c.played_seconds)} played`, c.stalls ? `${c.stalls} stalls` : ""].filter(Boolean).join(" · ");
    if (c.error) this.words.replaceChildren(failure(c.error));
    this.rung.textContent = c.rung ? `This machine does not keep up: ${c.evaluations_now} evaluations instead of ${c.evaluations}.` : `${c.evaluations_now} evaluations`;
    this.hold.textContent = c.status === "paused" ? "Go on" : "Pause";
    this.hold.disabled = c.status === "stopped" || c.status === "failed";
    this.maybeStart();
    this.samples.push({ lead: c.lead_seconds, work: c.work_per_second });
    if (this.samples.length > kShown) this.samples.shift();
    this.plots.replaceChildren(
      plot("Lead over playback", this.samples.map((s) => s.lead), { mark: c.lead_target_seconds, unit: "s" }),
      plot("Work for a second of video", this.samples.map((s) => s.work), { mark: 1, unit: "s" }));
    if (JSON.stringify(c.stage_durations) !== this.shownStages) this.shownStages = JSON.stringify(c.stage_durations), this.stages.replaceChildren(stageBar(c.stage_durations));
  }
}
customElements.define("zt-live", Live);
