// Numbers as text.

export const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
export const count = (n) => n.toLocaleString("en-US");
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
export const sum = (values) => values.reduce((total, x) => total + x, 0);

/** Digits of a number ≥ 0. An exact half is rounded to the even digit, as Python does: explanations and page agree. */
function roundHalfEven(x, digits) {
  const scaled = x * 10 ** digits;
  const below = Math.floor(scaled);
  const isHalf = scaled - below === 0.5 && scaled / 10 ** digits === x;
  return isHalf && below % 2 === 0 ? (below / 10 ** digits).toFixed(digits) : x.toFixed(digits);
}

/** Fixed digits with a true minus sign, and none before zero. */
function withMinus(x, digits) {
  const text = roundHalfEven(Math.abs(x), digits);
  return x < 0 && Number(text) > 0 ? `−${text}` : text;
}

/** 0.314 → "31%". */
export function percent(x, digits = 0) {
  return isNumber(x) ? `${withMinus(100 * x, digits)}%` : "–";
}

/** 0.314 → "+0.31". */
export function signed(x, digits = 2) {
  if (!isNumber(x)) return "–";
  const text = withMinus(x, digits);
  return x > 0 && Number(text) > 0 ? `+${text}` : text;
}

/** 0.314 → "0.31". */
export function fixed(x, digits = 2) {
  return isNumber(x) ? withMinus(x, digits) : "–";
}

/** A number in about four characters: 1234567 → "1.23e+6", 0.3141 → "0.314". */
export function number(x) {
  if (!isNumber(x)) return "–";
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return count(x).replace("-", "−");
  return String(Number(x.toPrecision(3))).replace("-", "−");
}
