// How numbers look. Nothing is computed here that the server would have to know.

const IEC = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const SI = ['', 'k', 'M', 'G', 'T'];

function scaled(value, base, units) {
  let at = 0;
  while (at + 1 < units.length && Math.abs(value) >= base) {
    value /= base;
    at += 1;
  }
  return [value, units[at]];
}

/** To so many significant digits, without trailing zeros. */
export function digits(value, count) {
  return String(Number(value.toPrecision(count)));
}

/** Bytes for reading: `183 MiB`. */
export function bytes(value) {
  if (!(value >= 0)) return '–';
  const [number, unit] = scaled(value, 1024, IEC);
  return `${digits(number, number >= 1000 ? 4 : 3)} ${unit}`;
}

/** A count for reading: `16.8 M`. */
export function count(value) {
  if (!(value >= 0)) return '–';
  if (value < 10000) return digits(value, 4);
  const [number, unit] = scaled(value, 1000, SI);
  return number < 1e4 ? `${digits(number, 3)} ${unit}`.trim() : value.toExponential(2);
}

/** Filter bits for each key. */
export function bits(value) {
  return value > 0 && value < 0.01 ? 'below 0.01' : digits(value, 3);
}

/** A cost in pages; small ones matter too. */
export function pages(value) {
  if (value === null || value === undefined) return 'no bound';
  if (value === 0) return '0';
  if (value < 0.001 || value >= 1e6) return value.toExponential(1);
  return value < 100 ? digits(value, 3) : Math.round(value).toLocaleString('en');
}

/** Operations per second. */
export function perSecond(value) {
  if (value === null || value >= 1e15) return 'no bound';
  return value < 1000 ? digits(value, 3) : Math.round(value).toLocaleString('en');
}

/** A part of 1 as percent. */
export function percent(value) {
  if (value === null || value === undefined) return '–';
  const number = value * 100;
  if (number !== 0 && number < 0.001) return `${number.toExponential(1)} %`;
  return `${digits(number, 3)} %`;
}

/** A speedup as what is gained. */
export function gain(speedup) {
  if (speedup === null) return '–';
  if (speedup >= 11) return `${digits(speedup, 3)} times`;
  const number = Math.round((speedup - 1) * 1000) / 10;
  const sign = { '-1': '−', 0: '±', 1: '+' }[Math.sign(number)];
  return `${sign}${Math.abs(number)} %`;
}

const POLICIES = { 'leveling': 'leveling', 'tiering': 'tiering', 'lazy-leveling': 'lazy leveling' };
const ALLOCATIONS = { 'uniform': 'uniform', 'monkey-zero': 'Monkey (zero)', 'monkey': 'Monkey' };

/** The name of a merge policy. */
export const policy = (name) => POLICIES[name] ?? name;
/** The name of a way to divide filter memory. */
export const allocation = (name) => ALLOCATIONS[name] ?? name;

/** A design in a few words. */
export const brief = (design) => `${policy(design.policy)}, T = ${design.size_ratio}`;

/** A number as text that the server reads as that very number, with a unit where it is short so. */
export function exact(kind, value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return value;
  if (kind === 'share') return `${Number((value * 100).toPrecision(12))}%`;
  const [base, units] = kind === 'bytes' ? [1024, IEC] : [1000, SI];
  if (kind === 'number' || kind === 'whole' || value < base) return String(value);
  const [number, unit] = scaled(value, base, units);
  const short = Number(number.toPrecision(4));
  return short === number ? `${short}${unit}` : String(value);
}

/** A slider's value as such text, two digits of it. */
export function rough(kind, value) {
  if (kind === 'share') return `${Math.round(value * 1000) / 10}%`;
  if (kind === 'whole') return String(Math.round(value));
  if (kind === 'number') return digits(value, 2);
  const [number, unit] = kind === 'bytes' ? scaled(value, 1024, IEC) : scaled(value, 1000, SI);
  const short = number < 100 ? Number(number.toPrecision(2)) : Math.round(number);
  return `${short}${unit === 'B' ? '' : unit}`;
}
