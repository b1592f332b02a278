// Two texts side by side, word by word: what only one of them says is marked.

import { h } from "./dom.js";
import { count } from "./numbers.js";
import { plainText } from "./texts.js";

const MOST_CELLS = 6e6; // of the table of one comparison: 12 MB

/** Words, spaces and signs; a Chinese or Japanese character is a word. */
const wordsOf = (text) => text.match(/\s+|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}\p{M}_]+|./gu) || [];

/** [kind, text] in order: "same", "left" (only there), "right" (only there). */
export function diff(left, right) {
  const pieces = mergeNeighbours(compareWords(wordsOf(left), wordsOf(right)));
  return mergeNeighbours(joinPhrases(pieces));
}

/** A common beginning and a common end are the same in both; only the middle is compared word by word. */
function compareWords(left, right) {
  const shorter = Math.min(left.length, right.length);
  let start = 0;
  while (start < shorter && left[start] === right[start]) start += 1;
  let end = 0;
  while (end < shorter - start && left[left.length - 1 - end] === right[right.length - 1 - end]) end += 1;
  const leftMiddle = left.slice(start, left.length - end);
  const rightMiddle = right.slice(start, right.length - end);
  const isSmall = leftMiddle.length * rightMiddle.length <= MOST_CELLS;
  const asSame = (word) => ["same", word];
  return [
    ...left.slice(0, start).map(asSame),
    ...(isSmall ? findLongestCommon(leftMiddle, rightMiddle) : compareParagraphs(leftMiddle.join(""), rightMiddle.join(""))),
    ...left.slice(left.length - end).map(asSame),
  ];
}

/** Too long for one table: paragraphs first, and words where a paragraph was changed. */
function compareParagraphs(left, right) {
  const split = (text) => text.match(/[^\n]*\n+|[^\n]+$/g) || [];
  const leftParagraphs = split(left);
  const rightParagraphs = split(right);
  const isTooLong = leftParagraphs.length * rightParagraphs.length > MOST_CELLS;
  const isOneParagraph = leftParagraphs.length < 2 && rightParagraphs.length < 2;
  if (isTooLong || isOneParagraph) return [["left", left], ["right", right]];

  const pieces = [];
  let removed = ""; // paragraphs since the last common one
  let added = "";
  const compareChange = () => {
    const leftWords = wordsOf(removed);
    const rightWords = wordsOf(added);
    if (leftWords.length * rightWords.length <= MOST_CELLS) pieces.push(...findLongestCommon(leftWords, rightWords));
    else pieces.push(["left", removed], ["right", added]);
    removed = "";
    added = "";
  };
  for (const [kind, text] of findLongestCommon(leftParagraphs, rightParagraphs)) {
    if (kind === "left") removed += text;
    else if (kind === "right") added += text;
    else {
      compareChange();
      pieces.push([kind, text]);
    }
  }
  compareChange();
  return pieces;
}

/** The longest common subsequence, by the usual table: cell (i, j) is its length for what follows i and j. */
function findLongestCommon(left, right) {
  const width = right.length + 1;
  const lengths = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      const withBoth = lengths[(i + 1) * width + j + 1] + 1;
      const withoutOne = Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
      lengths[i * width + j] = left[i] === right[j] ? withBoth : withoutOne;
    }
  }
  const pieces = [];
  let i = 0;
  let j = 0;
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) {
      pieces.push(["same", left[i]]);
      i += 1;
      j += 1;
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
      pieces.push(["left", left[i]]);
      i += 1;
    } else {
      pieces.push(["right", right[j]]);
      j += 1;
    }
  }
  const restOfLeft = left.slice(i).map((word) => ["left", word]);
  const restOfRight = right.slice(j).map((word) => ["right", word]);
  return [...pieces, ...restOfLeft, ...restOfRight];
}

/** A space or a comma between two changes belongs to them: marks of whole phrases are easier to read. */
function joinPhrases(pieces) {
  const isChange = (piece) => piece !== undefined && piece[0] !== "same";
  return pieces.flatMap((piece, i) => {
    const [kind, text] = piece;
    const isSeparator = kind === "same" && /^[\s\p{P}]*$/u.test(text);
    const isBetweenChanges = isChange(pieces[i - 1]) && isChange(pieces[i + 1]);
    return isSeparator && isBetweenChanges ? [["left", text], ["right", text]] : [piece];
  });
}

/** Join neighbours of one kind. Between two pieces that are the same in both texts, the left text comes first. */
function mergeNeighbours(pieces) {
  const joined = [];
  let left = "";
  let right = "";
  const close = () => {
    if (left) joined.push(["left", left]);
    if (right) joined.push(["right", right]);
    left = "";
    right = "";
  };
  for (const [kind, text] of pieces) {
    if (kind === "left") left += text;
    else if (kind === "right") right += text;
    else if (text) {
      close();
      const last = joined[joined.length - 1];
      if (last && last[0] === "same") last[1] += text;
      else joined.push([kind, text]);
    }
  }
  close();
  return joined;
}

/** Both texts beside each other; `titles` stand above them. */
export function sideBySide(left, right, titles) {
  const pieces = diff(plainText(left), plainText(right));
  const column = (side, title) => {
    const sidePieces = pieces.filter(([kind]) => kind === "same" || kind === side);
    const words = sidePieces.flatMap(([, text]) => wordsOf(text)).filter((word) => word.trim());
    const text = sidePieces.map(([kind, part]) => (kind === "same" ? part : h("mark", { class: `only-${side}` }, part)));
    return h("div", { class: `side-text ${side}` },
      h("h3", {}, title, h("small", {}, ` ${count(words.length)} words and signs`)),
      h("pre", { class: "said" }, text));
  };
  const isSame = pieces.every(([kind]) => kind === "same");
  return h("div", { class: "side-by-side" },
    isSame && h("p", { class: "muted both-same" }, "The two are identical."),
    column("left", titles[0]),
    column("right", titles[1]));
}
