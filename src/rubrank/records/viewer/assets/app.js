// The page: what is looked at follows the address, and is looked at again while records are being written.

import { readAddress, writeAddress } from "./address.js";
import { get } from "./api.js";
import { drawCompare } from "./compare.js";
import { byId, choice, h, replaceChildren, setUpTheme } from "./dom.js";
import { Groups } from "./groups.js";
import { setUpKeys } from "./keys.js";
import { count, percent, plural } from "./numbers.js";
import { drawSteps } from "./steps.js";

const EVERY = 2000; // milliseconds between looks
const VIEWS = [["steps", "Steps"], ["groups", "Groups"], ["compare", "Compare runs"]];

class App {
  constructor() {
    this.address = readAddress(location.hash);
    this.runs = [];
    this.rules = [];
    this.live = true;
    this.fail = (error) => this.say(error);
  }

  get run() {
    return this.runs[this.address.run] || this.runs[0];
  }

  async start() {
    setUpTheme(byId("theme"));
    await this.look();
    this.groups = new Groups(byId("groups"), this);
    setUpKeys(this);
    const live = byId("live");
    live.addEventListener("click", () => { this.live = !this.live; live.setAttribute("aria-pressed", String(this.live)); live.textContent = this.live ? "Live" : "Still"; });
    addEventListener("hashchange", () => { this.address = readAddress(location.hash); this.show().catch(this.fail); });
    await this.show();
    document.documentElement.dataset.ready = Math.round(performance.now());
    setTimeout(() => this.keepLooking(), EVERY);
  }

  async look() {
    const { runs, rules } = await get("state");
    this.runs = runs;
    this.rules = rules;
    if (this.address.run >= runs.length) this.address.run = 0;
    const problems = runs.filter((run) => run.problem).map((run) => run.problem);
    const broken = runs.filter((run) => run.unreadable).map((run) => `${run.name}: ${count(run.unreadable)} lines are not records (the first: line ${run.unreadable_first[0][0] + 1}, ${run.unreadable_first[0][1]})`);
    this.say([...problems, ...broken].join(". "));
  }

  async keepLooking() {
    try {
      if (this.live && !document.hidden) {
        const before = JSON.stringify(this.runs.map((run) => [run.version, run.epoch]));
        await this.look();
        this.drawProgress();
        if (before !== JSON.stringify(this.runs.map((run) => [run.version, run.epoch]))) await this.show(true);
        document.documentElement.dataset.looked = String(Number(document.documentElement.dataset.looked || 0) + 1);
      }
    } catch (error) {
      this.say(error);
    }
    setTimeout(() => this.keepLooking(), EVERY);
  }

  /** Change what is looked at; `quietly`: the way back does not lead through it. */
  async navigate(changes, quietly) {
    this.address = { ...this.address, ...changes };
    for (const [key, value] of Object.entries(this.address)) if (value === undefined || value === "") delete this.address[key];
    const hash = writeAddress(this.address);
    if (quietly) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    await this.show().catch(this.fail);
  }

  async show(again) {
    const { view } = this.address;
    this.drawNav();
    this.drawProgress();
    if (this.view !== undefined && this.view !== view) scrollTo(0, 0);
    this.view = view;
    for (const [name] of VIEWS) byId(name).hidden = name !== view;
    if (view === "groups") return this.groups.show(again);
    const curves = await get("curves");
    if (view === "compare") return drawCompare(byId("compare"), curves, this);
    return drawSteps(byId("steps"), curves[this.address.run], this.run, (changes) => this.navigate(changes));
  }

  drawProgress() {
    const { name, groups, ready, scanned } = this.run;
    document.title = `rubrank view: ${name}`;
    byId("progress").textContent = [!scanned && "scanning", ready < groups && `read ${percent(ready / groups)}`, plural(groups, "group")].filter(Boolean).join(", ");
  }

  drawNav() {
    const { view, run } = this.address, several = this.runs.length > 1;
    const links = VIEWS.filter(([name]) => several || name !== "compare").map(([name, title]) =>
      h("a", { href: writeAddress({ ...this.address, view: name }), "aria-current": name === view ? "true" : null }, title));
    const which = several && choice("Run", this.runs.map((one, i) => [String(i), one.name]), String(run), (value) => this.navigate({ run: Number(value), group: undefined, rollout: undefined, step: undefined }));
    replaceChildren(byId("nav"), links, which);
  }

  say(problem) {
    const place = byId("problem"), text = problem instanceof Error ? problem.message : problem;
    place.hidden = !text;
    place.textContent = text || "";
  }
}

new App().start().catch((error) => { const place = byId("problem"); place.hidden = false; place.textContent = `This page cannot be shown: ${error.message}`; });
