// <zt-drop>: files by drag and drop, from the clipboard or by choosing; shows what it holds. Attributes: label, accept, max.
import { h, megabytes } from "./ui.js";

class Drop extends HTMLElement {
  files = [];
  urls = [];

  connectedCallback() {
    const many = this.max > 1;
    this.input = h("input", { type: "file", id: `${this.id}-input`, accept: this.getAttribute("accept"), multiple: many, onchange: () => this.add([...this.input.files]) });
    this.list = h("ul", { class: "held" });
    this.note = h("p", { class: "error", role: "alert" });
    this.replaceChildren(
      h("label", { class: "drop" }, h("strong", {}, this.getAttribute("label")), h("span", {}, many ? "drop files here, or choose" : "drop a picture, or choose"), this.input),
      this.list, this.note);
    for (const name of ["dragenter", "dragover"])
      this.addEventListener(name, (e) => { e.preventDefault(); this.classList.add("over"); });
    for (const name of ["dragleave", "drop"]) this.addEventListener(name, () => this.classList.remove("over"));
    this.addEventListener("drop", (e) => { e.preventDefault(); this.add([...e.dataTransfer.files]); });
    this.show();
  }
  disconnectedCallback() { this.release(); }

  get max() { return Number(this.getAttribute("max") || 1); }

  add(files) {
    this.note.textContent = "";
    const kinds = this.getAttribute("accept").split(",").map((k) => k.replace("/*", "/"));
    const right = files.filter((f) => kinds.some((k) => f.type.startsWith(k)));
    if (right.length < files.length) this.note.textContent = `${files.length - right.length} left out: wanted ${this.getAttribute("accept")}`;
    if (right.length === 0) return;
    const all = this.max === 1 ? right : [...this.files, ...right];
    if (all.length > this.max) this.note.textContent = `at most ${this.max}`;
    this.set(all.slice(0, this.max));
  }
  set(files) {
    this.files = files;
    this.input.value = "";
    this.show();
    this.dispatchEvent(new Event("change", { bubbles: true }));
  }
  release() {
    this.urls.forEach((u) => URL.revokeObjectURL(u));
    this.urls = [];
  }
  show() {
    this.release();
    this.list.replaceChildren(...this.files.map((file, i) => {
      const picture = file.type.startsWith("image/");
      if (picture) this.urls.push(URL.createObjectURL(file));
      return h("li", {}, picture ? h("img", { src: this.urls.at(-1), alt: "" }) : h("span", { class: "kind" }, file.type.split("/")[0]),
        h("span", { class: "name" }, `${this.max > 1 ? `${i + 1}. ` : ""}${file.name}`, h("small", {}, megabytes(file.size))),
        h("button", { type: "button", "aria-label": `Remove ${file.name}`, onclick: () => this.set(this.files.filter((f) => f !== file)) }, "✕"));
    }));
  }
}
customElements.define("zt-drop", Drop);
