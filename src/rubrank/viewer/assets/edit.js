// What if: another rule, other weights, gates or λ. The server fuses the group again; a report computes what it can.

import { writeGroupChanges } from "./address.js";
import { choice, h } from "./dom.js";
import { number } from "./numbers.js";
import { findLift } from "./recompute.js";
import { LAYER_NAMES } from "./rollout.js";

/**
 * The form. rules: names that can be chosen, empty in a report; apply(keys of the address): show the group with them;
 * isOpen, onToggle(isOpen): it stays as it was when the group is drawn again.
 */
export function editView({ group, changes, rules, isLive, apply, isOpen, onToggle }) {
  const change = (more) => apply(writeGroupChanges({ ...changes, ...more }));
  const isChanged = Object.keys(changes).length > 0;
  const canWeigh = isLive || findLift(group) !== null;
  const count = Object.keys(changes.weights || {}).length + Object.keys(changes.layers || {}).length;
  const summary = h("summary", {}, "What if: rule, weights, gates", count > 0 && h("small", {}, ` ${count} changed`));
  return h("details", { class: "what-if", open: isOpen || isChanged, ontoggle: (event) => onToggle(event.target.open) },
    summary,
    h("div", { class: "what-if-bar" },
      isLive && ruleChoice(group, changes, rules, change),
      isLive && group.attribute_names && lambdaField(changes, change),
      isChanged && h("button", { type: "button", "data-key": "as recorded", onclick: () => apply(writeGroupChanges({})) }, "As recorded")),
    (group.notes || []).map((note) => h("p", { class: "muted" }, note)),
    !canWeigh && h("p", { class: "muted" }, "This report cannot compute other rewards for this rule; `rubrank view` can."),
    canWeigh && criteriaFields(group, changes, isLive, change));
}

function ruleChoice(group, changes, rules, change) {
  const recorded = group.recorded.rule;
  const others = rules.filter((rule) => rule !== recorded).map((rule) => [rule, rule]);
  return choice("Rule", [["", `${recorded} (as recorded)`], ...others], changes.rule || "", (rule) => change({ rule }));
}

/** λ: the share of a positive influence of the attributes that is taken out. */
function lambdaField(changes, change) {
  const set = (event) => {
    const text = event.target.value;
    if (text !== "") event.target.value = Math.min(1, Math.max(0, Number(text)));
    change({ lam: text === "" ? undefined : Number(event.target.value) });
  };
  const hint = "Share of the attributes' positive influence that is removed: 0 none, 1 all";
  const input = h("input", {
    type: "number", min: 0, max: 1, step: 0.05, value: changes.lam ?? "", placeholder: "as recorded", "data-key": "lam", onchange: set,
  });
  return h("label", { class: "field", title: hint }, h("span", {}, "λ, attributes taken out"), input);
}

function criteriaFields(group, changes, isLive, change) {
  // A changed group may list its criteria in another order: they stay in the order of the record.
  const names = Object.keys(group.recorded.layers);
  const weightOf = (name) => {
    const k = names.indexOf(name);
    return changes.weights?.[name] ?? group.recorded.weights[k] ?? 1;
  };
  const rows = names.map((name) => {
    const recordedLayer = group.recorded.layers[name];
    const layer = changes.layers?.[name] ?? recordedLayer;
    const isRanked = layer === "quality";
    const setWeight = (event) => {
      const { [name]: _, ...others } = changes.weights || {};
      const text = event.target.value;
      if (text !== "") event.target.value = Math.max(0, Number(text));
      change({ weights: text === "" ? others : { ...others, [name]: Number(event.target.value) } });
    };
    const setLayer = (event) => {
      const { [name]: _, ...others } = changes.layers || {};
      change({ layers: event.target.value === recordedLayer ? others : { ...others, [name]: event.target.value } });
    };
    const weight = h("input", {
      type: "number", min: 0, step: 0.5, value: weightOf(name), "data-key": `weight ${name}`, "aria-label": `Weight of ${name}`, onchange: setWeight,
    });
    const layers = isLive ? Object.keys(LAYER_NAMES) : reportLayers(recordedLayer);
    const use = h("select", { "data-key": `layer ${name}`, "aria-label": `Use of ${name}`, onchange: setLayer },
      layers.map((value) => h("option", { value, selected: value === layer }, LAYER_NAMES[value])));
    const isChanged = changes.weights?.[name] !== undefined || changes.layers?.[name] !== undefined;
    return h("tr", { class: isChanged ? "changed" : null },
      h("th", { scope: "row" }, name),
      h("td", {}, isRanked ? weight : h("span", { class: "muted" }, "–")),
      h("td", {}, layers.length > 1 ? use : h("span", { class: "muted" }, LAYER_NAMES[layer])));
  });
  const heads = ["Criterion", "Weight", "Use"].map((title) => h("th", { scope: "col" }, title));
  return h("table", { class: "what-if-table" },
    h("caption", { class: "quiet-caption" }, "Weights and uses of the criteria"),
    h("thead", {}, h("tr", {}, heads)),
    h("tbody", {}, rows));
}

/** In a report only a hard gate can be switched off and on again. */
function reportLayers(recordedLayer) {
  return recordedLayer === "global_quality" ? ["global_quality", "watch"] : [recordedLayer];
}

/** Such as "was 0.50": shown beside a reward that was changed. */
export function rewardBefore(group, i) {
  if (!group.is_changed || !group.recorded) return null;
  const before = group.recorded.reward[i];
  if (Math.abs(before - group.reward[i]) < 5e-7) return null;
  return `was ${number(before)}`;
}
