// The page: what is shown follows the address, and is drawn again while records are being written.

import { readAddress, writeAddress } from "./address.js";
import { drawCompare } from "./compare.js";
import { openData } from "./data.js";
import { byId, choice, h, replaceChildren, setUpTheme } from "./dom.js";
import { GroupBrowser } from "./groups.js";
import { setUpKeys } from "./keys.js";
import { count, percent, plural } from "./numbers.js";
import { drawSteps } from "./steps.js";
import { drawSummary } from "./summary.js";

const LOOK_EVERY = 2000; // milliseconds
const VIEWS = [["summary", "Summary"], ["steps", "Steps"], ["groups", "Groups"], ["compare", "Compare runs"]];
const TABLES = ["rules", "criteria_sets"]; // of the index, which columns point into

class App {
  constructor(data) {
    this.data = data;
    this.address = readAddress(location.hash);
    this.runs = [];
    this.rules = [];
    this.rows = null; // the index of the chosen run, one list per column
    this.rowsOf = ""; // run and epoch that they belong to
    this.isFollowing = data.isLive;
    this.fail = (error) => this.say(error);
  }

  get run() {
    return this.runs[this.address.run] || this.runs[0];
  }

  /** A report opens with its summary, a run that is being written with its steps. */
  get view() {
    return this.address.view || (this.data.isLive && this.run.steps.length > 1 ? "steps" : this.data.isLive ? "groups" : "summary");
  }

  async start() {
    setUpTheme(byId("theme"));
    await this.look();
    this.browser = new GroupBrowser(byId("groups"), this);
    setUpKeys(this);
    this.setUpLive();
    addEventListener("hashchange", () => {
      this.address = readAddress(location.hash);
      this.show().catch(this.fail);
    });
    await this.show();
    document.documentElement.dataset.ready = Math.round(performance.now());
    if (this.data.isLive) setTimeout(() => this.keepLooking(), LOOK_EVERY);
  }

  setUpLive() {
    const button = byId("live");
    button.hidden = !this.data.isLive;
    button.addEventListener("click", () => {
      this.isFollowing = !this.isFollowing;
      button.setAttribute("aria-pressed", String(this.isFollowing));
      button.textContent = this.isFollowing ? "Live" : "Still";
    });
  }

  /** Ask how far the runs are, and fetch new rows of the index. */
  async look() {
    const { runs, rules, title } = await this.data.state();
    this.runs = runs;
    this.rules = rules;
    this.title = title;
    if (this.address.run >= runs.length) this.address.run = 0;
    const problems = runs.filter((run) => run.problem).map((run) => run.problem);
    const unreadable = runs.filter((run) => run.unreadable).map((run) => {
      const [line, why] = run.unreadable_first[0];
      return `${run.name}: ${count(run.unreadable)} lines are not records (the first: line ${line + 1}, ${why})`;
    });
    this.say([...problems, ...unreadable].join(". "));
    await this.readRows();
  }

  async readRows() {
    const rowsOf = `${this.address.run}|${this.run.epoch}`;
    if (this.rowsOf !== rowsOf) {
      this.rows = null;
      this.rowsOf = rowsOf;
    }
    const start = this.rows ? this.rows.id.length : 0;
    if (this.rows && start >= this.run.ready) return;
    const more = await this.data.index(this.address.run, start);
    if (!more || this.rowsOf !== rowsOf) return;
    if (!this.rows) this.rows = more;
    else if (more.start === this.rows.id.length) appendRows(this.rows, more);
  }

  async keepLooking() {
    try {
      if (this.isFollowing && !document.hidden) {
        const before = this.versions();
        await this.look();
        this.drawProgress();
        if (before !== this.versions()) await this.show();
        document.documentElement.dataset.looked = String(Number(document.documentElement.dataset.looked || 0) + 1);
      }
    } catch (error) {
      this.say(error);
    }
    setTimeout(() => this.keepLooking(), LOOK_EVERY);
  }

  versions() {
    return JSON.stringify(this.runs.map((run) => [run.version, run.epoch]));
  }

  /** Change what is shown. quietly: without a step in the browser's history. */
  async navigate(changes, quietly) {
    this.address = { view: this.view, ...this.address, ...changes };
    for (const [key, value] of Object.entries(this.address)) if (value === undefined || value === "") delete this.address[key];
    const hash = writeAddress(this.address);
    if (quietly) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    await this.show().catch(this.fail);
  }

  async show() {
    const { view } = this;
    await this.readRows();
    this.drawNavigation();
    this.drawProgress();
    if (this.shownView !== undefined && this.shownView !== view) scrollTo(0, 0);
    this.shownView = view;
    for (const [name] of VIEWS) byId(name).hidden = name !== view;
    if (view === "groups") return this.browser.show();
    if (view === "summary") {
      const showGroups = (filter) => this.navigate({ view: "groups", group: undefined, rollout: undefined, ...filter });
      return drawSummary(byId("summary"), await this.data.summary(this.address.run), showGroups);
    }
    const curves = await this.data.curves();
    if (view === "compare") return drawCompare(byId("compare"), curves, this);
    return drawSteps(byId("steps"), curves[this.address.run], this.run, (changes) => this.navigate(changes));
  }

  drawProgress() {
    const { name, groups, ready } = this.run;
    const title = this.title || `rubrank view: ${name}`;
    document.title = title;
    byId("title").textContent = title;
    byId("progress").textContent = [ready < groups && `read ${percent(ready / groups)}`, plural(groups, "group")].filter(Boolean).join(", ");
  }

  drawNavigation() {
    const isCompared = this.runs.length > 1;
    const links = VIEWS.filter(([name]) => isCompared || name !== "compare").map(([name, title]) =>
      h("a", { href: writeAddress({ ...this.address, view: name }), "aria-current": name === this.view ? "true" : null }, title));
    const runChoice = isCompared && choice("Run", this.runs.map((run, i) => [String(i), run.name]), String(this.address.run),
      (value) => this.navigate({ run: Number(value), group: undefined, rollout: undefined, step: undefined }));
    replaceChildren(byId("nav"), links, runChoice);
  }

  say(problem) {
    const place = byId("problem"), text = problem instanceof Error ? problem.message : problem;
    place.hidden = !text;
    place.textContent = text || "";
    if (problem instanceof Error) console.error(problem);
  }
}

/** Add new rows at the end of every column. */
function appendRows(rows, more) {
  for (const [name, values] of Object.entries(more)) {
    if (TABLES.includes(name)) rows[name] = values;
    else if (Array.isArray(values)) rows[name] = rows[name].concat(values);
  }
}

openData().then((data) => new App(data).start()).catch((error) => {
  const place = byId("problem");
  place.hidden = false;
  place.textContent = `This page cannot be shown: ${error.message}. It needs a browser of 2024 or later.`;
  console.error(error);
});
