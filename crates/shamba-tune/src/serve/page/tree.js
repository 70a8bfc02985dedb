// A design's full tree: one row a level, its runs, bytes and filters.

import { el, onWidth, svg } from './dom.js';
import * as format from './format.js';

const ROW = 56;
const MOST_PARTS = 24;

/** Draws designs side by side, on one scale. */
export function draw(root, plans) {
  const sizes = plans.flatMap(([, plan]) => [plan.buffer_bytes, ...plan.levels.map((level) => level.bytes)]);
  const range = [Math.min(...sizes), Math.max(...sizes)];
  root.replaceChildren(...plans.map(([name, plan]) => {
    const frame = el('div', { class: 'frame' });
    onWidth(frame, (width) => frame.replaceChildren(picture(name, plan, width, range)));
    return el('figure', {}, el('figcaption', {}, el('strong', {}, name), `: ${format.brief(plan)}, `
      + `${plan.costs.levels} level${plan.costs.levels === 1 ? '' : 's'}`), frame);
  }));
}

const runs = (level) => (level.runs === 1 ? '1 run' : `${format.count(level.runs)} runs`);

function filters(level) {
  if (level.bits_per_key === 0) return 'no filter';
  return `${format.bits(level.bits_per_key)} bits/key, ${format.percent(level.false_positive_rate)} false positives`;
}

function picture(name, plan, width, [least, most]) {
  const height = ROW * (plan.levels.length + 1) + 4;
  const full = width - 2;
  const wide = (bytes) => {
    const where = most > least ? Math.log(bytes / least) / Math.log(most / least) : 1;
    return full * (0.16 + 0.84 * Math.min(1, Math.max(0, where)));
  };
  const words = [`write buffer ${format.bytes(plan.buffer_bytes)}`,
    ...plan.levels.map((level) => `level ${level.level}: ${runs(level)}, ${format.bytes(level.bytes)}, ${filters(level)}`)];
  const drawing = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${name}: ${words.join('; ')}` });
  drawing.append(svg('g', {},
    bar(full / 2, 14, wide(plan.buffer_bytes), 1, 'buffer'),
    svg('text', { x: 0, y: 11, class: 'level' }, 'write buffer'),
    svg('text', { x: width, y: 11, 'text-anchor': 'end', class: 'level' }, `${format.bytes(plan.buffer_bytes)} of memory`)));
  plan.levels.forEach((level, at) => {
    const top = ROW * (at + 1);
    const strength = Math.min(1, level.bits_per_key / 16);
    drawing.append(svg('g', {},
      svg('text', { x: 0, y: top + 11, class: 'level' }, `level ${level.level}`),
      svg('text', { x: width, y: top + 11, 'text-anchor': 'end', class: 'level' }, `${runs(level)}, ${format.bytes(level.bytes)}`),
      bar(full / 2, top + 16, wide(level.bytes), level.runs, level.bits_per_key === 0 ? 'bare' : 'filtered', strength),
      svg('text', { x: full / 2, y: top + 47, 'text-anchor': 'middle', class: 'filter' }, filters(level))));
  });
  return drawing;
}

/** A level's runs, all of one size, around a middle. */
function bar(middle, top, width, count, kind, strength = 0) {
  const parts = Math.max(1, Math.min(count, MOST_PARTS, Math.floor(width / 5)));
  const gap = parts > 1 ? Math.min(3, (width / parts) * 0.25) : 0;
  const each = (width - gap * (parts - 1)) / parts;
  const group = svg('g', { class: `bar ${kind}` });
  for (let part = 0; part < parts; part += 1) {
    const rect = svg('rect', { x: middle - width / 2 + part * (each + gap), y: top, width: Math.max(1, each), height: 18, rx: Math.min(3, each / 2) });
    if (kind === 'filtered') rect.setAttribute('fill-opacity', (0.25 + 0.75 * strength).toFixed(3));
    group.append(rect);
  }
  return group;
}
