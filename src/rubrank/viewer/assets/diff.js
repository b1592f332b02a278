// Two texts side by side, word by word: what only one of them says is marked.

import { h } from "./dom.js";
import { count } from "./numbers.js";
import { plainText } from "./texts.js";

const MOST_CELLS = 6e6; // of the table of one comparison: 12 MB

/** Words, spaces and signs; a Chinese or Japanese character is a word. */
export const wordsOf = (text) => text.match(/\s+|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}\p{M}_]+|./gu) || [];

/** [kind, text] in order: "same", "left" (only there), "right" (only there). */
export function diff(left, right) {
  return merged(whole(merged(compare(wordsOf(left), wordsOf(right)))));
}

function compare(a, b) {
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const x = a.slice(start, a.length - end), y = b.slice(start, b.length - end);
  const middle = x.length * y.length <= MOST_CELLS ? longestCommon(x, y) : byParagraphs(x.join(""), y.join(""));
  return [...a.slice(0, start).map((word) => ["same", word]), ...middle, ...a.slice(a.length - end).map((word) => ["same", word])];
}

/** Too long for one table: paragraphs first, and words where a paragraph was changed. */
function byParagraphs(left, right) {
  const split = (text) => text.match(/[^\n]*\n+|[^\n]+$/g) || [], x = split(left), y = split(right);
  if (x.length * y.length > MOST_CELLS || (x.length < 2 && y.length < 2)) return [["left", left], ["right", right]];
  const found = [];
  let gone = "", come = "";
  const close = () => {
    const a = wordsOf(gone), b = wordsOf(come);
    if (a.length * b.length <= MOST_CELLS) found.push(...longestCommon(a, b));
    else found.push(["left", gone], ["right", come]);
    gone = come = "";
  };
  for (const [kind, text] of longestCommon(x, y)) {
    if (kind === "same") { close(); found.push([kind, text]); } else if (kind === "left") gone += text;
    else come += text;
  }
  close();
  return found;
}

function longestCommon(x, y) {
  const wide = y.length + 1, table = new Uint16Array((x.length + 1) * wide);
  for (let i = x.length - 1; i >= 0; i -= 1) {
    for (let j = y.length - 1; j >= 0; j -= 1) {
      table[i * wide + j] = x[i] === y[j] ? table[(i + 1) * wide + j + 1] + 1 : Math.max(table[(i + 1) * wide + j], table[i * wide + j + 1]);
    }
  }
  const found = [];
  let i = 0, j = 0;
  while (i < x.length && j < y.length) {
    if (x[i] === y[j]) { found.push(["same", x[i]]); i += 1; j += 1; } else if (table[(i + 1) * wide + j] >= table[i * wide + j + 1]) { found.push(["left", x[i]]); i += 1; } else { found.push(["right", y[j]]); j += 1; }
  }
  return [...found, ...x.slice(i).map((word) => ["left", word]), ...y.slice(j).map((word) => ["right", word])];
}

/** A space or a comma between two changes belongs to them: marks of whole phrases are easier to read. */
function whole(pieces) {
  const changed = (piece) => piece !== undefined && piece[0] !== "same";
  return pieces.flatMap((piece, i) => (piece[0] === "same" && /^[\s\p{P}]*$/u.test(piece[1]) && changed(pieces[i - 1]) && changed(pieces[i + 1])
    ? [["left", piece[1]], ["right", piece[1]]] : [piece]));
}

/** Neighbours of one kind as one; between two pieces that are the same in both, what is left comes before what is right. */
function merged(pieces) {
  const found = [];
  let left = "", right = "";
  const close = () => {
    if (left) found.push(["left", left]);
    if (right) found.push(["right", right]);
    left = right = "";
  };
  for (const [kind, text] of pieces) {
    if (kind === "left") left += text;
    else if (kind === "right") right += text;
    else if (text) {
      close();
      if (found.length && found[found.length - 1][0] === "same") found[found.length - 1][1] += text;
      else found.push([kind, text]);
    }
  }
  close();
  return found;
}

/** Both texts beside each other; `titles` stand above them. */
export function sideBySide(left, right, titles) {
  const pieces = diff(plainText(left), plainText(right));
  const column = (kind, title) => {
    const mine = pieces.filter(([own]) => own === "same" || own === kind);
    const words = mine.reduce((total, [, text]) => total + wordsOf(text).filter((word) => word.trim()).length, 0);
    return h("div", { class: `side-text ${kind}` }, h("h5", {}, title, h("small", {}, ` ${count(words)} words and signs`)),
      h("pre", { class: "said" }, mine.map(([own, text]) => (own === "same" ? text : h("mark", { class: `only-${kind}` }, text)))));
  };
  const same = pieces.every(([kind]) => kind === "same");
  return h("div", { class: "side-by-side" }, same && h("p", { class: "muted both-same" }, "The two are identical."), column("left", titles[0]), column("right", titles[1]));
}
