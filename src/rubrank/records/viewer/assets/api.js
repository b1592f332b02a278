// Questions to the server; all of them only read.

export class Refused extends Error {}

/** get("group", {run: 0, g: 17}): the answer as data; raises with the server's own words. */
export async function get(name, params = {}) {
  const answer = await fetch(addressOf(name, params));
  const type = answer.headers.get("content-type") || "";
  const data = type.startsWith("application/json") ? await answer.json() : { error: await answer.text() };
  if (!answer.ok) throw new Refused(data.error || `the server said ${answer.status}`);
  return data;
}

/** The address of a question; what is empty is left out. */
export function addressOf(name, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return `/api/${name}?${new URLSearchParams(given)}`;
}
