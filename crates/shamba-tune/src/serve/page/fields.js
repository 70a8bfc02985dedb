// All inputs: their names are those of the flags of `shamba tune`. `from` and `to` are the ends of a
// slider; what is typed may lie beyond them, and the server says what is too far.

const POLICIES = [['leveling', 'Leveling'], ['tiering', 'Tiering'], ['lazy-leveling', 'Lazy leveling']];
const DIVISIONS = [['uniform', 'Uniform'], ['monkey-zero', 'Monkey, for absent keys'], ['monkey', 'Monkey, for the lookups there are']];
const FILTERS = [['bloom', 'Bloom'], ['blocked-bloom', 'Blocked Bloom'], ['ribbon', 'Ribbon'], ['ideal', 'Ideal (the papers’)']];

const KiB = 1024;
const GiB = 1024 ** 3;
const TiB = 1024 ** 4;

export const GROUPS = [
  {
    title: 'Workload',
    shares: true,
    fields: [
      { key: 'empty-lookups', label: 'Lookups of absent keys', kind: 'share', from: 0, to: 1 },
      { key: 'existing-lookups', label: 'Lookups of existing keys', kind: 'share', from: 0, to: 1 },
      { key: 'range-lookups', label: 'Range lookups', kind: 'share', from: 0, to: 1 },
      { key: 'updates', label: 'Updates', kind: 'share', from: 0, to: 1, help: 'Insertions, changes and deletions' },
      { key: 'range-entries', label: 'Entries a range returns', kind: 'count', from: 1, to: 1e6, instead: 'selectivity', help: 'Or its selectivity, below' },
      { key: 'selectivity', label: 'Selectivity of ranges', kind: 'share', from: 1e-9, to: 1, log: true, instead: 'range-entries', help: 'Part of all entries that a range returns' },
    ],
  },
  {
    title: 'Data and memory',
    fields: [
      { key: 'entries', label: 'Entries', kind: 'count', from: 1e4, to: 1e12, help: 'Old versions and deletions included' },
      { key: 'entry-size', label: 'Entry size', kind: 'bytes', from: 8, to: 64 * KiB },
      { key: 'memory', label: 'Memory', kind: 'bytes', from: 64 * KiB, to: TiB, help: 'Of the write buffer and all filters together' },
      { key: 'filter', label: 'Filter family', kind: 'choice', choices: FILTERS },
    ],
  },
  {
    title: 'Device',
    fields: [
      { key: 'page-size', label: 'Page size', kind: 'bytes', from: 512, to: 64 * KiB },
      { key: 'read-latency', label: 'Read latency, µs', kind: 'number', from: 0.1, to: 20000, help: 'Flash about 100, disks about 10,000' },
      { key: 'write-cost', label: 'Cost of a write, in reads', kind: 'number', from: 0.1, to: 100 },
    ],
  },
  {
    title: 'Present design',
    fields: [
      { key: 'present-merge-policy', label: 'Merge policy', kind: 'choice', choices: POLICIES },
      { key: 'present-size-ratio', label: 'Size ratio T', kind: 'whole', from: 2, to: 100 },
      { key: 'present-write-buffer', label: 'Write buffer', kind: 'bytes', from: 4 * KiB, to: 64 * GiB, ends: ['page-size', 'memory'], help: 'The memory split: filters get the rest' },
      { key: 'present-bits-per-key', label: 'Filter bits per key', kind: 'number', from: 0.1, to: 32, optional: 'rest', help: 'Empty: what memory the buffer leaves' },
      { key: 'present-allocation', label: 'Filters divided', kind: 'choice', choices: DIVISIONS },
    ],
  },
  {
    title: 'What must hold',
    closed: true,
    fields: [
      { key: 'max-lookup-cost', label: 'Most pages a lookup costs', kind: 'number', from: 0.001, to: 100, optional: 'none' },
      { key: 'max-update-cost', label: 'Most pages an update costs', kind: 'number', from: 0.001, to: 100, optional: 'none' },
      { key: 'merge-policy', label: 'Merge policy', kind: 'choice', choices: [['', 'Any'], ...POLICIES] },
      { key: 'size-ratio', label: 'Size ratio T', kind: 'whole', from: 2, to: 100, optional: 'any' },
      { key: 'write-buffer', label: 'Write buffer', kind: 'bytes', from: 4 * KiB, to: 64 * GiB, ends: ['page-size', 'memory'], optional: 'any' },
      { key: 'allocation', label: 'Filters divided', kind: 'choice', choices: DIVISIONS },
    ],
  },
];

export const FIELDS = GROUPS.flatMap((group) => group.fields);
export const FIELD = Object.fromEntries(FIELDS.map((field) => [field.key, field]));
export const SHARES = FIELDS.filter((field) => field.kind === 'share' && !field.log).map((field) => field.key);
