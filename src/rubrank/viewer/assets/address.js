// The state of the page in the part of its address behind #: a link opens the same run, group, rollout, changes and filters.

export const FILTERS = ["query", "state", "criterion", "score", "value", "step", "rule_filter", "sort"];
const ADDRESS_KEYS = [
  "view", "run", "group", "rollout", "pane", "rule", "changes", "first", "second", "smooth", "from", "to", ...FILTERS,
];
const NUMBER_KEYS = ["run", "group", "rollout", "first", "second", "smooth", "from", "to"];

/** {view: "groups", run: 0, group: 17, …}; keys that the address does not have, or has wrongly, are left out. */
export function readAddress(hash) {
  const params = new URLSearchParams(hash.replace(/^#/, ""));
  const address = { run: 0 };
  for (const key of ADDRESS_KEYS) {
    if (!params.has(key)) continue;
    const text = params.get(key);
    if (!NUMBER_KEYS.includes(key)) address[key] = text;
    else if (/^\d{1,12}$/.test(text)) address[key] = Number(text);
  }
  if (address.group !== undefined && !address.view) address.view = "groups";
  return address;
}

export function writeAddress(address) {
  const isGiven = (key) => {
    const value = address[key];
    if (key === "run" && value === 0) return false;
    return value !== undefined && value !== null && value !== "";
  };
  const pairs = ADDRESS_KEYS.filter(isGiven).map((key) => [key, address[key]]);
  return `#${new URLSearchParams(pairs)}`;
}

/** What is changed about the open group: {rule, weights: {name: number}, layers: {name: layer}, lam}. */
export function readGroupChanges(address) {
  let changes = {};
  try {
    changes = JSON.parse(address.changes || "{}");
  } catch {
    // A damaged link opens the group as it was recorded.
  }
  if (address.rule) changes.rule = address.rule;
  return changes;
}

/** The same as keys of the address. */
export function writeGroupChanges({ rule, ...changes }) {
  const isFilled = (value) => value !== undefined && value !== null
    && (typeof value !== "object" || Object.keys(value).length > 0);
  const filled = Object.fromEntries(Object.entries(changes).filter(([, value]) => isFilled(value)));
  return {
    rule: rule || undefined,
    changes: Object.keys(filled).length ? JSON.stringify(filled) : undefined,
  };
}
