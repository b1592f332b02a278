// Numbers as text.

export const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
export const count = (n) => n.toLocaleString("en-US");
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
export const sum = (values) => values.reduce((total, x) => total + x, 0);

/** Fixed digits with a true minus sign, and none before zero. */
function withMinus(x, digits) {
  const isNegative = Number(x.toFixed(digits)) < 0;
  return (isNegative ? "−" : "") + Math.abs(x).toFixed(digits);
}

/** 0.314 → "31%". */
export function percent(x, digits = 0) {
  return isNumber(x) ? `${withMinus(100 * x, digits)}%` : "–";
}

/** 0.314 → "+0.31". */
export function signed(x, digits = 2) {
  if (!isNumber(x)) return "–";
  const plus = Number(x.toFixed(digits)) > 0 ? "+" : "";
  return plus + withMinus(x, digits);
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
