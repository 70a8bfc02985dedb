// The address of the page as its state: the present inputs by name, and those that a what-if changes
// with `if.` before their names.

import { FIELD, FIELDS } from './fields.js';

/** What follows `#`. */
export function write(base, now) {
  const params = new URLSearchParams();
  for (const { key } of FIELDS) if (base[key]) params.set(key, base[key]);
  for (const key of changes(base, now)) params.set(`if.${key}`, now[key] ?? '');
  return params.toString();
}

/** Both sets of inputs, or null where the address says nothing. */
export function read(hash) {
  const params = new URLSearchParams(hash.replace(/^#/, ''));
  const base = {};
  const now = {};
  for (const [name, value] of params) {
    const key = name.replace(/^if\./, '');
    if (!Object.hasOwn(FIELD, key)) continue;
    if (name === key) base[key] = value;
    else now[key] = value;
  }
  return Object.keys(base).length ? { base, now: { ...base, ...now } } : null;
}

/** The names of the inputs that differ. */
export function changes(base, now) {
  return FIELDS.map((field) => field.key).filter((key) => (base[key] ?? '') !== (now[key] ?? ''));
}
