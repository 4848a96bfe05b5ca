// <zt-blind>: pairs of clips of one request that were made in two ways, shown without saying which is which; votes, and what they say.
import * as api from "./api.js";
import { failure, h } from "./ui.js";

const way = (v) => `plan ${v.plan}, ${v.evaluations} evaluations`;
const percent = (x) => `${(100 * x).toFixed(0)} %`;

// Every two finished clips of the same words, seed and shape that differ in how they were made, in a random order and on random sides.
function pairsOf(videos) {
  const groups = Map.groupBy(videos.filter((v) => v.task === "t2va"), (v) => [v.seed, v.size, v.frames, v.prompt].join("|"));
  const pairs = [];
  for (const group of groups.values())
    group.forEach((a, i) => group.slice(i + 1).filter((b) => way(a) !== way(b)).forEach((b) => pairs.push(Math.random() < 0.5 ? [a, b] : [b, a])));
  for (let i = pairs.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [pairs[i], pairs[j]] = [pairs[j], pairs[i]];
  }
  return pairs;
}

class Blind extends HTMLElement {
  async connectedCallback() {
    this.replaceChildren(h("h1", {}, "Blind test"), h("p", { class: "quiet" }, "…"));
    try {
      this.pairs = pairsOf((await api.json("/v1/videos?status=completed&limit=100")).data);
      this.build();
      this.showResult((await api.json("/v1/votes")).data);
    } catch (e) {
      this.replaceChildren(h("h1", {}, "Blind test"), failure(e));
    }
  }
  disconnectedCallback() {
    for (const p of this.players || []) p.removeAttribute("src"), p.load();
  }

  build() {
    this.test = h("div");
    this.problem = h("div");
    this.result = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Votes so far" });
    this.replaceChildren(h("h1", {}, "Blind test"),
      h("p", { class: "quiet" }, "The same prompt and seed, made in two ways. Look at both, then say which is better. ", h("a", { href: "#compare" }, "Compare with names")),
      this.test, this.problem, h("details", {}, h("summary", {}, "What the votes say (better looked at afterwards)"), this.result));
    this.next();
  }

  next() {
    const pair = this.pair = this.pairs.pop();
    if (!pair)
      return this.test.replaceChildren(h("p", {}, "No pair is left. Make the same prompt and seed with other evaluations, or with the server under another plan, then come back."));
    this.seen = [false, false];
    const sides = ["Left", "Right"];
    this.players = sides.map((side) => h("video", { playsinline: true, preload: "auto", "aria-label": `${side} clip` }));
    this.players.forEach((p, i) => p.addEventListener("ended", () => {
      this.seen[i] = true;
      if (this.seen[0] && this.seen[1]) this.choices.forEach((b) => { b.disabled = false; });
    }));
    const play = (which) => this.players.forEach((p, i) => {
      p.pause();
      if (!which.includes(i)) return;
      p.muted = which.length > 1 && i > 0;   // of both, the sound of the left
      p.currentTime = 0;
      p.play().catch(() => {});
    });
    const button = (text, onclick) => h("button", { type: "button", onclick }, text);
    this.choices = [["Left is better", 0], ["No difference", -1], ["Right is better", 1]].map(([text, side]) => button(text, () => this.vote(side)));
    this.choices.forEach((b) => { b.disabled = true; });
    this.test.replaceChildren(h("p", {}, pair[0].prompt),
      h("div", { class: "two" }, ...this.players.map((p, i) => {
        const screen = h("div", { class: "screen" }, p);
        screen.style.setProperty("--shape", `${pair[i].width} / ${pair[i].height}`);
        return screen;
      })),
      h("div", { class: "row choices" }, button("Play the left", () => play([0])), button("Play both", () => play([0, 1])), button("Play the right", () => play([1]))),
      h("div", { class: "row choices" }, ...this.choices),
      h("p", { class: "quiet" }, `${this.pairs.length} more`));
    Promise.all(pair.map((v) => api.source(api.contentPath(v.id)))).then((urls) => this.players.forEach((p, i) => { p.src = urls[i]; }), (e) => this.problem.replaceChildren(failure(e)));
  }

  async vote(side) {
    this.problem.replaceChildren();
    this.choices.forEach((b) => { b.disabled = true; });
    const [a, b] = this.pair;
    try {
      this.showResult((await api.post("/v1/votes", { a: a.id, b: b.id, choice: side < 0 ? "same" : "ab"[side] })).data);
      this.next();
    } catch (e) {
      this.choices.forEach((button) => { button.disabled = false; });
      this.problem.replaceChildren(failure(e));
    }
  }

  showResult(counts) {
    if (!counts.length) return this.result.replaceChildren(h("p", { class: "quiet" }, "nobody has voted yet"));
    const heads = ["A", "B", "votes", "A better", "B better", "no difference", "share of A, 95 % interval", "verdict"];
    const verdict = (c) => (c.verdict === "none" ? "no difference shown" : `${c.verdict.toUpperCase()} is preferred`);
    this.result.replaceChildren(h("table", {}, h("thead", {}, h("tr", {}, ...heads.map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, ...counts.map((c) => h("tr", {}, ...[c.a, c.b, c.votes, c.a_better, c.b_better, c.same, `${percent(c.a_share)} (${percent(c.low)} to ${percent(c.high)})`, verdict(c)].map((x) => h("td", {}, String(x))))))),
      h("p", { class: "quiet" }, "“No difference” counts half for each. The interval is Wilson's; while it holds 50 %, no difference is shown."));
  }
}
customElements.define("zt-blind", Blind);
