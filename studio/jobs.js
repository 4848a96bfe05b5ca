// <zt-jobs>: what was asked for, newest first. data-id opens one of them.
import * as api from "./api.js";
import "./clip.js";
import { handOver } from "./create.js";
import { confirmDialog, failure, h, running, seconds, stateName, stateOf, when } from "./ui.js";

const kPage = 24;
const kFilters = { "": "all", queued: "waiting", in_progress: "being made", completed: "done", failed: "failed", cancelled: "cancelled" };

class Jobs extends HTMLElement {
  connectedCallback() {
    this.cards = new Map();
    this.known = new Map();
    this.filter = h("select", { id: "filter", onchange: () => this.reload() }, ...Object.entries(kFilters).map(([v, t]) => h("option", { value: v }, t)));
    this.search = h("input", { type: "search", id: "search", placeholder: "words of the prompt", oninput: () => this.sift() });
    this.problem = h("div");
    this.list = h("ul", { class: "cards" });
    this.empty = h("p", { class: "quiet", hidden: true }, "Nothing here yet. ", h("a", { href: "#create" }, "Create a clip"));
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.load(this.last) }, "Show older ones");
    this.replaceChildren(h("h1", {}, "Jobs"),
      h("div", { class: "row filters" }, h("label", { for: "filter" }, "Show"), this.filter, h("label", { for: "search" }, "with"), this.search),
      this.problem, this.empty, this.list, this.more);
    this.addEventListener("clip-again", (e) => { location.hash = `#jobs/${e.detail.id}`; });
    this.addEventListener("clip-frame", (e) => handOver(e.detail));
    this.reload().then(() => { if (this.dataset.id && this.isConnected) this.open(this.dataset.id); });
    this.timer = setInterval(() => { if (!document.hidden) this.refresh(); }, 1500);
  }
  disconnectedCallback() { clearInterval(this.timer); }

  async reload() {
    this.cards.clear(), this.known.clear();
    this.list.replaceChildren();
    await this.load();
  }
  async page(after) {
    const query = new URLSearchParams({ limit: kPage });
    if (this.filter.value) query.set("status", this.filter.value);
    if (after) query.set("after", after);
    return api.json(`/v1/videos?${query}`);
  }
  async load(after) {
    try {
      const page = await this.page(after);
      this.problem.replaceChildren();
      for (const video of page.data) this.show(video, false);
      this.last = page.last_id;
      this.more.hidden = !page.has_more;
    } catch (e) {
      this.problem.replaceChildren(failure(e));
    }
    this.sift();
  }
  // What is new or was still open; ended jobs do not change.
  async refresh() {
    if (this.busy) return;
    this.busy = true;
    try {
      const page = await this.page();
      for (const video of [...page.data].reverse()) this.show(video, !this.cards.has(video.id));
      const seen = new Set(page.data.map((v) => v.id));
      for (const [id, video] of this.known) if (running(video) && !seen.has(id)) await this.again(id);
      this.problem.replaceChildren();
    } catch (e) {
      this.problem.replaceChildren(failure(e));
    } finally {
      this.busy = false;
    }
    this.sift();
  }
  async again(id) {
    try {
      this.show(await api.video(id), false);
    } catch (e) {
      if (e.status === 404) this.drop(id);
      else throw e;
    }
  }
  drop(id) {
    this.cards.get(id)?.remove();
    this.cards.delete(id), this.known.delete(id);
  }
  sift() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const [id, card] of this.cards) {
      const text = this.known.get(id).prompt.toLowerCase();
      card.hidden = !words.every((w) => text.includes(w));
      shown += !card.hidden;
    }
    this.empty.hidden = shown > 0;
  }

  show(video, first) {
    const old = this.known.get(video.id);
    this.known.set(video.id, video);
    if (old && old.status === video.status && old.progress === video.progress) return;
    const card = this.card(video), before = this.cards.get(video.id);
    if (before) {
      const focused = before.contains(document.activeElement) ? document.activeElement.dataset.action : null;
      before.replaceWith(card);
      if (focused) (card.querySelector(`[data-action=${focused}]`) || card.querySelector("button, a"))?.focus();
    } else if (first) this.list.prepend(card);
    else this.list.append(card);
    this.cards.set(video.id, card);
  }

  card(video) {
    const title = video.prompt || "(no prompt)", state = stateOf(video);
    const picture = h("div", { class: "thumb" });
    if (state === "completed") {
      const image = h("img", { alt: "", loading: "lazy" });
      api.source(api.contentPath(video.id, "thumbnail")).then((url) => { image.src = url; }, () => image.remove());
      picture.append(image);
    } else picture.append(h("span", {}, stateName(video)));
    const act = (name, text, action) => h("button", { type: "button", "data-action": name, "aria-label": `${text}: ${title.slice(0, 60)}`, onclick: async (e) => {
      e.currentTarget.disabled = true;
      try { await action(); } catch (error) { this.problem.replaceChildren(failure(error)); }
      await this.refresh();
    } }, text);
    const buttons = [h("a", { class: "button", href: `#jobs/${video.id}`, "data-action": "open", "aria-label": `Open: ${title.slice(0, 60)}` }, "Open")];
    if (running(video)) buttons.push(act("cancel", "Cancel", () => api.cancel(video.id)));
    if (state === "completed" && !api.hasKey()) buttons.push(h("a", { class: "button", href: api.contentPath(video.id), download: `${video.id}.mp4`, "aria-label": `Download: ${title.slice(0, 60)}` }, "Download"));
    buttons.push(act("delete", "Delete", async () => {
      if (!(await confirmDialog("Delete this video and its files?", "Delete"))) return;
      await api.remove(video.id);
      this.drop(video.id);
      this.filter.focus();
    }));
    const facts = [stateName(video)];   // a job that came past the API has no more to say until it is done
    if (video.width) facts.push(`${video.width}×${video.height}`);
    if (video.duration_seconds) facts.push(seconds(video.duration_seconds));
    if (video.seed !== undefined) facts.push(`seed ${video.seed}`);
    if (state === "completed") facts.push(`made in ${seconds(video.inference_time_s)}`);
    return h("li", { class: `card ${state}` }, picture,
      h("div", { class: "body" }, h("p", { class: "title" }, title), h("p", { class: "quiet" }, `${when(video.created_at)} · ${facts.join(" · ")}`),
        running(video) && h("progress", { max: 100, value: video.progress, "aria-label": `Progress of ${title.slice(0, 60)}` }),
        state === "failed" && h("p", { class: "error" }, video.error?.message), h("div", { class: "row" }, ...buttons)));
  }

  async open(id) {
    const clip = h("zt-clip", { removable: true });
    clip.dataset.id = id;
    const request = h("pre", { tabindex: 0, "aria-label": "The request as the server keeps it" }, "…");
    const dialog = h("dialog", { class: "wide", "aria-label": "The video and its request" },
      h("div", { class: "row spread" }, h("h2", {}, "Video"), h("button", { type: "button", onclick: () => dialog.close() }, "Close")),
      h("p", { class: "title" }), clip, h("details", {}, h("summary", {}, "The request and what became of it"), request));
    const tell = (video) => { dialog.querySelector(".title").textContent = video.prompt; request.textContent = JSON.stringify(video, null, 2); };
    clip.addEventListener("clip-made", (e) => tell(e.detail));
    clip.addEventListener("clip-deleted", () => { this.drop(id); dialog.close(); });
    dialog.addEventListener("close", () => { dialog.remove(); if (location.hash === `#jobs/${id}`) history.replaceState(null, "", "#jobs"); });
    api.video(id).then(tell, () => {});
    this.append(dialog);
    dialog.showModal();
  }
}
customElements.define("zt-jobs", Jobs);
