// The page: asks the server, shows its answers, and keeps inputs in the address.
//
// There are two sets of inputs: those of the present (`base`), and those of the fields (`now`). While
// they differ, the fields are a what-if, shown beside the present.

import * as chart from './chart.js';
import { byId } from './dom.js';
import { FIELD, FIELDS, SHARES } from './fields.js';
import * as form from './form.js';
import * as format from './format.js';
import * as link from './link.js';
import { measured } from './measured.js';
import * as results from './results.js';
import * as tree from './tree.js';

const state = { start: null, base: {}, now: {}, weights: {}, baseAnswer: null, baseAsked: null };
let turn = 0;
let timer = 0;
let shownOnce = false;

/** An answer of the server, or an error with `fields`. */
async function ask(path, body) {
  let response;
  try {
    response = await fetch(path, body === undefined ? {} : {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  } catch {
    banner('The server does not answer: it was stopped, or nothing was asked of it for long. Run “shamba tune --serve” again and reload this page; its address keeps the inputs.');
    throw Object.assign(new Error('no server'), { silent: true });
  }
  const answer = await response.json();
  if (response.ok) return answer;
  throw Object.assign(new Error(answer.error), answer);
}

function banner(text) {
  byId('banner').textContent = text;
  byId('banner').hidden = !text;
}

/** Inputs as the server tells them, as the text of fields. */
function texts(input) {
  const all = {};
  for (const { key, kind } of FIELDS) {
    const text = kind === 'choice' ? input[key] ?? '' : format.exact(kind, input[key]);
    if (text !== '') all[key] = text;
  }
  return all;
}

function remember() {
  for (const key of SHARES) state.weights[key] = state.now[key] ?? '0%';
}

/** Takes another set of inputs. */
function take(base, now) {
  state.base = { ...base };
  state.now = { ...now };
  remember();
  refresh(0);
}

/** A field was changed by hand. */
async function changed(key, text) {
  state.now[key] = text;
  const { instead } = FIELD[key];
  if (instead && text) state.now[instead] = '';
  if (form.isShare(key) && form.balanced()) {
    state.weights[key] = text || '0%';
    const mine = ++turn;
    try {
      const shares = await ask('api/balance', { changed: key, shares: state.weights });
      if (mine !== turn) return;
      for (const [name, share] of Object.entries(shares)) {
        if (name !== key) state.now[name] = format.exact('share', share);
      }
    } catch (error) {
      if (mine === turn) refuse({ ...error, message: error.message, fields: error.fields?.length ? error.fields : [key] });
      return;
    }
  } else if (form.isShare(key)) {
    state.weights[key] = text || '0%';
  }
  refresh(40);
}

function undo(key) {
  if (form.isShare(key) && form.balanced()) {
    for (const share of SHARES) state.now[share] = state.base[share] ?? '';
    remember();
  } else {
    state.now[key] = state.base[key] ?? '';
  }
  const { instead } = FIELD[key];
  if (instead) state.now[instead] = state.base[instead] ?? '';
  byId(key).focus();
  refresh(0);
}

/** Shows the inputs, and their designs once the server has told them. */
function refresh(wait) {
  form.show(state.now, state.base);
  const different = link.changes(state.base, state.now);
  byId('changes').hidden = different.length === 0;
  const names = different.map((key) => FIELD[key].label);
  byId('changed').textContent = different.length ? `What if: ${[...new Set(names)].join(', ')}` : '';
  history.replaceState(null, '', `#${link.write(state.base, state.now)}`);
  turn += 1;
  clearTimeout(timer);
  timer = setTimeout(answer, wait, turn, different.length > 0);
}

async function answer(mine, differs) {
  byId('results').setAttribute('aria-busy', 'true');
  try {
    const asked = JSON.stringify(state.base);
    if (state.baseAsked !== asked) {
      // A present that makes no sense must not keep a what-if from being shown.
      const base = await ask('api/design', state.base).catch((error) => {
        if (differs && !error.silent) return null;
        throw error;
      });
      if (mine !== turn) return;
      state.baseAnswer = base;
      state.baseAsked = base ? asked : null;
    }
    const now = differs ? await ask('api/design', state.now) : state.baseAnswer;
    if (mine !== turn) return;
    accept(now, differs ? state.baseAnswer : null);
  } catch (error) {
    if (mine !== turn) return;
    // A link whose what-if makes no sense still shows the present.
    if (!shownOnce && state.baseAnswer) accept(state.baseAnswer, null);
    refuse(error);
  } finally {
    if (mine === turn) byId('results').removeAttribute('aria-busy');
  }
}

function accept(now, base) {
  shownOnce = true;
  form.wrong([], '');
  form.place(now.input);
  byId('error').hidden = true;
  byId('results').classList.remove('stale');
  banner('');
  byId('summary').replaceChildren(...results.summary(now, base));
  byId('effect').textContent = base ? results.effect(now, base) : '';
  byId('costs').replaceChildren(results.costs(now, base));
  byId('assumed').hidden = now.assumed.length === 0;
  byId('assumed').textContent = `Assumed, as no field says otherwise: ${now.assumed.join('; ')}.`;
  chart.draw(byId('chart'), byId('readout'), byId('marks'), now, base);
  tree.draw(byId('trees'), [['Present', now.present], ['Best', now.best]]);
  byId('steps').replaceChildren(results.steps(now));
  byId('options').replaceChildren(results.options(now, copy));
  showMeasured();
}

function refuse(error) {
  if (error.silent) return;
  const fields = error.fields ?? [];
  form.wrong(fields, error.message);
  const box = byId('error');
  box.replaceChildren();
  for (const text of [error.message, error.hint]) {
    if (!text) continue;
    const line = document.createElement(box.childNodes.length ? 'p' : 'strong');
    line.textContent = form.named(text);
    box.append(line);
  }
  box.hidden = false;
  if (!shownOnce) byId('summary').textContent = 'There is nothing to show for these inputs.';
  byId('results').classList.add('stale');
  byId('results').removeAttribute('aria-busy');
}

function showMeasured() {
  const { database } = state.start;
  const shown = Boolean(database && state.baseAnswer);
  byId('measured').hidden = !shown;
  if (shown) byId('measured-body').replaceChildren(measured(database, state.baseAnswer));
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Copying is not allowed';
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

async function measure() {
  const button = byId('measure');
  button.disabled = true;
  try {
    state.start = await ask('api/measure', {});
    showSource(state.start);
    // What is predicted for the mix of these lookups has changed with them.
    state.baseAsked = null;
    refresh(0);
  } catch (error) {
    refuse(error);
  } finally {
    button.disabled = false;
  }
}

async function stop() {
  await ask('api/stop', {});
  banner('The server has stopped. The address of this page keeps the inputs.');
  byId('stop').disabled = true;
}

function showSource({ database, from_database: told, assumed }) {
  const parts = [];
  if (told.length) parts.push(`From the database: ${told.join('; ')}.`);
  if (assumed.length) parts.push(`Assumed, as nothing said otherwise: ${assumed.join('; ')}.`);
  byId('source').textContent = parts.join(' ');
  byId('origin').hidden = parts.length === 0;
  byId('attached').textContent = database ? `Attached to the database ${database.path}.` : '';
}

async function begin() {
  form.build(byId('groups'), changed, undo);
  byId('inputs').addEventListener('submit', (event) => event.preventDefault());
  byId('adopt').addEventListener('click', () => take(state.now, state.now));
  byId('undo').addEventListener('click', () => take(state.base, state.base));
  byId('restart').addEventListener('click', () => {
    const inputs = texts(state.start.input);
    take(inputs, inputs);
  });
  byId('copy-link').addEventListener('click', (event) => copy(window.location.href, event.target));
  byId('measure').addEventListener('click', measure);
  byId('stop').addEventListener('click', () => stop().catch(() => {}));
  window.addEventListener('hashchange', () => {
    const kept = link.read(window.location.hash);
    if (kept) take(kept.base, kept.now);
  });
  state.start = await ask('api/start');
  showSource(state.start);
  const inputs = texts(state.start.input);
  const kept = link.read(window.location.hash) ?? { base: inputs, now: inputs };
  take(kept.base, kept.now);
}

begin().catch((error) => error.silent || banner(error.message));
