// The trade-off of lookups against updates: curves of the present and the best design's memory, and
// designs as marks, which the table below lists too.

import { el, onWidth, svg, table } from './dom.js';
import * as format from './format.js';

/** Marks' shapes by kind, around the origin. */
const SHAPES = {
  present: () => svg('path', { d: 'M0 -8L8 0L0 8L-8 0Z' }),
  best: () => svg('path', { d: 'M0 -10L2.9 -3.1L9.5 -3.1L4.3 1.7L6.2 8.5L0 4.6L-6.2 8.5L-4.3 1.7L-9.5 -3.1L-2.9 -3.1Z' }),
  store: () => svg('circle', { r: 5 }),
};

const mark = (kind, name, design, costs, more) => ({
  kind, name, design, lookup: costs.point_lookup, update: costs.update, ...more,
});

function marks(now, base) {
  const stores = now.stores.filter((store) => store.plan)
    .map((store) => mark('store', store.name, store.plan, store.plan.costs, { bits: store.plan.bits_per_key, buffer: store.plan.buffer_bytes }));
  const own = (answer, old) => ['present', 'best'].map((kind) => {
    const plan = answer[kind];
    const name = `${kind === 'best' ? 'Best' : 'Present'}${old ? ', present inputs' : ''}`;
    return mark(kind, name, plan.design ?? plan, plan.costs, { bits: plan.bits_per_key, buffer: plan.buffer_bytes, old });
  });
  return [...stores, ...(base ? own(base, true) : []), ...own(now, false)];
}

const usable = (point) => point.lookup > 0 && point.update > 0;

/** The ends of an axis: those of the marks, and some of the curves around them. */
function ends(values, curve) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = Math.max(4, (high / low) ** 0.25);
  const from = Math.max(low / room, Math.min(low / 1.3, ...curve));
  const to = Math.min(high * room, Math.max(high * 1.3, ...curve));
  return [from, to];
}

function ticks([from, to]) {
  const all = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.ceil(Math.log10(to)); power += 1) {
    for (const step of [1, 2, 3, 4, 5, 6, 7, 8, 9]) all.push({ value: Number(`${step}e${power}`), step });
  }
  const seen = all.filter(({ value }) => value >= from && value <= to);
  const decades = Math.log10(to / from);
  if (decades > 5) return seen.filter(({ step }) => step === 1);
  return decades > 1.5 ? seen.filter(({ step }) => step === 1 || step === 2 || step === 5) : seen;
}

/** Draws into `root`, tells of points in `readout`, and lists the marks in `list`. */
export function draw(root, readout, list, now, base) {
  const shown = marks(now, base).filter(usable);
  list.replaceChildren(legend(shown, now));
  root.replaceChildren();
  if (shown.length === 0) {
    root.append(el('p', {}, 'No design has costs that a logarithmic axis could show.'));
    return;
  }
  const frame = el('div', { class: 'frame' });
  root.append(lines(), frame);
  onWidth(frame, (width) => frame.replaceChildren(picture(width, shown, now, readout)));
}

function picture(width, shown, now, readout) {
  const height = Math.round(Math.min(440, Math.max(300, width * 0.6)));
  const box = { left: 58, right: width - 14, top: 14, bottom: height - 46 };
  const curves = [['present', now.present_curve], ['best', now.best_curve]]
    .map(([kind, points]) => [kind, points.filter(usable).filter((point) => point.efficient).sort((a, b) => a.update - b.update)]);
  const along = curves.flatMap(([, points]) => points);
  const updates = ends(shown.map((point) => point.update), along.map((point) => point.update));
  const lookups = ends(shown.map((point) => point.lookup), along.map((point) => point.lookup));
  const scale = ([from, to], start, end) => (value) => start + (Math.log(value / from) / Math.log(to / from)) * (end - start);
  const x = scale(updates, box.left, box.right);
  const y = scale(lookups, box.bottom, box.top);

  const picture = svg('svg', {
    width, height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: 'application', 'aria-roledescription': 'chart',
    'aria-label': 'Cost of a point lookup against cost of an update, in pages, both axes logarithmic. Arrow keys walk along the best design’s curve; the table below lists the designs.',
  });
  picture.append(svg('clipPath', { id: 'plot' }, svg('rect', { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top })));
  const grid = svg('g', { class: 'grid' });
  let last = -Infinity;
  for (const { value, step } of ticks(updates)) {
    const at = x(value);
    grid.append(svg('line', { x1: at, x2: at, y1: box.top, y2: box.bottom, class: step === 1 ? 'major' : null }));
    if (at - last < 44) continue;
    grid.append(svg('text', { x: at, y: box.bottom + 17, 'text-anchor': 'middle' }, tick(value)));
    last = at;
  }
  last = Infinity;
  for (const { value, step } of ticks(lookups)) {
    const at = y(value);
    grid.append(svg('line', { x1: box.left, x2: box.right, y1: at, y2: at, class: step === 1 ? 'major' : null }));
    if (last - at < 20) continue;
    grid.append(svg('text', { x: box.left - 7, y: at + 4, 'text-anchor': 'end' }, tick(value)));
    last = at;
  }
  const middle = (box.top + box.bottom) / 2;
  const unit = width < 480 ? 'pages (log.)' : 'pages (logarithmic)';
  grid.append(
    svg('rect', { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, class: 'axes' }),
    svg('text', { x: (box.left + box.right) / 2, y: height - 8, 'text-anchor': 'middle', class: 'axis' }, `cost of an update, ${unit}`),
    svg('text', { x: 13, y: middle, 'text-anchor': 'middle', class: 'axis', transform: `rotate(-90 13 ${middle})` }, `cost of a point lookup, ${unit}`),
  );
  const plot = svg('g', { 'clip-path': 'url(#plot)' });
  for (const [kind, points] of curves) {
    plot.append(svg('polyline', { class: `curve ${kind}`, points: points.map((point) => `${x(point.update)},${y(point.lookup)}`).join(' ') }));
    for (const point of points) plot.append(svg('circle', { class: `dot ${kind}`, cx: x(point.update), cy: y(point.lookup), r: 2 }));
  }
  const cursor = svg('circle', { class: 'cursor', r: 7, visibility: 'hidden' });
  plot.append(cursor);
  picture.append(grid, plot, places(shown, x, y, box));
  walk(picture, curves, x, y, cursor, readout);
  return picture;
}

const tick = (value) => (value >= 1e4 || value < 1e-3 ? value.toExponential(0) : String(value));

/** Marks with names beside them where no other name is. */
function places(shown, x, y, box) {
  const group = svg('g', {});
  const names = svg('g', {});
  const taken = shown.map((point) => {
    const [at, level] = [x(point.update), y(point.lookup)];
    return { left: at - 9, right: at + 9, top: level - 9, bottom: level + 9 };
  });
  const free = (area) => area.left >= box.left && area.right <= box.right + 8 && area.top >= box.top - 10 && area.bottom <= box.bottom
    && !taken.some((other) => area.left < other.right && area.right > other.left && area.top < other.bottom && area.bottom > other.top);
  // Those that matter most are named first, and drawn last.
  const shapes = [];
  for (const point of [...shown].reverse()) {
    const [at, level] = [x(point.update), y(point.lookup)];
    const name = point.old ? '' : point.name;
    const wide = name.length * 7.2;
    const title = `${point.name}: ${format.brief(point.design)}; lookup ${format.pages(point.lookup)}, update ${format.pages(point.update)} pages`;
    const shape = SHAPES[point.kind]();
    shape.setAttribute('class', `mark ${point.kind}${point.old ? ' old' : ''}`);
    shape.append(svg('title', {}, title));
    shape.setAttribute('transform', `translate(${at} ${level})`);
    const tries = [[12, 4, 'start'], [-12, 4, 'end'], [0, -13, 'middle'], [0, 22, 'middle'], [12, -12, 'start'], [12, 20, 'start'], [-12, -12, 'end'], [-12, 20, 'end'],
      [14, -28, 'start'], [14, 36, 'start'], [-14, -28, 'end'], [-14, 36, 'end']];
    for (const [dx, dy, anchor] of name ? tries : []) {
      const start = at + dx - { start: 0, middle: wide / 2, end: wide }[anchor];
      const area = { left: start, right: start + wide, top: level + dy - 12, bottom: level + dy + 3 };
      if (!free(area)) continue;
      taken.push(area);
      if (Math.abs(dy) > 24) group.append(svg('line', { class: 'leader', x1: at, y1: level, x2: at + dx, y2: level + dy - (dy > 0 ? 12 : -3) }));
      names.append(svg('text', { x: at + dx, y: level + dy, 'text-anchor': anchor, class: `name ${point.kind}` }, name));
      break;
    }
    shapes.unshift(shape);
  }
  group.append(...shapes, names);
  return group;
}

/** Tells of the point under the pointer, or of that to which the arrow keys lead. */
function walk(picture, curves, x, y, cursor, readout) {
  const hint = 'Points of the curves: move over them, or use the arrow keys on the chart.';
  readout.textContent = hint;
  const tell = (kind, point) => {
    cursor.setAttribute('cx', x(point.update));
    cursor.setAttribute('cy', y(point.lookup));
    cursor.setAttribute('visibility', 'visible');
    readout.textContent = `${kind === 'best' ? 'With the best design’s memory' : 'With the present memory and filters'}: ${format.brief({ ...point })}, `
      + `${point.levels} level${point.levels === 1 ? '' : 's'}: lookup ${format.pages(point.lookup)}, update ${format.pages(point.update)} pages.`;
  };
  const all = curves.flatMap(([kind, points]) => points.map((point) => ({ kind, point })));
  const near = (event) => {
    const area = picture.getBoundingClientRect();
    const [px, py] = [event.clientX - area.left, event.clientY - area.top];
    const far = ({ point }) => Math.hypot(x(point.update) - px, y(point.lookup) - py);
    const nearest = all.reduce((best, item) => (!best || far(item) < far(best) ? item : best), null);
    if (nearest && far(nearest) < 40) tell(nearest.kind, nearest.point);
  };
  // A finger touches without having moved there.
  picture.addEventListener('pointermove', near);
  picture.addEventListener('pointerdown', near);
  const [, best] = curves.find(([kind]) => kind === 'best');
  let at = -1;
  picture.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!step || !best.length) return;
    event.preventDefault();
    at = Math.min(best.length - 1, Math.max(0, at + step));
    tell('best', best[at]);
  });
}

function lines() {
  const line = (kind, text) => el('span', {}, svg('svg', { width: 30, height: 10, 'aria-hidden': 'true' }, svg('path', { class: `curve ${kind}`, d: 'M0 5H30' })), text);
  return el('p', { class: 'lines note' },
    line('best', 'with the best design’s memory and filters'), line('present', 'with the present memory and filters'),
    'Curves go through all merge policies and size ratios; lower and further left is better. Stores have the memory of their own defaults, whatever is given here.');
}

function legend(shown, now) {
  const symbol = (point) => {
    const shape = SHAPES[point.kind]();
    shape.setAttribute('class', `mark ${point.kind}${point.old ? ' old' : ''}`);
    return svg('svg', { width: 20, height: 20, viewBox: '-10 -10 20 20', 'aria-hidden': 'true', class: 'symbol' }, shape);
  };
  const order = [...shown].sort((a, b) => (a.kind === 'store') - (b.kind === 'store'));
  const rows = order.map((point) => [
    el('span', { class: 'with-symbol' }, symbol(point), point.name),
    `${format.pages(point.lookup)}`, `${format.pages(point.update)}`,
    format.brief(point.design), format.bytes(point.buffer), format.bits(point.bits),
  ]);
  const missing = now.stores.filter((store) => !store.plan).map((store) => store.name);
  const note = missing.length
    ? el('p', { class: 'note' }, `Not shown, as ${missing.length === 1 ? 'its' : 'their'} write buffer and size ratio do not fit these data: ${missing.join(', ')}.`)
    : null;
  const head = ['', 'lookup', 'update', 'merging', 'buffer', 'bits/key'];
  return el('div', {}, table([head], [rows], 'Designs on the chart, costs in pages'), note);
}
