// What a database measured, beside what is predicted for the present design and inputs.

import { el, table } from './dom.js';
import * as format from './format.js';

/** The tables of an attached database. */
export function measured(database, base) {
  const { measured: found, path, keys, keyspace } = database;
  const where = `${path}${keyspace ? `, keyspace ${keyspace}` : ''}`;
  return el('div', {},
    el('p', {}, `In ${where}: ${found.levels.length} level${found.levels.length === 1 ? '' : 's'} in use, ${format.count(found.buffered)} entries in memtables. `,
      keys ? `Lookups are those of the keys in ${keys}.` : 'No lookups were made: start with --keys FILE to measure some.'),
    found.lookups ? lookups(found.lookups, base) : null,
    el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Levels, measured and predicted' }, levels(found.levels, base.present.levels)));
}

function lookups(found, base) {
  const rows = [
    ['Data searched: pages for each lookup', format.pages(found.searched), base.measured_lookup === null ? '–' : format.pages(base.measured_lookup)],
    ['Storage reads of data for each lookup', format.pages(found.data_reads), 'no cache in the model'],
    ['Storage reads of filters and index', format.pages(found.filter_reads + found.index_reads), '0'],
  ];
  return el('div', {},
    table([['', 'measured', 'predicted']], [rows], 'Lookups, measured and predicted'),
    el('p', { class: 'note' }, `${format.count(found.lookups)} lookups, ${format.percent(found.positive)} of which found their key. `
      + 'The prediction is for a full tree of the present design.'));
}

function levels(found, predicted) {
  const most = Math.max(found.at(-1)?.level ?? 0, predicted.length);
  const rows = [];
  for (let number = 0; number <= most; number += 1) {
    const real = found.find((level) => level.level === number);
    const model = predicted.find((level) => level.level === number);
    if (!real?.entries && !model) continue;
    const both = (show) => [real ? show(real) : '–', model ? show(model) : '–'];
    rows.push([
      number === 0 ? '0, flushed' : String(number),
      ...both((level) => format.count(level.runs)),
      ...both((level) => format.count(level.entries)),
      ...both((level) => format.bits(level.bits_per_key)),
      real ? format.percent(real.false_positive_rate) : '–',
      real ? format.percent(real.predicted_false_positive_rate) : '–',
      model ? format.percent(model.false_positive_rate) : '–',
    ]);
  }
  const two = (text) => ({ text, attributes: { colspan: 2 } });
  return table(
    [['', two('Runs'), two('Entries'), two('Bits per key'), { text: 'False positives', attributes: { colspan: 3 } }],
      ['Level', 'now', 'model', 'now', 'model', 'now', 'model', 'measured', 'model, these filters', 'model, full tree']],
    [rows], 'Levels: as they are, and as the model has them in a full tree of the present design');
}
