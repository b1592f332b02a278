// Numbers as text, for people (`number`, `percent`) and exactly as Python prints them (`fixed`, `general`).

export const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
export const count = (n) => n.toLocaleString("en-US");
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
export const sum = (values) => values.reduce((total, x) => total + x, 0);

/** With a true minus, and none before zero. */
const written = (x, digits) => (Number(x.toFixed(digits)) < 0 ? "−" : "") + Math.abs(x).toFixed(digits);
export const percent = (x, digits = 0) => (isNumber(x) ? `${written(100 * x, digits)}%` : "–");
export const signed = (x, digits = 2) => (isNumber(x) ? `${Number(x.toFixed(digits)) > 0 ? "+" : ""}${written(x, digits)}` : "–");

/** A number in about four characters. */
export function number(x) {
  if (!isNumber(x)) return "–";
  if (Number.isInteger(x) && Math.abs(x) < 1e6) return count(x).replace("-", "−");
  return String(Number(x.toPrecision(3))).replace("-", "−");
}

export function ordinal(n) {
  const last = n % 100 >= 10 && n % 100 <= 20 ? 0 : n % 10;
  return `${n}${{ 1: "st", 2: "nd", 3: "rd" }[last] || "th"}`;
}

/** Two decimals as Python prints them: exact halves, which are odd eighths, go to the even digit. */
export function fixed(x) {
  if (!Number.isInteger(8 * x) || Number.isInteger(4 * x)) return x.toFixed(2);
  const below = Math.floor(100 * x);
  return ((below % 2 === 0 ? below : below + 1) / 100).toFixed(2);
}

export const fixedSigned = (x) => (x < 0 ? fixed(x) : `+${fixed(x)}`);

/** Six digits as Python's %g prints them. */
export function general(x) {
  if (x === null) return "nan";
  if (x === 0) return "0";
  const [digits, exponent] = sixDigits(Math.abs(x)), sign = x < 0 ? "-" : "";
  if (exponent < -4 || exponent >= 6) {
    const power = `${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
    return `${sign}${trimmed(`${digits[0]}.${digits.slice(1)}`)}e${power}`;
  }
  if (exponent < 0) return `${sign}${trimmed(`0.${"0".repeat(-exponent - 1)}${digits}`)}`;
  return `${sign}${trimmed(`${digits.slice(0, exponent + 1)}.${digits.slice(exponent + 1)}`)}`;
}

/** The first six digits and the exponent; exact halves go to the even digit. */
function sixDigits(x) {
  const [whole, power] = x.toExponential(99).split("e"), all = whole.replace(".", "");
  if (/^50*$/.test(all.slice(6)) && Number(all[5]) % 2 === 0) return [all.slice(0, 6), Number(power)];
  const [nearest, exponent] = x.toExponential(5).split("e");
  return [nearest.replace(".", ""), Number(exponent)];
}

const trimmed = (text) => text.replace(/0+$/, "").replace(/\.$/, "");
