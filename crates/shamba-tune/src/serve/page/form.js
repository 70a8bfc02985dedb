// The fields and sliders of the inputs. A field holds text, which only the server understands; a
// slider is put where the server says the field's number is, and writes text into its field.

import { el } from './dom.js';
import { FIELD, GROUPS, SHARES } from './fields.js';
import * as format from './format.js';

const STEPS = 240;
const parts = {};

const isLog = (field) => field.kind !== 'share' || field.log;
const shown = (field, text) => (field.kind === 'share' ? text.replace(/\s*%$/, '') : text);
const meant = (field, text) => (field.kind === 'share' && text.trim() ? `${text.replace(/\s*%\s*$/, '').trim()}%` : text.trim());

function at(field, value) {
  const { from, to } = parts[field.key];
  const where = isLog(field) ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
  return Math.round(Math.min(1, Math.max(0, where)) * STEPS);
}

function of(field, position) {
  const { from, to } = parts[field.key];
  const where = position / STEPS;
  return isLog(field) ? from * (to / from) ** where : from + (to - from) * where;
}

/** Makes all fields. `changed(key, text)` hears of each change, `undo(key)` of what is to be as before. */
export function build(root, changed, undo) {
  const wide = window.matchMedia('(min-width: 900px)').matches;
  for (const group of GROUPS) {
    const open = wide ? !group.closed : Boolean(group.shares);
    const rows = group.fields.map((field) => row(field, changed, undo));
    const sum = group.shares
      ? el('label', { class: 'check' }, el('input', { type: 'checkbox', id: 'balance', checked: true }),
        'Other shares make room, so that all sum to 100 %')
      : null;
    root.append(el('details', { open }, el('summary', {}, group.title), sum, rows));
  }
}

function row(field, changed, undo) {
  const { key, kind } = field;
  const name = el('label', { for: key }, field.label);
  const notes = [field.help ? `${key}-help` : null, `${key}-note`, `${key}-error`].filter(Boolean).join(' ');
  const help = field.help ? el('p', { id: `${key}-help`, class: 'help' }, field.help) : null;
  const reading = el('span', {});
  const was = el('button', { type: 'button', class: 'was', hidden: true, onclick: () => undo(key) });
  const note = el('p', { id: `${key}-note`, class: 'help' }, reading, was);
  const error = el('p', { id: `${key}-error`, class: 'field-error', hidden: true });
  let input;
  let slider = null;
  let unit = null;
  if (kind === 'choice') {
    input = el('select', { id: key, 'aria-describedby': notes, onchange: () => changed(key, input.value) },
      field.choices.map(([value, text]) => el('option', { value }, text)));
  } else {
    input = el('input', {
      id: key, type: 'text', inputmode: kind === 'bytes' || kind === 'count' ? 'text' : 'decimal', spellcheck: 'false',
      placeholder: field.optional ?? false, 'aria-describedby': notes,
      oninput: () => changed(key, meant(field, input.value)),
    });
    unit = kind === 'share' ? el('span', { class: 'unit' }, '%') : null;
    slider = el('input', {
      type: 'range', id: `${key}-slider`, min: 0, max: STEPS, value: 0, 'aria-label': `${field.label}, slider`,
      oninput: () => {
        const text = format.rough(kind === 'share' && field.log ? 'number' : kind, of(field, slider.valueAsNumber) * (kind === 'share' && field.log ? 100 : 1));
        const value = meant(field, text);
        slider.setAttribute('aria-valuetext', value);
        input.value = shown(field, value);
        changed(key, value);
      },
    });
  }
  const box = el('div', { class: `field ${kind}` }, el('div', { class: 'line' }, name, el('span', { class: 'value' }, input, unit)), slider, help, note, error);
  parts[key] = { field, box, input, slider, reading, was, error, from: field.from, to: field.to };
  return box;
}

/** Shows inputs as text, leaving alone the field that is being typed in. */
export function show(inputs, base) {
  for (const [key, part] of Object.entries(parts)) {
    const text = inputs[key] ?? '';
    const own = shown(part.field, text);
    if (meant(part.field, part.input.value) !== text || part.field.kind === 'choice') part.input.value = own;
    const before = base[key] ?? '';
    const differs = before !== text;
    part.box.classList.toggle('changed', differs);
    part.was.hidden = !differs;
    const choice = part.field.choices?.find(([value]) => value === before)?.[1];
    const old = choice ?? (before || part.field.optional || 'empty');
    part.was.textContent = differs ? `was ${old}: undo` : '';
    part.was.setAttribute('aria-label', `${part.field.label} was ${old}: undo`);
  }
}

/** Puts sliders where the numbers are that the server read; says how it read what is not short. */
export function place(numbers) {
  for (const [key, part] of Object.entries(parts)) {
    const { field, slider } = part;
    // A choice that nobody made shows what was assumed.
    if (!slider && !part.input.value) part.input.value = numbers[key] ?? '';
    if (!slider) continue;
    const [least, most] = (field.ends ?? []).map((end) => numbers[end]);
    part.from = least ?? field.from;
    part.to = Math.max(most ?? field.to, part.from * 1.01);
    const value = numbers[key];
    const known = typeof value === 'number';
    slider.classList.toggle('unset', !known || !part.input.value);
    if (slider !== document.activeElement) slider.value = known ? at(field, value) : STEPS;
    const reading = !known ? (field.optional ?? 'not set') : read(field, value);
    slider.setAttribute('aria-valuetext', reading);
    const plain = /^\d{5,}(\.\d+)?$/.test(part.input.value);
    part.reading.textContent = known && (plain || (!part.input.value && field.optional)) ? `= ${reading} ` : '';
  }
}

function read(field, value) {
  if (field.kind === 'share') return format.percent(value);
  if (field.kind === 'bytes') return format.bytes(value);
  if (field.kind === 'count') return format.count(value);
  return format.digits(value, 4);
}

/** Marks fields as wrong, and no others. */
export function wrong(keys, message) {
  for (const [key, part] of Object.entries(parts)) {
    const is = keys.includes(key);
    part.input.setAttribute('aria-invalid', String(is));
    part.box.classList.toggle('wrong', is);
    part.error.hidden = !is;
    // Once for all shares.
    part.error.textContent = is && key === keys[0] ? named(message) : '';
    if (is) part.box.closest('details').open = true;
  }
}

/** Whether the other shares make room. */
export const balanced = () => document.getElementById('balance').checked;

/** Whether an input is a share of operations. */
export const isShare = (key) => SHARES.includes(key);

const LONG = Object.keys(FIELD).filter((key) => key.includes('-')).sort((a, b) => b.length - a.length);
const FLAG = new RegExp(`--([a-z-]+)|(?<![\\w-])(${LONG.join('|')})(?![\\w-])|^([a-z]+)(?= is |: )`, 'g');

/** A message with the names of its inputs as the page has them, as a sentence. */
export function named(text) {
  const words = (text ?? '').replace(FLAG, (word, ...keys) => {
    const key = keys.slice(0, 3).find(Boolean);
    return Object.hasOwn(FIELD, key) ? `“${FIELD[key].label}”` : word;
  });
  return words.charAt(0).toUpperCase() + words.slice(1);
}
