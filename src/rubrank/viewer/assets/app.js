// The page: it shows what the address says, and draws it again when records were added.

import { readAddress, writeAddress } from "./address.js";
import { drawCompare } from "./compare.js";
import { openData } from "./data.js";
import { byId, choice, h, replaceChildren, setUpTheme } from "./dom.js";
import { GroupBrowser } from "./groups.js";
import { setUpKeys } from "./keys.js";
import { count, percent, plural } from "./numbers.js";
import { drawEvaluation } from "./evaluation.js";
import { drawSteps } from "./steps.js";
import { drawSummary } from "./summary.js";

const LOOK_EVERY = 2000; // milliseconds
const VIEWS = [
  ["summary", "Summary"],
  ["steps", "Steps"],
  ["groups", "Groups"],
  ["compare", "Compare"],
  ["evaluation", "Benchmarks"],
];
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

  /** The views that have something to show. */
  get views() {
    const isShown = {
      summary: this.runs.length > 0,
      steps: this.runs.length > 0,
      groups: this.runs.length > 0,
      compare: this.runs.length > 1,
      evaluation: this.hasEvaluation,
    };
    return VIEWS.filter(([name]) => isShown[name]);
  }

  /** A report opens with its summary, a run that is being written with its steps. */
  get view() {
    const { view } = this.address;
    if (this.views.some(([name]) => name === view)) return view;
    if (!this.runs.length) return "evaluation";
    if (!this.data.isLive) return "summary";
    return this.run.steps.length > 1 ? "steps" : "groups";
  }

  async start() {
    setUpTheme(byId("theme"));
    new ResizeObserver(([top]) => {
      document.documentElement.style.setProperty("--top-height", `${top.target.offsetHeight}px`);
    }).observe(document.querySelector(".top"));
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
      button.textContent = this.isFollowing ? "Live" : "Paused";
    });
  }

  /** Ask how far the runs are, and fetch new rows of the index. */
  async look() {
    const { runs, rules, title, has_evaluation: hasEvaluation, labels } = await this.data.state();
    this.runs = runs;
    this.rules = rules;
    this.title = title;
    this.hasEvaluation = hasEvaluation;
    this.labels = labels; // {path, count} of the file that labels go to; undefined in a report
    if (this.address.run >= runs.length) this.address.run = 0;
    const problems = runs.filter((run) => run.problem).map((run) => run.problem);
    const unreadable = runs.filter((run) => run.unreadable).map((run) => {
      const [line, why] = run.unreadable_first[0];
      return `${run.name}: ${plural(run.unreadable, "line")} could not be read (the first: line ${line + 1}, ${why})`;
    });
    this.say([...problems, ...unreadable].join(". "));
    await this.readRows();
  }

  async readRows() {
    if (!this.runs.length) return;
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

  /** Change the address, and with it what is shown. quietly: without a new entry in the browser's history. */
  async navigate(changes, quietly) {
    this.address = { view: this.view, ...this.address, ...changes };
    for (const [key, value] of Object.entries(this.address)) {
      if (value === undefined || value === "") delete this.address[key];
    }
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
    document.documentElement.dataset.view = view;
    for (const [name] of VIEWS) byId(name).hidden = name !== view;
    await this.draw(view);
  }

  async draw(view) {
    const { address, data } = this;
    const section = byId(view);
    if (view === "groups") return this.browser.show();
    if (view === "evaluation") return drawEvaluation(section, await data.evaluation());
    if (view === "summary") {
      const nothing = { group: undefined, rollout: undefined, changes: undefined };
      const showGroups = (filter) => this.navigate({ view: "groups", ...nothing, ...filter });
      return drawSummary(section, await data.summary(address.run), showGroups);
    }
    const curves = await data.curves();
    return view === "compare" ? drawCompare(section, curves, this) : drawSteps(section, curves[address.run], this);
  }

  drawProgress() {
    const { run } = this;
    const names = this.view === "compare" ? this.runs.map((other) => other.name) : [run ? run.name : "benchmarks"];
    const title = this.title || `rubrank view: ${names.join(", ")}`;
    document.title = title;
    byId("title").textContent = title;
    if (!run) return;
    const [graded, toGrade] = run.grading || [0, 0];
    const parts = [
      graded < toGrade && `graded ${count(graded)} of ${count(toGrade)}`,
      run.ready < run.groups && `read ${percent(run.ready / run.groups)}`,
      plural(run.groups, "group"),
      this.labels?.count > 0 && plural(this.labels.count, "label"),
    ];
    byId("progress").textContent = parts.filter(Boolean).join(", ");
  }

  drawNavigation() {
    const links = this.views.map(([name, title]) => {
      const href = writeAddress({ ...this.address, view: name });
      return h("a", { href, "aria-current": name === this.view ? "page" : null }, title);
    });
    const changeRun = (value) => {
      const nothing = { group: undefined, rollout: undefined, step: undefined, changes: undefined, rule: undefined };
      return this.navigate({ run: Number(value), ...nothing });
    };
    const runChoice = this.runs.length > 1 && !["compare", "evaluation"].includes(this.view)
      && choice("Run", this.runs.map((run, i) => [String(i), run.name]), String(this.address.run), changeRun);
    replaceChildren(byId("nav"), links, runChoice);
  }

  say(problem) {
    const place = byId("problem");
    const text = problem instanceof Error ? problem.message : problem;
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
  place.textContent = `This page cannot be shown: ${error.message}. It needs a browser from 2024 or later.`;
  console.error(error);
});
