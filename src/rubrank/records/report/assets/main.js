// Contents, and the parts one after the other.

import { Browser } from "./browser.js";
import { drawCriteria } from "./criteria.js";
import { byId, h, replaceChildren, setUpTheme } from "./dom.js";
import { drawEvaluation } from "./evaluation.js";
import { drawAttributes, drawConflicts, drawGates, drawRules, drawSteps } from "./sections.js";
import { Store, unpack } from "./store.js";
import { drawSummary } from "./summary.js";

function drawContents(nav) {
  const sections = [...document.querySelectorAll("main > section")].filter((section) => !section.hidden);
  const links = new Map(sections.map((section) => [section, h("a", { href: `#${section.id}` }, section.dataset.nav || section.querySelector("h2").textContent)]));
  replaceChildren(nav, [...links.values()]);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) links.forEach((link, section) => (section === entry.target ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
    }
  }, { rootMargin: "-30% 0px -65% 0px" });
  sections.forEach((section) => seen.observe(section));
}

function fail(error) {
  const problem = byId("problem");
  problem.hidden = false;
  problem.textContent = `This report cannot be shown: ${error.message}. It needs a browser of 2024 or later.`;
  console.error(error);
}

async function start() {
  setUpTheme(byId("theme"));
  const [data, index] = await Promise.all([unpack(byId("data")), unpack(byId("index"))]);
  const store = new Store(index);
  let browser = null;
  const showGroups = (filter) => browser.show(filter);
  drawSummary(byId("summary"), data);
  drawCriteria(byId("criteria"), data, showGroups);
  drawConflicts(byId("conflicts"), { ...data.conflicts, all: data.overview.groups });
  drawAttributes(byId("attributes"), data.attributes);
  drawGates(byId("gates"), data.gates, showGroups);
  drawRules(byId("rules"), data.rules, showGroups);
  byId("steps").hidden = !drawSteps(byId("steps"), data.curves);
  byId("evaluation").hidden = !drawEvaluation(byId("evaluation"), data.evaluation);
  drawContents(byId("nav"));
  browser = new Browser(byId("groups"), store, data.criteria.rows.map((row) => row.name).sort(), fail);
  addEventListener("hashchange", () => browser.follow(location.hash));
  await (browser.follow(location.hash) || browser.choose(0)); // what was not chosen is not written into the address
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start().catch(fail);
