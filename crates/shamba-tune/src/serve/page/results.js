// Designs and costs as numbers, what each step gains, and the best design as options.

import { el, table } from './dom.js';
import * as format from './format.js';

const DESIGN = [
  ['Merge policy', (plan) => format.policy(plan.policy)],
  ['Size ratio', (plan) => String(plan.size_ratio)],
  ['Levels', (plan) => String(plan.costs.levels)],
  ['Write buffer', (plan) => format.bytes(plan.buffer_bytes)],
  ['Filters', (plan) => format.bytes(plan.filter_bytes)],
  ['Bits per key', (plan) => format.bits(plan.bits_per_key)],
  ['Filters divided', (plan) => format.allocation(plan.allocation)],
];

const COSTS = [
  ['Lookup, absent key', (costs) => format.pages(costs.empty_lookup)],
  ['Lookup, existing key', (costs) => format.pages(costs.existing_lookup)],
  ['Point lookup, mixed', (costs) => format.pages(costs.point_lookup)],
  ['Range lookup', (costs) => format.pages(costs.range_lookup)],
  ['Update', (costs) => format.pages(costs.update)],
  ['Average operation', (costs) => format.pages(costs.average)],
  ['Operations per second', (costs) => format.perSecond(costs.throughput)],
];

/** One sentence. */
export function summary(now, base) {
  const { best } = now;
  const than = base ? ` With the present inputs it was ${format.perSecond(base.best.costs.throughput)}.` : '';
  return [
    el('strong', {}, `${capital(format.policy(best.policy))}, size ratio ${best.size_ratio}, a write buffer of ${format.bytes(best.buffer_bytes)}`),
    ` and ${format.bits(best.bits_per_key)} filter bits per key serve${base ? ' the changed inputs' : ''} best: `,
    el('strong', {}, `${format.perSecond(best.costs.throughput)} operations per second`),
    `, ${format.gain(now.speedup)} against the present design.${than}`,
  ];
}

/** What the changed inputs do to both designs, in a line. */
export function effect(now, base) {
  const change = (kind) => [base, now].map((side) => format.perSecond(side[kind].costs.throughput)).join(' → ');
  return `Operations per second: present ${change('present')}, best ${change('best')}`;
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The present and the best design, and both for the present inputs if those shown are others. */
export function costs(now, base) {
  const sides = base ? [base, now] : [now];
  const plans = sides.flatMap((side) => [side.present, side.best]);
  const names = plans.map((_, at) => ({ text: at % 2 ? 'Best' : 'Present', attributes: { class: at % 2 ? 'best' : 'present' } }));
  const head = base
    ? [['', { text: 'Present inputs', attributes: { colspan: 2 } }, { text: 'What if', attributes: { colspan: 2, class: 'what-if' } }], ['Design', ...names]]
    : [['Design', ...names]];
  const group = (of, rows) => rows.map(([name, show]) => [name, ...plans.map((plan) => show(of(plan)))]);
  const title = [{ text: 'Pages read by', attributes: { class: 'part' } }, ...plans.map(() => '')];
  return table(head, [group((plan) => plan, DESIGN), [title, ...group((plan) => plan.costs, COSTS)]], 'Designs and their predicted costs');
}

const STEPS = {
  'present': 'The present design',
  'memory': 'Filters fitted to the memory',
  'filters': 'Filters divided by Monkey',
  'memory-split': '… and memory divided anew',
  'merge-policy': '… and merge policy',
  'size-ratio': '… and size ratio',
  'merging': '… and both of merging',
  'all': 'All together',
};

/** A bar for each step. */
export function steps(now) {
  const most = Math.max(...now.contributions.map((step) => step.speedup ?? 0), 1);
  return el('ul', { class: 'steps' }, now.contributions.map((step) => {
    const bar = el('span', { class: 'bar' });
    bar.style.width = `${Math.max(0.5, ((step.speedup ?? most) / most) * 100)}%`;
    const gained = step.step === 'present' ? '' : format.gain(step.speedup);
    return el('li', {},
      el('span', { class: 'step' }, STEPS[step.step] ?? step.step),
      el('span', { class: 'track' }, bar),
      el('span', { class: 'number' }, gained || format.perSecond(step.costs.throughput)),
      el('span', { class: 'detail' }, `${format.brief(step)}, buffer ${format.bytes(step.buffer_bytes)}`));
  }));
}

/** Source text of options and the command, each to be copied. */
export function options(now, copy) {
  const { options: best } = now;
  const block = (title, text) => el('div', { class: 'code' },
    el('p', {}, title, el('button', { type: 'button', onclick: (event) => copy(text, event.target) }, 'Copy')),
    el('pre', { tabindex: 0, 'aria-label': title }, el('code', {}, text)));
  const notes = best.limited.map((limit) => el('li', {}, `The design has ${limit}.`));
  return el('div', {},
    block('Options of a keyspace, in Rust', best.rust),
    notes.length ? el('ul', { class: 'note' }, notes) : null,
    el('p', { class: 'note' }, `Predicted for these options: ${format.pages(best.costs.average)} pages an operation, `
      + `${format.perSecond(best.costs.throughput)} operations per second.`),
    block('The same question on the command line', now.command));
}
