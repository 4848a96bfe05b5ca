// Shows the page that the address names: #create, #jobs, #jobs/ID, #live, #live/ID, #compare, #blind, #system.
import "./blind.js";
import "./compare.js";
import "./create.js";
import "./jobs.js";
import "./live.js";
import "./system.js";

const kPages = { create: "zt-create", live: "zt-live", jobs: "zt-jobs", compare: "zt-compare", blind: "zt-blind", system: "zt-system" };
const kTitles = { create: "Create", live: "Live", jobs: "Jobs", compare: "Compare", blind: "Blind test", system: "System" };
const main = document.getElementById("main");
let first = true;

function show() {
  const [name, id] = location.hash.slice(1).split("/");
  if (name === "main") return main.focus();
  const page = kPages[name] ? name : "create";
  document.title = `${kTitles[page]} · Zoetrope`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${page}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const element = document.createElement(kPages[page]);
  if (id) element.dataset.id = id;
  main.replaceChildren(element);
  if (!first) main.focus({ preventScroll: true }), scrollTo(0, 0);
  first = false;
}

addEventListener("hashchange", show);
show();
